"""A file or an open stream comes in; its lines go out one at a time, decoded and numbered."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from albert.data.decompress import iter_bytes
from albert.data.remote import Place
from albert.errors import FileFormatError
from albert.tasks.problems import BadRow, Problems

MAX_LINE_BYTES = 1 << 26
_BLOCK_BYTES = 1 << 16
_BYTE_ORDER_MARK = "\ufeff"
_ESCAPED = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True, slots=True)
class Line:
    """A line without its end, and its number, counted from 1; the end is part of a text that goes on."""

    line: int
    text: str
    end: str = "\n"


def iter_lines(source: Place | BinaryIO, *, problems: Problems) -> Iterator[Line]:
    """The lines of a file, plain or compressed, or of a stream as they arrive.

    Only line feeds end a line: Unicode has more ends, which occur inside texts. Bytes that are no UTF-8 come
    out as lone surrogates, for `check_decoded` to refuse row by row.
    """
    number = 0
    rest = b""
    for block in _iter_blocks(source):
        *whole, rest = (rest + block).split(b"\n")
        for data in whole:
            number += 1
            yield _build_line(data, number)
        if len(rest) > MAX_LINE_BYTES:
            raise FileFormatError(
                f"{problems.path}: line {number + 1} is longer than {MAX_LINE_BYTES >> 20} MB; "
                "is it a file of lines?"
            )
    if rest:
        yield _build_line(rest, number + 1)


def check_decoded(text: str) -> str:
    """The text itself; one in which bytes could not be decoded is refused."""
    found = None if text.isascii() else _ESCAPED.search(text)
    if found is None:
        return text
    byte = ord(found[0]) - 0xDC00
    raise BadRow(
        "bytes that are not UTF-8", f"0x{byte:02x} behind {found.start()} characters; save it as UTF-8"
    )


def _iter_blocks(source: Place | BinaryIO) -> Iterator[bytes]:
    if not hasattr(source, "read"):
        return iter_bytes(source)
    read = getattr(source, "read1", source.read)  # what has arrived, without waiting for a full block
    return iter(lambda: read(_BLOCK_BYTES), b"")


def _build_line(data: bytes, number: int) -> Line:
    text = data.removesuffix(b"\r").decode("utf-8", "surrogateescape")
    end = "\r\n" if data.endswith(b"\r") else "\n"
    return Line(number, text.removeprefix(_BYTE_ORDER_MARK) if number == 1 else text, end)
