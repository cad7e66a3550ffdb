"""Read the tensors of an original TensorFlow checkpoint, without TensorFlow.

A "tensor bundle" is PREFIX.index, a sorted table of LevelDB's layout from each name to a BundleEntryProto,
and the raw tensors in PREFIX.data-0000k-of-0000n. The index can be read alone, so that a caller chooses by
name (the weights, not the optimizer's slots) before anything large is read. Three parts: the bundle, the
table, and the checksums of both.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from albert.errors import FileFormatError

Array = NDArray[Any]
Words = NDArray[np.uint32]

# TensorFlow's numbers for the types of its tensors; those that a model's weights come in.
_DTYPES = {1: "float32", 2: "float64", 3: "int32", 9: "int64", 14: "bfloat16", 19: "float16"}
# How the bytes are seen by numpy, which has no bfloat16: the upper half of a float32.
_STORED = {
    "float32": "<f4",
    "float64": "<f8",
    "int32": "<i4",
    "int64": "<i8",
    "bfloat16": "<u2",
    "float16": "<f2",
}

# The layout of a table: data blocks, an index block whose values say where they lie, and a footer that says
# where the index lies.
_MAGIC = bytes.fromhex("57fb808b247547db")  # 0xDB4775248B80FB57, little endian
_FOOTER_SIZE = 48  # two handles, padded to 40 bytes, and the magic number
_TRAILER_SIZE = 5  # after each block: one byte for the compression, four for the checksum
_UNCOMPRESSED, _SNAPPY = 0, 1
# Words in a row of checksummed data: wide rows for large tensors, then narrow ones for what is left.
_WIDTHS = (4096, 64)

_SAVE_AGAIN = "open it in TensorFlow and save it again with tf.compat.v1.train.Saver"


@dataclass(frozen=True)
class TensorEntry:
    """What the index says of one tensor: its kind, and where its bytes lie in which of the data files."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    shard: int
    num_shards: int
    offset: int
    size: int
    crc32c: int  # masked
    is_partitioned: bool  # only its slices are stored

    def data_path(self, prefix: Path) -> Path:
        """The file that holds the tensor's bytes."""
        return _with_suffix(prefix, f".data-{self.shard:05d}-of-{self.num_shards:05d}")


def read_tensor_bundle(prefix: Path, *, wanted: Callable[[str], bool] | None = None) -> dict[str, Array]:
    """Read the tensors of the checkpoint, or those whose name is `wanted`, as writable arrays by name."""
    entries = [entry for entry in read_index(prefix) if wanted is None or wanted(entry.name)]
    return {entry.name: read_tensor(prefix, entry) for entry in entries}


def read_index(prefix: Path) -> list[TensorEntry]:
    """List the tensors of the checkpoint in the order of their names, reading PREFIX.index only.

    Refused: a missing or damaged index, a checkpoint of a big-endian machine. Strings and partitioned
    variables are listed (a caller may not want them) and refused by `read_tensor`.
    """
    path = _with_suffix(prefix, ".index")
    try:
        table = path.read_bytes()
    except OSError as error:
        cure = (
            f"name a checkpoint by what stands before .index, as in {Path(prefix).parent / 'model.ckpt-best'}"
        )
        raise FileFormatError(f"{path}: {error.strerror or error}; {cure}") from error
    try:
        records = dict(iter_table(table))
        if b"" not in records:
            raise ValueError("is a table without the header of a checkpoint")
        header = _Message(records.pop(b""))
        num_shards, endianness = header.integer(1), header.integer(2)
        entries = [
            _parse_entry(key.decode("utf-8"), _Message(value), num_shards)
            for key, value in records.items()
            if not key.startswith(b"\0")  # the slices of partitioned variables
        ]
    except ValueError as error:
        cure = f"fetch the checkpoint again, or {_SAVE_AGAIN}"
        raise FileFormatError(f"{path}: {error}; {cure}") from error
    if endianness:
        raise FileFormatError(
            f"{path}: written on a big-endian machine; {_SAVE_AGAIN} on a little-endian one"
        )
    return entries


def read_tensor(prefix: Path, entry: TensorEntry) -> Array:
    """Read one tensor of the index as a writable array, bfloat16 as float32, its checksum verified.

    Refused: strings and other types that no weights come in, partitioned variables, damaged data.
    """
    _check_readable(entry, index_path=_with_suffix(prefix, ".index"))
    path = entry.data_path(prefix)
    content = _read_bytes(path, entry)
    if masked_crc32c(content.data) != entry.crc32c:
        raise FileFormatError(f"{path}: the checksum of {entry.name} is wrong; fetch the file again")
    values: Array = content.view(_STORED[entry.dtype])
    if entry.dtype == "bfloat16":
        values = (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return values.astype(values.dtype.newbyteorder("="), copy=False).reshape(entry.shape)


def _check_readable(entry: TensorEntry, *, index_path: Path) -> None:
    if entry.is_partitioned:
        raise FileFormatError(
            f"{index_path}: {entry.name} is stored in slices; {_SAVE_AGAIN}, without a partitioner"
        )
    if entry.dtype not in _STORED:
        known = ", ".join(_STORED)
        raise FileFormatError(
            f"{index_path}: {entry.name} is of {entry.dtype}, not one of {known}; {_SAVE_AGAIN}, without it"
        )
    itemsize = np.dtype(_STORED[entry.dtype]).itemsize
    # An empty tensor may claim any other dimensions: numpy's limit, which no real one comes near, holds too.
    is_possible = len(entry.shape) <= 32 and math.prod(filter(None, entry.shape)) * itemsize < 1 << 63
    if not is_possible or entry.size != math.prod(entry.shape) * itemsize:
        kind = f"{entry.dtype} {list(entry.shape)}"
        raise FileFormatError(
            f"{index_path}: {entry.name} of {kind} cannot take {entry.size} bytes; fetch the checkpoint again"
        )


def _read_bytes(path: Path, entry: TensorEntry) -> NDArray[np.uint8]:
    end = entry.offset + entry.size
    try:
        file_size = path.stat().st_size
        if end <= file_size:
            return np.fromfile(path, dtype=np.uint8, count=entry.size, offset=entry.offset)
    except OSError as error:
        cure = "put it beside the .index file, all files of a checkpoint together"
        raise FileFormatError(f"{path}: {error.strerror or error}; {cure}") from error
    raise FileFormatError(
        f"{path}: ends at byte {file_size}, but {entry.name} ends at {end}; fetch the file again"
    )


def _parse_entry(name: str, entry: "_Message", num_shards: int) -> TensorEntry:
    """Read a BundleEntryProto: dtype 1, shape 2, shard 3, offset 4, size 5, crc32c 6, slices 7."""
    number, shard = entry.integer(1), entry.integer(3)
    if shard >= num_shards:
        raise ValueError(f"{name} is said to lie in data file {shard} of {num_shards}, counted from 0")
    sizes = (_Message(dim).integer(1) for shape in entry.messages(2) for dim in _Message(shape).messages(2))
    return TensorEntry(
        name=name,
        dtype=_DTYPES.get(number, "string" if number == 7 else f"TensorFlow's type {number}"),
        shape=tuple(sizes),
        shard=shard,
        num_shards=num_shards,
        offset=entry.integer(4),
        size=entry.integer(5),
        crc32c=entry.integer(6),
        is_partitioned=bool(entry.messages(7)),
    )


class _Message:
    """A protobuf message, read from its wire format: the values of each numbered field."""

    def __init__(self, data: bytes) -> None:
        self._fields: dict[int, list[int | bytes]] = {}
        at = 0
        while at < len(data):
            tag, at = read_varint(data, at)
            value, at = self._read_value(data, at, wire_type=tag & 7)
            self._fields.setdefault(tag >> 3, []).append(value)

    @staticmethod
    def _read_value(data: bytes, at: int, *, wire_type: int) -> tuple[int | bytes, int]:
        if wire_type == 0:
            return read_varint(data, at)
        if wire_type == 2:
            size, at = read_varint(data, at)
        elif wire_type in (1, 5):
            size = 8 if wire_type == 1 else 4
        else:
            raise ValueError(f"a record has a field of the unknown wire type {wire_type}")
        content = data[at : at + size]
        if len(content) < size:
            raise ValueError(f"a field of {size} bytes runs past its record's end")
        return (content if wire_type == 2 else int.from_bytes(content, "little")), at + size

    def integer(self, number: int) -> int:
        """The field as a number, 0 where it is left out."""
        value = self._fields.get(number, [0])[-1]
        if not isinstance(value, int):
            raise ValueError(f"field {number} of a record is not a number")
        return value

    def messages(self, number: int) -> list[bytes]:
        """The field's values as nested messages, still encoded."""
        values = self._fields.get(number, [])
        nested = [value for value in values if isinstance(value, bytes)]
        if len(nested) < len(values):
            raise ValueError(f"field {number} of a record is not a message")
        return nested


def _with_suffix(prefix: Path, suffix: str) -> Path:
    # Not Path.with_suffix, which would take the .ckpt-best of model.ckpt-best for a suffix.
    return Path(f"{prefix}{suffix}")


class Varint(NamedTuple):
    """A number of variable length and where the next thing starts."""

    value: int
    end: int


def read_varint(data: bytes, start: int) -> Varint:
    """Read the unsigned number at `start`: seven bits a byte, lowest first, of 64 bits at most."""
    value = 0
    for place, byte in enumerate(data[start : start + 10]):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            if value >= 1 << 64:
                break
            return Varint(value, start + place + 1)
    raise ValueError(f"no number at byte {start} of a record")


def iter_table(table: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the pairs of a table in the order of their keys; refuse what is damaged or compressed."""
    if len(table) < _FOOTER_SIZE or not table.endswith(_MAGIC):
        raise ValueError("does not end as a TensorFlow index file does")
    footer = table[-_FOOTER_SIZE:]
    metaindex_offset = read_varint(footer, 0)
    metaindex_size = read_varint(footer, metaindex_offset.end)  # the metaindex says nothing about the pairs
    for _, handle in _iter_block(_read_block(table, footer, metaindex_size.end)):
        yield from _iter_block(_read_block(table, handle, 0))


def _read_block(table: bytes, handle: bytes, start: int) -> bytes:
    """The content of the block to which the handle at `start` (an offset and a size) points."""
    offset, start = read_varint(handle, start)
    size, _ = read_varint(handle, start)
    end = offset + size + 1
    if end + _TRAILER_SIZE - 1 > len(table):
        raise ValueError(f"a block should end at byte {end + 4} of {len(table)}")
    if masked_crc32c(table[offset:end]) != int.from_bytes(table[end : end + 4], "little"):
        raise ValueError(f"the checksum of the block at byte {offset} is wrong")
    compression = table[end - 1]
    if compression == _SNAPPY:
        raise ValueError("is compressed with Snappy, which is not read here")
    if compression != _UNCOMPRESSED:
        raise ValueError(f"is compressed in an unknown way (type {compression})")
    return table[offset : end - 1]


def _iter_block(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the pairs of a block; each key is what it shares with the one before, then what it adds."""
    # The restart points at the end only serve binary search; here they say where the pairs end.
    num_restarts = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 - 4 * num_restarts
    if end < 0:
        raise ValueError(f"a block of {len(block)} bytes cannot hold {num_restarts} restart points")
    key, at = b"", 0
    while at < end:
        shared, at = read_varint(block, at)
        added, at = read_varint(block, at)
        value_size, at = read_varint(block, at)
        value_start = at + added
        if shared > len(key) or value_start + value_size > end:
            raise ValueError(f"a record runs past its block's end at byte {end}")
        key = key[:shared] + block[at:value_start]
        at = value_start + value_size
        yield key, block[value_start:at]


def crc32c(data: bytes | memoryview) -> int:
    """Compute the CRC-32C (Castagnoli) of `data`, as in RFC 3720: that of b"123456789" is 0xE3069283.

    A CRC is linear: the register after a row of bytes and k further zero bytes is a fixed 32×32 bit matrix
    times the register after the row. So thousands of registers, one for each word of a row, advance along the
    rows of the data together, and what remains is the CRC of a single row: hundreds of megabytes a second in
    numpy.
    """
    return _advance(0xFFFFFFFF, memoryview(data), _WIDTHS) ^ 0xFFFFFFFF


def masked_crc32c(data: bytes | memoryview) -> int:
    """The form that LevelDB and TensorFlow store: rotated, as it may lie in checked data itself."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _advance(register: int, data: memoryview, widths: tuple[int, ...]) -> int:
    """The register after `data`, folding rows of the first width, then of the next, then single bytes."""
    if not widths:
        return _advance_by_bytes(register, data)
    width, *narrower = widths
    whole = len(data) // (4 * width) * (4 * width)
    if whole:
        rows = np.frombuffer(data[:whole], dtype="<u4").reshape(-1, width)
        row = _fold(register, rows).astype("<u4")
        register = _advance(0, memoryview(row.tobytes()), tuple(narrower))
    return _advance(register, data[whole:], tuple(narrower))


def _fold(register: int, rows: Words) -> Words:
    """One row that, from an empty register, leads to where `rows` lead from `register`."""
    low, high = _tables(4 * rows.shape[1])
    folded: Words = rows[0].astype(np.uint32)
    folded[0] ^= np.uint32(register)
    for row in rows[1:]:
        folded = low[folded & 0xFFFF] ^ high[folded >> 16] ^ row
    return folded


def _advance_by_bytes(register: int, data: memoryview) -> int:
    table = _byte_table()
    for byte in data:
        register = table[(register ^ byte) & 0xFF] ^ (register >> 8)
    return register


@cache
def _byte_table() -> tuple[int, ...]:
    """The register after one more byte, for each value of the register's lowest byte."""
    table = list(range(256))
    for _ in range(8):
        table = [entry >> 1 ^ (0x82F63B78 if entry & 1 else 0) for entry in table]
    return tuple(table)


@cache
def _tables(num_bytes: int) -> tuple[Words, Words]:
    """The register after `num_bytes` zero bytes (a power of two), for each value of its low and high half."""
    images = np.array([_advance_by_bytes(1 << bit, memoryview(b"\0")) for bit in range(32)], dtype=np.uint32)
    for _ in range(num_bytes.bit_length() - 1):
        images = _apply(images, images)
    halves = np.arange(1 << 16, dtype=np.uint32)
    return _apply(images[:16], halves), _apply(images[16:], halves)


def _apply(images: Words, words: Words) -> Words:
    """The linear map that takes bit b to `images[b]`, for each of `words`."""
    mapped = np.zeros_like(words)
    for bit, image in enumerate(images):
        mapped ^= (words >> np.uint32(bit) & np.uint32(1)) * image
    return mapped
