"""A prepared corpus: its path or URL comes in, all its shards as one long row of pieces go out."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albert.data.cache import fetch_corpus
from albert.data.manifest import Manifest, read_manifest
from albert.data.mapping import MappedFiles
from albert.data.remote import Place, is_url
from albert.data.shards import ShardPart, cut_part, read_shard
from albert.errors import FileFormatError
from albert.reporting import Reporter


@dataclass(frozen=True)
class Corpus:
    """The parts of all shards in order; `starts[k]` is the number of pieces before part k.

    `sentences` is the range of the folder's sentences that is seen; None: all of them. `url` is where it was
    fetched from, if it was.
    """

    folder: Path
    manifest: Manifest
    parts: tuple[ShardPart, ...]
    starts: NDArray[np.int64]
    files: MappedFiles = field(default_factory=MappedFiles)
    file_of_part: tuple[int, ...] = ()
    sentences: tuple[int, int] | None = None
    url: str | None = None

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.url or str(self.folder)

    @property
    def place(self) -> str:
        """By what it is opened from anywhere: its URL, or the whole path of its folder."""
        return self.url or str(self.folder.resolve())

    @property
    def num_pieces(self) -> int:
        """Pieces in all."""
        return int(self.starts[-1])

    @property
    def num_documents(self) -> int:
        """Documents in all; one that a cut went through counts on both sides."""
        return sum(len(part.document_starts) - 1 for part in self.parts)

    def let_go(self, part: int) -> None:
        """Give back the memory of a part that was looked at; a corpus may be larger than memory."""
        if self.file_of_part:
            self.files.let_go(self.file_of_part[part])

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process maps the files itself, rather than being sent what is in them.
        return _open_range, (self.folder, self.sentences, self.url)


def open_corpus(place: Place, *, fingerprint: str | None = None, reporter: Reporter | None = None) -> Corpus:
    """Map a corpus into memory; refused: a missing or cut shard, and another vocabulary's corpus.

    One in a store is copied to this machine first, or its copy taken.
    """
    folder = fetch_corpus(place, reporter=reporter)
    manifest = read_manifest(folder, fingerprint=fingerprint)
    parts: list[ShardPart] = []
    files = MappedFiles()
    file_of_part: list[int] = []
    for entry in manifest.shards:
        path = folder / entry.name
        if not path.exists():
            raise FileFormatError(f"{path}: missing; copy it back, or prepare the corpus again")
        if path.stat().st_size != entry.num_bytes:
            raise FileFormatError(
                f"{path}: {path.stat().st_size} bytes and the manifest says {entry.num_bytes}; "
                "it was cut short or changed: copy it again, or prepare the corpus again"
            )
        found = read_shard(path, files=files)
        parts += found
        file_of_part += [len(files) - 1] * len(found)
    counts = np.array([len(part.pieces) for part in parts], dtype=np.int64)
    return Corpus(
        folder,
        manifest,
        tuple(parts),
        np.concatenate([[0], counts.cumsum()]),
        files,
        tuple(file_of_part),
        url=str(place) if is_url(place) else None,
    )


def narrow(corpus: Corpus, first: int, last: int) -> Corpus:
    """The sentences [first, last) of a whole corpus, seen as one; only the parts at its ends are copied."""
    assert corpus.sentences is None, "a part of a part would count its sentences from elsewhere"
    parts: list[ShardPart] = []
    file_of_part: list[int] = []
    start = 0
    for number, part in enumerate(corpus.parts):
        count = len(part.sentence_starts) - 1
        a, b = max(first - start, 0), min(last - start, count)
        if a < b:
            parts.append(part if (a, b) == (0, count) else cut_part(part, a, b))
            file_of_part.append(corpus.file_of_part[number])
        start += count
    counts = np.array([len(part.pieces) for part in parts], dtype=np.int64)
    return replace(
        corpus,
        parts=tuple(parts),
        starts=np.concatenate([[0], counts.cumsum()]),
        file_of_part=tuple(file_of_part),
        sentences=(first, last),
    )


def _open_range(folder: Path, sentences: tuple[int, int] | None, url: str | None) -> Corpus:
    corpus = replace(open_corpus(folder), url=url)
    return corpus if sentences is None else narrow(corpus, *sentences)
