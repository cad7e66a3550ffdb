"""Bytes come in, their CRC-32C (Castagnoli) goes out, at hundreds of megabytes a second in plain numpy.

A CRC is linear: the register after a row of bytes and k further zero bytes is a fixed 32×32 bit matrix
times the register after the row. So thousands of registers, one for each word of a row, walk down the
rows of the data together, and what remains is the CRC of a single row.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]

# Words in a row, both powers of two: wide rows for large tensors, then narrow ones for what is left.
_WIDTHS = (4096, 64)


def crc32c(data: bytes | memoryview) -> int:
    """The CRC-32C of `data`, as RFC 3720 defines it: that of b"123456789" is 0xE3069283."""
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
