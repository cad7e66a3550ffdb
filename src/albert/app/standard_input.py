"""The words of a command come in; the texts that they are, or the lines of standard input, go out."""

import sys

from albert.errors import InputError


def read_texts(words: list[str]) -> list[str]:
    """The texts themselves, or the lines of standard input, up to the last that is not blank."""
    texts = _read_lines() if words == ["-"] else list(words)
    if not texts:
        raise InputError("no text on standard input; give at least one line")
    return texts


def _read_lines() -> list[str]:
    if sys.stdin is None:
        raise InputError("there is no standard input; give the texts as words")
    try:
        content = (
            sys.stdin.buffer.read().decode("utf-8") if hasattr(sys.stdin, "buffer") else sys.stdin.read()
        )
    except UnicodeDecodeError as error:
        raise InputError(
            f"standard input is not UTF-8 text (byte {error.start}); convert it first"
        ) from error
    # Only line feeds end a line: Unicode has more ends, which occur inside texts.
    lines = content.removeprefix("\ufeff").rstrip().split("\n")
    return [line.removesuffix("\r") for line in lines] if lines != [""] else []
