"""The options that several commands have: each is described once, here."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from albert.errors import InputError

Depth = Annotated[int | None, typer.Option("--depth", help="layers to run; fewer is faster")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:N or mps")]
PrecisionName = Annotated[str, typer.Option("--precision", help="float32, or bf16 where the hardware has it")]
Revision = Annotated[str | None, typer.Option("--revision", help="of a hub name: a tag, branch or commit")]
Budget = Annotated[str | None, typer.Option("--budget", help="as many steps as fit into 20m, 2h or 1h30m")]
Resume = Annotated[bool, typer.Option("--resume", help="go on with the run in --out, exactly")]
Force = Annotated[bool, typer.Option("--force", help="replace the file at --out")]
Sources = Annotated[
    list[str],
    typer.Argument(metavar="CORPUS…", help="files, folders or URLs of text, or hf:NAME[@CONFIG][:SPLIT]"),
]
TextKey = Annotated[str, typer.Option("--text-key", help="the key or column of the text")]
Texts = Annotated[list[str], typer.Argument(metavar="TEXT…", help="texts, or - to read one from each line")]
Vocabulary = Annotated[str, typer.Option("--vocab", help="the folder or file of a vocabulary, or a model")]


def check_new_file(path: Path | None, *, force: bool) -> None:
    """Reject an `--out` that would replace a file, unless that is wanted; devices and pipes are no files."""
    if path is not None and path.is_file() and not force:
        raise InputError(f"{path}: exists; add --force to replace it, or choose another --out")


INTERRUPTED = 130
TERMINATED = 143
_EXIT_CODES = {"SIGINT": INTERRUPTED, "SIGTERM": TERMINATED}


def tell_stopped(signal: str | None, *, go_on: str, step: int | None = None, is_silent: bool = False) -> int:
    """Say that what was done is saved and how to `go_on`; the exit code is that of the signal.

    Of several processes that share a job, one speaks. Without a signal, something else has stopped it.
    """
    if not is_silent:
        place = "" if step is None else f" at step {step}"
        print(f"stopped by {signal}{place} and saved; {go_on}", file=sys.stderr)
    return _EXIT_CODES.get(signal or "", 1)


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
