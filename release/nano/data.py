"""Prepare the data: a vocabulary and corpora from novels and CC BY textbooks."""

import argparse
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from albert.data.corpus import open_corpus
from albert.data.overlap import find_overlap
from albert.data.prepare import PrepareSettings, prepare_corpus
from albert.data.shards import Manifest
from albert.data.sources import iter_plain_texts
from albert.errors import FileFormatError, InputError
from albert.files import atomic_dir, write_json, write_text
from albert.progress import Reporter
from albert.settings import build_settings
from albert.tasks.catalogue import PUBLISHED_TASKS, GlueTask
from albert.text.folder import has_tokenizer, load_tokenizer, save_tokenizer
from albert.text.train_vocabulary import VocabularyProgress, VocabularySettings, train_sentencepiece
from albert.training.run_folder import count_cores
from release.nano.books import Book, select_books

# The corpora: their folder, the books they are made of, and whether these are cut into passages.
_CORPORA = (("corpus", "train", True), ("held-out", "held-out", True), ("windows", "held-out", False))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the step."""
    parser.add_argument(
        "--data", type=Path, required=True, help="unpacked: novels/, textbooks/ and, for overlaps, glue/"
    )
    parser.add_argument("--out", type=Path, required=True, help="the folder to write; stopped, it goes on")
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--passages", type=int, default=200, help="characters of a passage, at least")
    parser.add_argument("--workers", type=int, default=count_cores())


def run(args: argparse.Namespace, reporter: Reporter) -> str:
    """Write text/, vocab/, corpus/, held-out/, windows/ and, last, data.json."""
    books = select_books(args.data)
    split = {"train": books.train, "held-out": books.held_out}
    for name, chosen in split.items():
        _write_texts(chosen, args.out / "text" / name)
    vocab = _train_vocabulary(
        args.out / "text" / "train", args.out / "vocab", size=args.vocab_size, reporter=reporter
    )
    manifests = {
        name: _prepare(
            args.out / name,
            text=args.out / "text" / source,
            vocab=vocab,
            passages=args.passages if has_passages else None,
            workers=args.workers,
            reporter=reporter,
        )
        for name, source, has_passages in _CORPORA
    }
    reporter.show("overlap", "looking for the dev sets of tasks")
    metadata = {
        "vocab_size": args.vocab_size,
        "passages": args.passages,
        "books": {name: [_describe(book) for book in chosen] for name, chosen in split.items()},
        "corpora": {name: _count(manifest) for name, manifest in manifests.items()},
        "overlap": measure_overlap(args.out / "corpus", args.data / "glue"),
    }
    write_json(args.out / "data.json", metadata)
    num_tokens = manifests["corpus"].num_tokens
    return f"{args.out / 'data.json'}: {num_tokens:,} tokens of {len(books.train)} training books"


def _write_texts(books: Sequence[Book], folder: Path) -> None:
    """A copy of each book, or of the part of one."""
    with atomic_dir(folder) as aside:
        for book in books:
            path = aside / f"{book.name}.txt"
            if book.text is None:
                shutil.copyfile(book.path, path)
            else:
                write_text(path, book.text)


def _train_vocabulary(text: Path, out: Path, *, size: int, reporter: Reporter) -> Path:
    """A vocabulary of the training books alone, unless it is there."""
    if has_tokenizer(out):
        if load_tokenizer(out).vocab_size != size:
            raise InputError(f"{out}: is a vocabulary of another size than {size}; choose another --out")
        return out

    def show(progress: VocabularyProgress) -> None:
        reporter.show(progress.stage, progress.message, fraction=progress.fraction)

    texts = iter_plain_texts([str(text)], warn=reporter.say)
    tokenizer = train_sentencepiece(texts, settings=VocabularySettings(size=size), on_progress=show)
    with atomic_dir(out) as aside:
        save_tokenizer(tokenizer, aside)
    return out


def _prepare(
    out: Path, *, text: Path, vocab: Path, passages: int | None, workers: int, reporter: Reporter
) -> Manifest:
    settings = build_settings(PrepareSettings, values={"passage_characters": passages}, source="data")
    return prepare_corpus(
        [text], vocab=vocab, out=out, settings=settings, num_workers=workers, reporter=reporter
    )


def measure_overlap(corpus_dir: Path, glue: Path) -> list[dict[str, Any]]:
    """Measure how much of the dev set of each installed task is in the corpus."""
    corpus = open_corpus(corpus_dir)
    tokenizer = load_tokenizer(corpus_dir / "vocab")
    files = {}
    for name, task in PUBLISHED_TASKS.items():
        if isinstance(task, GlueTask) and "dev" in task.files:
            with suppress(FileFormatError):  # not installed
                files[name] = task.find_split(glue, "dev")[1]
    if not files:
        return []
    found = find_overlap(corpus, list(files.values()), tokenizer)
    return [{**asdict(each), "name": name} for name, each in zip(files, found, strict=True)]


def _describe(book: Book) -> dict[str, Any]:
    size = book.path.stat().st_size if book.text is None else len(book.text.encode())
    credit = None if book.attribution is None else asdict(book.attribution)
    return {"name": book.name, "num_bytes": size, "licence": book.licence, "attribution": credit}


def _count(manifest: Manifest) -> dict[str, Any]:
    counts = ("num_documents", "num_sentences", "num_tokens", "num_unknown", "num_characters", "dropped")
    return {**{name: getattr(manifest, name) for name in counts}, "vocabulary": manifest.vocabulary}
