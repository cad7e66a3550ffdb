"""A prepared corpus: its folder comes in, all its shards as one long row of pieces go out."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albert.corpus.manifest import Manifest, read_manifest
from albert.corpus.mapping import MappedFiles
from albert.corpus.shards import ShardPart, read_shard
from albert.errors import FileFormatError


@dataclass(frozen=True)
class Corpus:
    """The parts of all shards in order; `starts[k]` is the number of pieces before part k."""

    folder: Path
    manifest: Manifest
    parts: tuple[ShardPart, ...]
    starts: NDArray[np.int64]
    files: MappedFiles = field(default_factory=MappedFiles)
    file_of_part: tuple[int, ...] = ()

    @property
    def num_pieces(self) -> int:
        """Pieces in all."""
        return int(self.starts[-1])

    def let_go(self, part: int) -> None:
        """Give back the memory of a part that was looked at; a corpus may be larger than memory."""
        if self.file_of_part:
            self.files.let_go(self.file_of_part[part])

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process maps the files itself, rather than being sent what is in them.
        return open_corpus, (self.folder,)


def open_corpus(folder: Path, *, fingerprint: str | None = None) -> Corpus:
    """Map a corpus into memory; refused: a missing or cut shard, and another vocabulary's corpus."""
    folder = Path(folder)
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
        folder, manifest, tuple(parts), np.concatenate([[0], counts.cumsum()]), files, tuple(file_of_part)
    )
