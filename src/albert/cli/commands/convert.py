"""`albert convert`: a model of any kind we read comes in, a folder that `transformers` opens goes out."""

from pathlib import Path
from typing import Annotated, Any

import typer

from albert.cli.options import Revision
from albert.cli.results import CommandResult
from albert.errors import InputError


def convert(
    source: Annotated[
        str,
        typer.Argument(metavar="SRC", help="a folder, a weights file, an original checkpoint or a hub name"),
    ],
    target: Annotated[Path, typer.Argument(metavar="DST", help="the folder to write")],
    half: Annotated[bool, typer.Option("--half", help="write the weights in half precision")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="replace the model folder DST")] = False,
    revision: Revision = None,
) -> CommandResult:
    """Write any model we can read as a folder that albert and `transformers` open."""
    _check_target(target, overwrite)
    import torch

    from albert.pretrained.folder import find_vocabulary, load_model, read_card, save_model
    from albert.pretrained.sentence_transformers import find_other_modules

    loaded = load_model(source, revision=revision)
    tokenizer = find_vocabulary(loaded.path)
    save_model(
        target,
        loaded.model,
        tokenizer=tokenizer,
        labels=loaded.folder_config.labels if set(loaded.model.heads) & _LABELLED else (),
        problem_type=loaded.folder_config.problem_type,
        dtype=torch.float16 if half else torch.float32,
        card=read_card(loaded.path),
        extras=_read_extras(loaded.path),
    )
    data = {
        "folder": str(target),
        "parameters": sum(parameter.numel() for parameter in loaded.model.parameters()),
        "heads": list(loaded.model.heads),
        "has_vocabulary": tokenizer is not None,
        "left_out": find_other_modules(loaded.path if loaded.path.is_dir() else loaded.path.parent),
        "bytes": sum(file.stat().st_size for file in target.rglob("*") if file.is_file()),
    }
    return CommandResult(data, lambda console: _render(console, data))


_LABELLED = {"classification", "token_classification"}


def _check_target(target: Path, overwrite: bool) -> None:
    from albert.pretrained.huggingface import CONFIG_NAME

    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not overwrite:
        raise InputError(f"{target} exists; choose another folder, or add --overwrite")
    if not (target / CONFIG_NAME).is_file():
        raise InputError(f"{target} is no model folder; --overwrite replaces only those, so choose another")


def _read_extras(path: Path) -> dict[str, str]:
    """The files that say what a model was fine-tuned for: without them it would answer nothing."""
    from albert.files import read_text
    from albert.pretrained.huggingface import TASK_NAME
    from albert.pretrained.sentence_transformers import read_sentence_files

    folder = path if path.is_dir() else path.parent
    task = {TASK_NAME: read_text(folder / TASK_NAME)} if (folder / TASK_NAME).is_file() else {}
    return {**task, **read_sentence_files(folder)}


def _render(console: Any, data: dict[str, Any]) -> None:
    heads = ", ".join(data["heads"]) or "no heads"
    vocabulary = "with its vocabulary" if data["has_vocabulary"] else "without a vocabulary"
    if data["left_out"]:
        modules = ", ".join(data["left_out"])
        console.print(f"{modules}: not converted; the folder is the encoder alone", markup=False)
    console.print(
        f"{data['folder']}: {data['parameters']:,} parameters ({heads}), {vocabulary}, "
        f"{data['bytes'] / 1e6:.1f} MB",
        markup=False,
    )
