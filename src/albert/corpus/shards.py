"""Shards: documents of sentences of ids come in, Arrow files go out; and back, memory-mapped, without a copy.

A shard is an Arrow IPC file, uncompressed, in bounded record batches, with one column
`document: list<list<uint16 | uint32>>`. The nested offsets are the borders of sentences and documents.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from albert.errors import FileFormatError
from albert.files import atomic_path

COLUMN = "document"
# About 4 MB of ids: large enough that a batch is no overhead, small enough that memory stays bounded.
MAX_BATCH_PIECES = 1 << 21
Pieces = NDArray[np.uint16] | NDArray[np.uint32]


@dataclass(frozen=True)
class ShardPart:
    """One record batch: pieces end to end, and where sentences and documents begin.

    Sentence s is `pieces[sentence_starts[s] : sentence_starts[s + 1]]`; document d has the sentences
    `document_starts[d]` up to `document_starts[d + 1]`. Starts have one entry more than there are things.
    """

    pieces: Pieces
    sentence_starts: NDArray[np.int32]
    document_starts: NDArray[np.int32]


def choose_id_type(vocab_size: int) -> pa.DataType:
    """Two bytes an id where they suffice."""
    return pa.uint16() if vocab_size <= 1 << 16 else pa.uint32()


def write_shard(path: Path, documents: Iterable[Sequence[Sequence[int]]], *, id_type: pa.DataType) -> None:
    """Write documents (lists of sentences, each a list of ids), whole or not at all."""
    schema = pa.schema([(COLUMN, pa.list_(pa.list_(id_type)))])
    with (
        atomic_path(path) as aside,
        pa.OSFile(str(aside), "wb") as sink,
        pa.ipc.new_file(sink, schema) as writer,
    ):
        for batch in _iter_record_batches(documents, schema):
            writer.write_batch(batch)


def _iter_record_batches(
    documents: Iterable[Sequence[Sequence[int]]], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    gathered: list[Sequence[Sequence[int]]] = []
    num_pieces = 0
    for document in documents:
        gathered.append(document)
        num_pieces += sum(map(len, document))
        if num_pieces >= MAX_BATCH_PIECES:
            yield _build_batch(gathered, schema)
            gathered, num_pieces = [], 0
    if gathered:
        yield _build_batch(gathered, schema)


def _build_batch(documents: Sequence[Sequence[Sequence[int]]], schema: pa.Schema) -> pa.RecordBatch:
    id_type = schema.field(COLUMN).type.value_type.value_type
    sentences = [sentence for document in documents for sentence in document]
    pieces = np.fromiter(
        (piece for sentence in sentences for piece in sentence), dtype=id_type.to_pandas_dtype()
    )
    inner = pa.ListArray.from_arrays(pa.array(_starts(map(len, sentences))), pa.array(pieces))
    outer = pa.ListArray.from_arrays(pa.array(_starts(map(len, documents))), inner)
    return pa.record_batch([outer], schema=schema)


def _starts(lengths: Iterable[int]) -> NDArray[np.int32]:
    counts = np.fromiter(lengths, dtype=np.int64)
    return np.concatenate([[0], counts.cumsum()]).astype(np.int32)


def read_shard(path: Path) -> list[ShardPart]:
    """Map a shard into memory; its arrays are views of the file. A cut or foreign file is refused."""
    try:
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
        return [_view_part(reader.get_batch(i)) for i in range(reader.num_record_batches)]
    except (pa.ArrowInvalid, OSError, KeyError, AttributeError) as error:
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
