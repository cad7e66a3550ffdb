"""A sorted table of LevelDB's layout comes in as bytes, its (key, value) pairs go out, checksums verified.

The layout: data blocks, an index block whose values say where they lie, and a footer that says where
the index lies. What is damaged is a ValueError with the reason; the caller knows the file's name.
"""

from collections.abc import Iterator
from typing import NamedTuple

from albert.pretrained.crc32c import masked_crc32c

_MAGIC = bytes.fromhex("57fb808b247547db")  # 0xDB4775248B80FB57, little endian
_FOOTER_SIZE = 48  # two handles, padded to 40 bytes, and the magic number
_TRAILER_SIZE = 5  # after each block: one byte for the compression, four for the checksum
_UNCOMPRESSED, _SNAPPY = 0, 1


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
