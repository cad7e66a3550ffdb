"""Read the tensors of an original TensorFlow checkpoint, without TensorFlow.

A "tensor bundle" is PREFIX.index, a sorted table of LevelDB's layout from each name to a BundleEntryProto,
and the raw tensors in PREFIX.data-0000k-of-0000n. The index can be read alone, so that a caller chooses by
name (the weights, not the optimizer's slots) before anything large is read. The module has three parts: the
bundle, the table, and the checksums of both.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albert.errors import FileFormatError

Array = NDArray[Any]
Words = NDArray[np.uint32]

# TensorFlow's numbers for the types of weights, and their bytes in numpy, which has no bfloat16.
_DTYPES = {1: "float32", 2: "float64", 3: "int32", 9: "int64", 14: "bfloat16", 19: "float16"}
_STORED = {
    "float32": "<f4",
    "float64": "<f8",
    "int32": "<i4",
    "int64": "<i8",
    "bfloat16": "<u2",
    "float16": "<f2",
}
_SAVE_AGAIN = "open it in TensorFlow and save it again with tf.compat.v1.train.Saver"
# A table has data blocks, an index block with their positions, and a footer with the position of the index.
_MAGIC = bytes.fromhex("57fb808b247547db")  # 0xDB4775248B80FB57, little endian
_FOOTER_SIZE = 48  # two handles, padded to 40 bytes, and the magic number
# Words in a row of checksummed data: wide rows for large tensors, then narrow ones for what is left.
_WIDTHS = (4096, 64)


@dataclass(frozen=True)
class TensorEntry:
    """The index entry of one tensor: its type, and the position of its bytes in one of the data files."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    shard: int
    num_shards: int
    offset: int
    size: int
    crc32c: int  # masked
    is_partitioned: bool  # only its slices are stored


def read_tensor_bundle(prefix: Path, *, wanted: Callable[[str], bool] | None = None) -> dict[str, Array]:
    """Read the tensors of the checkpoint, or those whose name is `wanted`, as writable arrays by name."""
    entries = [entry for entry in read_index(prefix) if wanted is None or wanted(entry.name)]
    return {entry.name: read_tensor(prefix, entry) for entry in entries}


def read_index(prefix: Path) -> list[TensorEntry]:
    """List the tensors of the checkpoint in the order of their names, reading PREFIX.index only.

    Strings and partitioned variables are listed (a caller may not want them) and rejected by `read_tensor`.
    """
    path = Path(f"{prefix}.index")
    try:
        table = path.read_bytes()
    except OSError as error:
        example = Path(prefix).parent / "model.ckpt-best"
        raise FileFormatError(
            f"{path}: {error.strerror or error}; name a checkpoint by what stands before .index, as in "
            f"{example}"
        ) from error
    try:
        records = dict(iter_table(table))
        if b"" not in records:
            raise ValueError("is a table without the header of a checkpoint")
        header = _Message(records.pop(b""))
        if header.integer(2):
            raise ValueError("was written on a big-endian machine")
        return [
            _parse_entry(key.decode("utf-8"), _Message(value), num_shards=header.integer(1))
            for key, value in records.items()
            if not key.startswith(b"\0")  # the slices of partitioned variables
        ]
    except ValueError as error:
        raise FileFormatError(f"{path}: {error}; fetch the checkpoint again, or {_SAVE_AGAIN}") from error


def _parse_entry(name: str, entry: "_Message", *, num_shards: int) -> TensorEntry:
    """Parse a BundleEntryProto: dtype 1, shape 2, shard 3, offset 4, size 5, crc32c 6, slices 7."""
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


def read_tensor(prefix: Path, entry: TensorEntry) -> Array:
    """Read one tensor of the index as a writable array, bfloat16 as float32, and verify its checksum.

    Raises:
        FileFormatError: If it is partitioned, of a type that no weights have, or damaged.
    """
    index_path = Path(f"{prefix}.index")
    if entry.is_partitioned:
        raise FileFormatError(
            f"{index_path}: {entry.name} is stored in slices; {_SAVE_AGAIN}, without a partitioner"
        )
    if entry.dtype not in _STORED:
        raise FileFormatError(
            f"{index_path}: {entry.name} is of {entry.dtype}, not one of {', '.join(_STORED)}; "
            f"{_SAVE_AGAIN}, without it"
        )
    itemsize = np.dtype(_STORED[entry.dtype]).itemsize
    # An empty tensor may claim any other dimensions: numpy's limits apply.
    is_possible = len(entry.shape) <= 32 and math.prod(filter(None, entry.shape)) * itemsize < 1 << 63
    if not is_possible or entry.size != math.prod(entry.shape) * itemsize:
        raise FileFormatError(
            f"{index_path}: {entry.name} of {entry.dtype} {list(entry.shape)} cannot take {entry.size} "
            "bytes; fetch the checkpoint again"
        )
    path = Path(f"{prefix}.data-{entry.shard:05d}-of-{entry.num_shards:05d}")
    end = entry.offset + entry.size
    try:
        file_size = path.stat().st_size
        if end > file_size:
            raise FileFormatError(
                f"{path}: ends at byte {file_size}, but {entry.name} ends at {end}; fetch the file again"
            )
        content = np.fromfile(path, dtype=np.uint8, count=entry.size, offset=entry.offset)
    except OSError as error:
        raise FileFormatError(
            f"{path}: {error.strerror or error}; put it beside the .index file, all files of a checkpoint "
            "together"
        ) from error
    if masked_crc32c(content.data) != entry.crc32c:
        raise FileFormatError(f"{path}: the checksum of {entry.name} is wrong; fetch the file again")
    values: Array = content.view(_STORED[entry.dtype])
    if entry.dtype == "bfloat16":
        values = (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return values.astype(values.dtype.newbyteorder("="), copy=False).reshape(entry.shape)


class _Message:
    """The numbered fields of a protobuf message, read from its wire format."""

    def __init__(self, data: bytes) -> None:
        self._fields: dict[int, list[int | bytes]] = {}
        at = 0
        while at < len(data):
            tag, at = _read_varint(data, at)
            wire_type = tag & 7
            value: int | bytes
            if wire_type == 0:
                value, at = _read_varint(data, at)
            else:
                if wire_type == 2:
                    size, at = _read_varint(data, at)
                elif wire_type in (1, 5):
                    size = 8 if wire_type == 1 else 4
                else:
                    raise ValueError(f"a record has a field of the unknown wire type {wire_type}")
                content, at = data[at : at + size], at + size
                if len(content) < size:
                    raise ValueError(f"a field of {size} bytes runs past its record's end")
                value = content if wire_type == 2 else int.from_bytes(content, "little")
            self._fields.setdefault(tag >> 3, []).append(value)

    def integer(self, number: int) -> int:
        """Return the field as a number, 0 if it is absent."""
        value = self._fields.get(number, [0])[-1]
        if not isinstance(value, int):
            raise ValueError(f"field {number} of a record is not a number")
        return value

    def messages(self, number: int) -> list[bytes]:
        """Return the values of the field as nested messages, still encoded."""
        values = self._fields.get(number, [])
        nested = [value for value in values if isinstance(value, bytes)]
        if len(nested) < len(values):
            raise ValueError(f"field {number} of a record is not a message")
        return nested


def _read_varint(data: bytes, start: int) -> tuple[int, int]:
    """Read the unsigned 64-bit number at `start` (seven bits a byte, lowest first); return it and its end."""
    value = 0
    for place, byte in enumerate(data[start : start + 10]):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80 and value < 1 << 64:
            return value, start + place + 1
    raise ValueError(f"no number at byte {start} of a record")


def iter_table(table: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the (key, value) pairs of a table in the order of their keys; verify the checksums.

    Raises:
        ValueError: If the table is damaged or compressed.
    """
    if len(table) < _FOOTER_SIZE or not table.endswith(_MAGIC):
        raise ValueError("does not end as a TensorFlow index file does")
    footer = table[-_FOOTER_SIZE:]
    start = _read_varint(footer, _read_varint(footer, 0)[1])[1]  # after the handle of the metaindex
    for _, handle in _iter_block(_read_block(table, footer, start)):
        yield from _iter_block(_read_block(table, handle, 0))


def _read_block(table: bytes, handle: bytes, start: int) -> bytes:
    """Read the block of the handle at `start`, which is an offset and a size.

    After each block there is one byte for the compression and four for the checksum.
    """
    offset, start = _read_varint(handle, start)
    size, _ = _read_varint(handle, start)
    end = offset + size + 1
    if end + 4 > len(table):
        raise ValueError(f"a block should end at byte {end + 4} of {len(table)}")
    if masked_crc32c(table[offset:end]) != int.from_bytes(table[end : end + 4], "little"):
        raise ValueError(f"the checksum of the block at byte {offset} is wrong")
    if table[end - 1]:
        kind = "with Snappy, which is not read here" if table[end - 1] == 1 else "in an unknown way"
        raise ValueError(f"is compressed {kind}")
    return table[offset : end - 1]


def _iter_block(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the pairs of a block; each key is a shared prefix of the key before it and a suffix."""
    # The restart points at the end only serve binary search; here they say where the pairs end.
    num_restarts = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 - 4 * num_restarts
    if end < 0:
        raise ValueError(f"a block of {len(block)} bytes cannot hold {num_restarts} restart points")
    key, at = b"", 0
    while at < end:
        shared, at = _read_varint(block, at)
        added, at = _read_varint(block, at)
        value_size, at = _read_varint(block, at)
        value_start = at + added
        if shared > len(key) or value_start + value_size > end:
            raise ValueError(f"a record runs past its block's end at byte {end}")
        key = key[:shared] + block[at:value_start]
        at = value_start + value_size
        yield key, block[value_start:at]


def masked_crc32c(data: bytes | memoryview) -> int:
    """Compute the checksum that LevelDB and TensorFlow store: a rotated CRC-32C."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def crc32c(data: bytes | memoryview) -> int:
    """Compute the CRC-32C (Castagnoli) of `data`, as in RFC 3720: that of b"123456789" is 0xE3069283.

    A CRC is linear: the register after a row of bytes and k further zero bytes is a fixed 32×32 bit matrix
    times the register after the row. So thousands of registers, one for each word of a row, advance along the
    rows of the data together, and what remains is the CRC of a single row: hundreds of megabytes a second in
    numpy.
    """
    return _advance(0xFFFFFFFF, memoryview(data), _WIDTHS) ^ 0xFFFFFFFF


def _advance(register: int, data: memoryview, widths: tuple[int, ...]) -> int:
    """Return the register after `data`, folding rows of the first width, then of the next, then bytes."""
    if not widths:
        return _advance_by_bytes(register, data)
    width, *narrower = widths
    whole = len(data) // (4 * width) * (4 * width)
    if whole:
        rows = np.frombuffer(data[:whole], dtype="<u4").reshape(-1, width)
        # One row that, from an empty register, leads to where `rows` lead from `register`.
        low, high = _tables(4 * width)
        folded: Words = rows[0].astype(np.uint32)
        folded[0] ^= np.uint32(register)
        for row in rows[1:]:
            folded = low[folded & 0xFFFF] ^ high[folded >> 16] ^ row
        register = _advance(0, memoryview(folded.astype("<u4").tobytes()), tuple(narrower))
    return _advance(register, data[whole:], tuple(narrower))


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
    """Apply the linear map that takes bit b to `images[b]` to each of `words`."""
    mapped = np.zeros_like(words)
    for bit, image in enumerate(images):
        mapped ^= (words >> np.uint32(bit) & np.uint32(1)) * image
    return mapped
