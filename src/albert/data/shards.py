"""Write documents of sentences of token ids as Arrow files, and read them memory-mapped, without a copy.

A shard is an Arrow IPC file, uncompressed, in bounded record batches, with one column
`document: list<list<uint16 | uint32>>`. The nested offsets are the borders of sentences and documents.
"""

import errno
import mmap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from albert.errors import FileFormatError, InputError
from albert.files import atomic_path

try:
    import resource
except ImportError:  # no such limits on Windows
    resource = None  # type: ignore[assignment]

COLUMN = "document"
# About 4 MB of ids: large enough that a batch is no overhead, small enough that memory stays bounded.
MAX_BATCH_PIECES = 1 << 21
# A corpus up to this size may stay in memory. Of a larger one, pages are released as soon as they were used:
# one access can load megabytes around it, which would count as this process's memory until the end.
LARGE_BYTES = 128 * 1024 * 1024
_MAX_FILES = 10_240  # macOS reports no limit and grants so many
Pieces = NDArray[np.uint16] | NDArray[np.uint32]


@dataclass(frozen=True)
class ShardPart:
    """One record batch: token ids end to end, and where sentences and documents begin.

    Sentence s is `pieces[sentence_starts[s] : sentence_starts[s + 1]]`; document d has the sentences
    `document_starts[d]` up to `document_starts[d + 1]`. Starts have one entry more than there are things.
    """

    pieces: Pieces
    sentence_starts: NDArray[np.int32]
    document_starts: NDArray[np.int32]


def choose_id_type(vocab_size: int) -> pa.DataType:
    """Choose two bytes per id if they suffice, else four."""
    return pa.uint16() if vocab_size <= 1 << 16 else pa.uint32()


def write_parts(path: Path, parts: Iterable[ShardPart], *, id_type: pa.DataType) -> None:
    """Write parts, one record batch each; the file appears when it is complete."""
    schema = pa.schema([(COLUMN, pa.list_(pa.list_(id_type)))])
    with (
        atomic_path(path) as aside,
        pa.OSFile(str(aside), "wb") as sink,
        pa.ipc.new_file(sink, schema) as writer,
    ):
        for part in parts:
            inner = pa.ListArray.from_arrays(
                pa.array(part.sentence_starts), pa.array(part.pieces, type=id_type)
            )
            outer = pa.ListArray.from_arrays(pa.array(part.document_starts), inner)
            writer.write_batch(pa.record_batch([outer], schema=schema))


def join_parts(parts: Sequence[ShardPart]) -> ShardPart:
    """Concatenate parts."""
    sentences = np.concatenate([np.diff(part.sentence_starts) for part in parts])
    documents = np.concatenate([np.diff(part.document_starts) for part in parts])
    return ShardPart(
        np.concatenate([part.pieces for part in parts]), find_starts(sentences), find_starts(documents)
    )


def cut_part(part: ShardPart, first: int, last: int) -> ShardPart:
    """Return the sentences [first, last) of a part; a document that crosses an end is cut there."""
    sentence_starts = part.sentence_starts[first : last + 1]
    return ShardPart(
        pieces=part.pieces[sentence_starts[0] : sentence_starts[-1]],
        sentence_starts=sentence_starts - sentence_starts[0],
        document_starts=np.unique(np.clip(part.document_starts, first, last)) - np.int32(first),
    )


def find_starts(lengths: ArrayLike) -> NDArray[np.int32]:
    """Return where items of these lengths begin when they are concatenated, and where the last one ends."""
    counts = np.asarray(lengths, dtype=np.int64)
    return np.concatenate([[0], counts.cumsum()]).astype(np.int32)


def build_part(blocks: Sequence[NDArray[Any]], lengths: Sequence[int], counts: Sequence[int]) -> ShardPart:
    """Build a part from blocks of ids, the lengths of sentences, and the number of sentences per document.

    Empty sentences, and documents without others, are dropped.
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    filled = np.diff(find_starts(sizes > 0)[find_starts(counts)])
    return ShardPart(
        pieces=np.concatenate(blocks),
        sentence_starts=find_starts(sizes[sizes > 0]),
        document_starts=find_starts(filled[filled > 0]),
    )


def read_shard(path: Path, *, files: "MappedFiles | None" = None) -> list[ShardPart]:
    """Map a shard into memory; its arrays are views of the file."""
    try:
        reader = pa.ipc.open_file(pa.BufferReader((MappedFiles() if files is None else files).map(path)))
        return [_view_part(reader.get_batch(i)) for i in range(reader.num_record_batches)]
    except (pa.ArrowInvalid, OSError, ValueError, KeyError, AttributeError) as error:
        raise FileFormatError(
            f"{path}: no whole shard ({str(error).splitlines()[0]}); prepare the corpus again"
        ) from error


def _view_part(batch: pa.RecordBatch) -> ShardPart:
    outer: Any = batch.column(COLUMN)
    inner = outer.values
    return ShardPart(
        pieces=inner.values.to_numpy(zero_copy_only=True),
        sentence_starts=inner.offsets.to_numpy(zero_copy_only=True),
        document_starts=outer.offsets.to_numpy(zero_copy_only=True),
    )


class MappedFiles:
    """Files mapped into memory, by number."""

    def __init__(self) -> None:
        self._maps: list[mmap.mmap] = []
        self._num_bytes = 0

    def __len__(self) -> int:
        return len(self._maps)

    def map(self, path: Path) -> pa.Buffer:
        """Return the bytes of a file, read-only."""
        try:
            mapped = _map(path)
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise
            mapped = _map_beyond_limit(path)
        self._maps.append(mapped)
        self._num_bytes += len(mapped)
        return pa.py_buffer(mapped)

    def let_go(self, number: int) -> None:
        """Release the memory of a file, if the files are large; the next access loads it again."""
        if self._num_bytes > LARGE_BYTES and hasattr(mmap, "MADV_DONTNEED"):
            self._maps[number].madvise(mmap.MADV_DONTNEED)


def _map(path: Path) -> mmap.mmap:
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _map_beyond_limit(path: Path) -> mmap.mmap:
    """Raise the soft limit of open files and try again: a corpus may have more shards than the usual 256."""
    try:
        if resource is not None:
            _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
            wanted = most if most != resource.RLIM_INFINITY else _MAX_FILES
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
        return _map(path)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: more files are open than the system allows, and every shard needs one; allow more "
            "(`ulimit -n`), or prepare the corpus with fewer and larger sources"
        ) from error
