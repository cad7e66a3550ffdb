"""`albert convert`: a model of any kind we read comes in, a folder that `transformers` opens goes out."""

from pathlib import Path
from typing import Annotated, Any

import typer

from albert.app.results import CommandResult
from albert.errors import InputError


def convert(
    source: Annotated[
        str,
        typer.Argument(metavar="SRC", help="a folder, a weights file, an original checkpoint or a hub name"),
    ],
    target: Annotated[Path, typer.Argument(metavar="DST", help="the folder to write")],
    half: Annotated[bool, typer.Option("--half", help="write the weights in half precision")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="replace the model folder DST")] = False,
) -> CommandResult:
    """Write any model we can read as a folder that albert and `transformers` open."""
    _check_target(target, overwrite)
    import torch

    from albert.pretrained.folder import load_model, save_model
    from albert.pretrained.vocabulary import find_vocabulary

    loaded = load_model(source)
    tokenizer = find_vocabulary(loaded.path)
    save_model(
        target,
        loaded.model,
        tokenizer=tokenizer,
        labels=loaded.folder.labels if set(loaded.model.heads) & _LABELLED else (),
        problem_type=loaded.folder.problem_type,
        dtype=torch.float16 if half else torch.float32,
    )
    data = {
        "folder": str(target),
        "parameters": sum(parameter.numel() for parameter in loaded.model.parameters()),
        "heads": list(loaded.model.heads),
        "has_vocabulary": tokenizer is not None,
        "bytes": sum(file.stat().st_size for file in target.iterdir()),
    }
    return CommandResult(data, lambda console: _render(console, data))


_LABELLED = {"classification", "token_classification"}


def _check_target(target: Path, overwrite: bool) -> None:
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not overwrite:
        raise InputError(f"{target} exists; choose another folder, or add --overwrite")
    if not (target / "config.json").is_file():
        raise InputError(f"{target} is no model folder; --overwrite replaces only those, so choose another")


def _render(console: Any, data: dict[str, Any]) -> None:
    heads = ", ".join(data["heads"]) or "no heads"
    vocabulary = "with its vocabulary" if data["has_vocabulary"] else "without a vocabulary"
    console.print(
        f"{data['folder']}: {data['parameters']:,} parameters ({heads}), {vocabulary}, "
        f"{data['bytes'] / 1e6:.1f} MB"
    )
