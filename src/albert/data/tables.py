"""A Parquet file or a Hugging Face dataset comes in, the texts of one of its columns go out."""

import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from albert.data.decompress import find_content, is_compressed, iter_bytes
from albert.data.sources import Source
from albert.errors import FileFormatError, InputError, name_install, one_line

_BATCH_ROWS = 256
_BATCH_BYTES = 1 << 23  # of text, about: rows may be tweets or whole books


def iter_parquet_texts(source: Source, start: int, end: int, *, text_key: str) -> Iterator[str]:
    """The texts of row groups `start` up to `end`, or of all when `end` is negative."""
    with open_parquet(source) as file:
        if text_key not in file.schema_arrow.names:
            columns = ", ".join(file.schema_arrow.names)
            raise FileFormatError(
                f"{source.path}: no column {text_key!r} but {columns}; name it with --text-key"
            )
        groups = list(range(start, file.num_row_groups if end < 0 else end))
        num_rows = _choose_batch_rows(file.metadata, groups)
        for batch in file.iter_batches(batch_size=num_rows, row_groups=groups, columns=[text_key]):
            yield from _iter_column(batch.column(0).to_pylist(), source, text_key)


def _choose_batch_rows(metadata: Any, groups: Sequence[int]) -> int:
    """As many rows as memory is to hold at once, by the row group whose rows are longest in the mean."""
    found = (metadata.row_group(group) for group in groups)
    longest = max((each.total_byte_size // max(each.num_rows, 1) for each in found), default=0)
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(longest, 1)))


def count_row_groups(source: Source) -> int:
    """How many row groups a Parquet file has."""
    with open_parquet(source) as file:
        return int(file.num_row_groups)


@contextmanager
def open_parquet(source: Source) -> Iterator[Any]:
    """The open file; a compressed one is unpacked to a temporary file, since Parquet is read by seeking."""
    try:
        if not is_compressed(source.path):
            with pq.ParquetFile(find_content(source.path), pre_buffer=False, buffer_size=1 << 20) as file:
                yield file
            return
        with tempfile.TemporaryDirectory() as folder:
            plain = Path(folder) / "unpacked.parquet"
            with plain.open("wb") as sink:
                for block in iter_bytes(source.path):
                    sink.write(block)
            with pq.ParquetFile(plain, pre_buffer=False, buffer_size=1 << 20) as file:
                yield file
            shutil.rmtree(folder, ignore_errors=True)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise FileFormatError(
            f"{source.path}: no whole Parquet file ({reason}); fetch it again, or leave it out"
        ) from error


def iter_dataset_texts(source: Source, start: int, end: int, *, text_key: str) -> Iterator[str]:
    """The texts of rows `start` up to `end`, or of all when `end` is negative."""
    dataset = load_dataset(source)
    if text_key not in dataset.column_names:
        columns = ", ".join(dataset.column_names)
        raise InputError(f"{source.name}: no column {text_key!r} but {columns}; name it with --text-key")
    stop = len(dataset) if end < 0 else end
    for row in range(start, stop, _BATCH_ROWS):
        yield from _iter_column(dataset[row : min(row + _BATCH_ROWS, stop)][text_key], source, text_key)


def load_dataset(source: Source) -> Any:
    """The dataset `NAME[@CONFIGURATION][:SPLIT]`; the split is `train` unless it is named."""
    try:
        import datasets  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise InputError(
            f"{source.name}: needs the extra `datasets`; in the clone, run: {name_install('datasets')}"
        ) from error
    name, _, split = source.path.partition(":")
    name, _, configuration = name.partition("@")
    try:
        return datasets.load_dataset(name, configuration or None, split=split or "train")
    except Exception as error:  # the library raises its own, the hub's and the file system's
        reason = one_line(error)[:300]
        raise InputError(
            f"{source.name}: cannot be loaded ({reason}); check the name and the split"
        ) from error


def describe_dataset(source: Source) -> tuple[int, int, str]:
    """Rows, bytes, and a hash of what a dataset holds."""
    dataset = load_dataset(source)
    mark = hashlib.sha256(f"{source.path}\0{dataset._fingerprint}\0{len(dataset)}".encode()).hexdigest()
    return len(dataset), int(dataset.data.nbytes), mark


def _iter_column(values: list[Any], source: Source, text_key: str) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif value is not None:
            raise FileFormatError(
                f"{source.name}: column {text_key!r} holds a {type(value).__name__}, not text; "
                "name another with --text-key"
            )
