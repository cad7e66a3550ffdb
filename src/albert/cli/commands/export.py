"""`albert export`: write a model for other runtimes."""

import dataclasses
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from albert.cli.command import CommandResult, Depth, check_new_folder
from albert.errors import InputError

Model = Annotated[str, Argument(metavar="MODEL", help="Model folder, run, nano, or hub name.")]
Out = Annotated[Path, Option("--out", help="Folder to write.")]
Overwrite = Annotated[bool, Option("--overwrite", help="Replace an earlier export at --out.")]


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
