"""The options that several commands have: each is described once, here."""

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
