"""`albert export`: write a model in the form of another runtime."""

import dataclasses
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from albert.cli.command import CommandResult, Revision, check_new_folder

ExportedModel = Annotated[
    str, Argument(metavar="MODEL", help="Model folder, run, weights file, nano, or hub name.")
]


def int8(
    model: ExportedModel,
    out: Annotated[Path, Option(help="Folder to write.")],
    text: Annotated[
        Path | None, Option(help="Texts for the check, one per line. [default: English sentences]")
    ] = None,
    float_modules: Annotated[str, Option(help="Modules that stay in float, as in ffn.0.output,pooler.")] = "",
    reduce_range: Annotated[
        bool | None, Option(help="Round weights to 7 bits. [default: as this CPU needs]")
    ] = None,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace the model folder at --out.")] = False,
    revision: Revision = None,
) -> CommandResult:
    """Write a folder with int8 weights, if they agree with float32."""
    check_new_folder(out, overwrite=overwrite)
    from albert.export.int8 import export_int8
    from albert.files import read_text

    found = export_int8(
        model,
        out,
        texts=None if text is None else [line for line in read_text(text).splitlines() if line.strip()],
        float_modules=[name for name in float_modules.split(",") if name],
        reduce_range=reduce_range,
        revision=revision,
    )
    ratio = found.num_bytes / found.num_float_bytes
    bits = 7 if found.reduce_range else 8
    shown = f"{found.num_bytes / 1e6:.1f} MB of {bits}-bit weights ({ratio:.2f} of float32)"
    return CommandResult(dataclasses.asdict(found), f"{out}: {shown}; {found.agreement.describe()}")
