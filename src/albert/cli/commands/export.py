"""`albert export`: write a model for other runtimes."""

import dataclasses
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from albert.cli.command import CommandResult, Depth, Revision, check_new_folder
from albert.errors import InputError

Model = Annotated[str, Argument(metavar="MODEL", help="Model folder, run, nano, or hub name.")]
Out = Annotated[Path, Option("--out", help="Folder to write.")]
Overwrite = Annotated[bool, Option("--overwrite", help="Replace an earlier export at --out.")]


def int8(
    model: Model,
    out: Out,
    text: Annotated[
        Path | None, Option(help="Texts for the check, one per line. [default: English sentences]")
    ] = None,
    float_modules: Annotated[str, Option(help="Modules that stay in float, as in ffn.0.output,pooler.")] = "",
    reduce_range: Annotated[
        bool | None, Option(help="Round weights to 7 bits. [default: as this CPU needs]")
    ] = None,
    overwrite: Overwrite = False,
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


def onnx(
    model: Model,
    out: Out,
    depth: Depth = None,
    int8: Annotated[bool, Option("--int8", help="Also write a dynamically quantized graph.")] = False,
    overwrite: Overwrite = False,
) -> CommandResult:
    """Export a model as ONNX, for ONNX Runtime and transformers.js, and verify it."""
    from albert.pretrained.huggingface import ONNX_INT8_NAME, ONNX_NAME

    if check_new_folder(out, overwrite=overwrite) and not (out / ONNX_NAME).is_file():
        raise InputError(f"{out}: is not an export, so --overwrite does not replace it; choose another --out")
    from albert.export.onnx import export_onnx

    found = export_onnx(model, out=out, depth=depth, int8=int8)
    data = dataclasses.asdict(found)
    text = (
        f"{out / ONNX_NAME}: {found.num_bytes / 1e6:.1f} MB, {found.num_layers} layers, outputs "
        f"{', '.join(found.outputs)}; differs from torch by at most {found.max_difference:.1e}"
    )
    if found.agreement is not None and found.num_int8_bytes is not None:
        cosines = f"{found.agreement.mean_cosine:.4f}, lowest {found.agreement.lowest_cosine:.4f}"
        parts = [
            f"{found.num_int8_bytes / 1e6:.1f} MB",
            f"mean cosine of its hidden states with float32 {cosines}",
            *(f"{share:.1%} equal {name}" for name, share in found.agreement.same_predictions.items()),
        ]
        text += f"\n{out / ONNX_INT8_NAME}: {'; '.join(parts)}"
    return CommandResult(data, text)
