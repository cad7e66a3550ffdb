"""Cleaned documents come in and go to a compressed file between the two passes; and back, one at a time."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from albert.data.decompress import BLOCK_BYTES, iter_bytes
from albert.data.paragraphs import RawDocument

# Cleaned text has no control characters: these two are free for the borders.
_DOCUMENT_END = b"\x1e"
_IS_SPLIT = b"\x1f"


def write_documents(path: Path, documents: Iterable[RawDocument]) -> Iterator[RawDocument]:
    """Write the documents as they pass through; the file is whole when the last one has."""
    waiting = bytearray()
    with pa.OSFile(str(path), "wb") as sink, pa.CompressedOutputStream(sink, "zstd") as stream:
        for document in documents:
            waiting += _IS_SPLIT if document.is_split else b""
            for number, paragraph in enumerate(document.paragraphs):
                waiting += b"\n" + paragraph.encode() if number else paragraph.encode()
                if len(waiting) >= BLOCK_BYTES:  # also inside a document: it may be as long as a library
                    stream.write(bytes(waiting))
                    waiting.clear()
            waiting += _DOCUMENT_END
            yield document
        stream.write(bytes(waiting))


def read_documents(path: Path) -> Iterator[RawDocument]:
    """The documents of such a file."""
    rest: list[bytes] = []
    for block in iter_bytes(path):
        first, *others = block.split(_DOCUMENT_END)
        rest.append(first)
        for following in others:
            document = _parse(rest)
            rest = [following]
            yield document


def _parse(blocks: Iterable[bytes]) -> RawDocument:
    content = b"".join(blocks)
    is_split = content.startswith(_IS_SPLIT)
    return RawDocument(content.removeprefix(_IS_SPLIT).decode().split("\n"), is_split=is_split)
