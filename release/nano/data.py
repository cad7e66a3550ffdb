"""Prepare the data: split the books, train a vocabulary, and build the corpora.

Only novels in the public domain and CC BY textbooks are used. Whole novels and one chapter of a textbook are
held out, also from vocabulary training.
"""

import argparse
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from albert.data.corpus import open_corpus
from albert.data.overlap import find_overlap
from albert.data.prepare import PrepareSettings, prepare_corpus
from albert.data.shards import Manifest
from albert.data.sources import iter_plain_texts
from albert.errors import FileFormatError, InputError
from albert.files import atomic_dir, read_json, read_text, write_json, write_text
from albert.progress import Reporter
from albert.settings import build_settings
from albert.tasks.catalogue import PUBLISHED_TASKS, GlueTask
from albert.text.folder import has_tokenizer, load_tokenizer, save_tokenizer
from albert.text.train_vocabulary import VocabularyProgress, VocabularySettings, train_sentencepiece
from albert.threads import count_cores

_FIRST, _EVERY = 16, 32  # the held-out novels: every 32nd by name, starting with the 16th
# The sections of the other textbook are in no order, and some occur twice: no part of it can be held out.
_CHAPTER_BOOK, _CHAPTER_SECTION = "introduction-anthropology", "Food as a Material Artifact"
_CHAPTER_START = "Introduction"
_CC_BY = "Attribution 4.0 International"  # as in LICENCES.json
# The corpora: folder, books, and whether the books are cut into passages.
_CORPORA = (("corpus", "train", True), ("held-out", "held-out", True), ("windows", "held-out", False))


@dataclass(frozen=True)
class Attribution:
    """What a CC BY license requires to be named."""

    title: str
    authors: str
    publisher: str
    url: str


@dataclass(frozen=True)
class Book:
    """A text file, or the part of it in `text`."""

    name: str
    path: Path
    license: str
    attribution: Attribution | None = None
    text: str | None = None


# Titles and authors are from the prefaces of the books.
ATTRIBUTIONS = {
    "introduction-anthropology": Attribution(
        "Introduction to Anthropology",
        "Jennifer Hasty, David G. Lewis and Marjorie M. Snipes",
        "OpenStax, Rice University",
        "https://openstax.org/details/books/introduction-anthropology",
    ),
    "principles-economics-bundle": Attribution(
        "Principles of Economics 3e, with its editions for microeconomics and macroeconomics",
        "David Shapiro, Daniel MacDonald and Steven A. Greenlaw",
        "OpenStax, Rice University",
        "https://openstax.org/details/books/principles-economics-3e",
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the step."""
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with novels/, textbooks/ and, for the overlap, glue/"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder to write; run again to resume")
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--passages", type=int, default=200, help="minimum length of a passage in characters")
    parser.add_argument("--workers", type=int, default=count_cores())


def run(args: argparse.Namespace, reporter: Reporter) -> str:
    """Write text/, vocab/, corpus/, held-out/, windows/ and, last, data.json."""
    books = split_books(args.data)
    for name, chosen in books.items():
        write_texts(chosen, args.out / "text" / name)
    vocab = _train_vocabulary(
        args.out / "text" / "train", args.out / "vocab", size=args.vocab_size, reporter=reporter
    )
    manifests = {}
    for name, split, has_passages in _CORPORA:
        values = {"passage_characters": args.passages if has_passages else None}
        manifests[name] = prepare_corpus(
            [args.out / "text" / split],
            vocab=vocab,
            out=args.out / name,
            settings=build_settings(PrepareSettings, values=values, source="data"),
            num_workers=args.workers,
            reporter=reporter,
        )
    reporter.show("overlap", "searching the corpus for dev sets")
    metadata = {
        "vocab_size": args.vocab_size,
        "passages": args.passages,
        "books": describe_books(books),
        "corpora": {name: describe_corpus(manifest) for name, manifest in manifests.items()},
        "overlap": measure_overlap(args.out / "corpus", args.data / "glue"),
    }
    write_json(args.out / "data.json", metadata)
    num_tokens = manifests["corpus"].num_tokens
    return f"{args.out / 'data.json'}: {num_tokens:,} tokens of {len(books['train'])} training books"


def split_books(data: Path) -> dict[str, list[Book]]:
    """Split the novels and CC BY textbooks of a folder into `train` and `held-out`."""
    novels = sorted((data / "novels").glob("*.txt"))
    if len(novels) < _FIRST:
        raise InputError(
            f"{data / 'novels'}: has {len(novels)} novels; every {_EVERY}th from the {_FIRST}th on is held "
            f"out, so at least {_FIRST} are needed"
        )
    held_out = [Book(path.stem, path, "public domain") for path in novels[_FIRST - 1 :: _EVERY]]
    names = {book.name for book in held_out}
    train = [Book(path.stem, path, "public domain") for path in novels if path.stem not in names]
    folder = data / "textbooks"
    for name, license_name in sorted(read_json(folder / "LICENCES.json").items()):
        if license_name.strip() != _CC_BY:
            continue
        if name not in ATTRIBUTIONS:
            raise InputError(f"{folder / name}.txt: has no attribution, which CC BY requires; add one")
        path, attribution = folder / f"{name}.txt", ATTRIBUTIONS[name]
        text = None
        if name == _CHAPTER_BOOK:
            text, chapter = cut_chapter(read_text(path), _CHAPTER_SECTION, name=str(path))
            held_out.append(Book(f"{name}-chapter", path, "CC BY 4.0", attribution, chapter))
        train.append(Book(name, path, "CC BY 4.0", attribution, text))
    return {"train": train, "held-out": held_out}


def cut_chapter(text: str, heading: str, *, name: str) -> tuple[str, str]:
    """Split a book into the rest and the chapter with this section; a chapter starts with an introduction."""
    sections = [section for section in text.split("\n\n") if section.strip()]
    headings = [section.partition("\n")[0].strip() for section in sections]
    if heading not in headings:
        raise InputError(f"{name}: has no section {heading!r}, which is to be held out")
    index = headings.index(heading)
    starts = [number for number, each in enumerate(headings) if each == _CHAPTER_START]
    start = max((number for number in starts if number <= index), default=index)
    end = min((number for number in starts if number > index), default=len(sections))
    sections = [section.strip("\n") for section in sections]
    rest, chapter = [*sections[:start], *sections[end:]], sections[start:end]
    return "\n\n".join(rest) + "\n", "\n\n".join(chapter) + "\n"


def write_texts(books: Sequence[Book], folder: Path) -> None:
    """Write the texts of books to a folder."""
    with atomic_dir(folder) as temporary_dir:
        for book in books:
            path = temporary_dir / f"{book.name}.txt"
            if book.text is None:
                shutil.copyfile(book.path, path)
            else:
                write_text(path, book.text)


def _train_vocabulary(text: Path, out: Path, *, size: int, reporter: Reporter) -> Path:
    """Train a vocabulary on the training books, unless there is one already."""
    if has_tokenizer(out):
        if load_tokenizer(out).vocab_size != size:
            raise InputError(f"{out}: holds a vocabulary of another size than {size}; choose another --out")
        return out

    def show(progress: VocabularyProgress) -> None:
        reporter.show(progress.stage, progress.message, fraction=progress.fraction)

    texts = iter_plain_texts([str(text)], warn=reporter.say)
    tokenizer = train_sentencepiece(texts, settings=VocabularySettings(size=size), on_progress=show)
    with atomic_dir(out) as temporary_dir:
        save_tokenizer(tokenizer, temporary_dir)
    return out


def measure_overlap(corpus_dir: Path, glue: Path) -> list[dict[str, Any]]:
    """Measure how much of the dev set of each GLUE task in a folder is in the corpus."""
    files = {}
    for name, task in PUBLISHED_TASKS.items():
        if isinstance(task, GlueTask) and "dev" in task.files:
            with suppress(FileFormatError):  # this task is not in the folder
                files[name] = task.find_split(glue, "dev")[1]
    if not files:
        return []
    found = find_overlap(open_corpus(corpus_dir), list(files.values()), load_tokenizer(corpus_dir / "vocab"))
    return [{**asdict(each), "name": name} for name, each in zip(files, found, strict=True)]


def describe_books(books: Mapping[str, Sequence[Book]]) -> dict[str, list[dict[str, Any]]]:
    """Describe the books of each split for data.json."""
    return {name: [_describe_book(book) for book in chosen] for name, chosen in books.items()}


def _describe_book(book: Book) -> dict[str, Any]:
    size = book.path.stat().st_size if book.text is None else len(book.text.encode())
    attribution = None if book.attribution is None else asdict(book.attribution)
    return {"name": book.name, "num_bytes": size, "license": book.license, "attribution": attribution}


def describe_corpus(manifest: Manifest) -> dict[str, Any]:
    """Describe a corpus for data.json."""
    counts = ("num_documents", "num_sentences", "num_tokens", "num_unknown", "num_characters", "dropped")
    return {**{name: getattr(manifest, name) for name in counts}, "vocabulary": manifest.vocabulary}
