"""`albert convert`: convert any supported model to a folder that `transformers` opens."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from albert.cli.command import CommandResult, Revision, check_new_folder
from albert.errors import InputError


def convert(
    source: Annotated[
        str, Argument(metavar="SRC", help="Model folder, weights file, TensorFlow checkpoint, or hub name.")
    ],
    target: Annotated[Path, Argument(metavar="DST", help="Folder to write.")],
    half: Annotated[bool, Option("--half", help="Write the weights in half precision.")] = False,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace the model folder DST.")] = False,
    revision: Revision = None,
) -> CommandResult:
    """Convert any supported model to a folder that transformers opens."""
    from albert.pretrained.huggingface import CONFIG_NAME, TASK_NAME

    if check_new_folder(target, overwrite=overwrite) and not (target / CONFIG_NAME).is_file():
        raise InputError(
            f"{target}: is not a model folder, so --overwrite does not replace it; choose another DST"
        )
    import torch

    from albert.files import read_text
    from albert.pretrained.folder import find_vocabulary, load_model, read_card, save_model
    from albert.pretrained.sentence_transformers import find_other_modules, read_sentence_files

    loaded = load_model(source, revision=revision)
    tokenizer = find_vocabulary(loaded.path)
    folder = loaded.path if loaded.path.is_dir() else loaded.path.parent
    task = {TASK_NAME: read_text(folder / TASK_NAME)} if (folder / TASK_NAME).is_file() else {}
    has_labels = {"classification", "token_classification"} & set(loaded.model.heads)
    save_model(
        target,
        loaded.model,
        tokenizer=tokenizer,
        labels=loaded.folder_config.labels if has_labels else (),
        problem_type=loaded.folder_config.problem_type,
        dtype=torch.float16 if half else torch.float32,
        card=read_card(loaded.path),
        extras={**task, **read_sentence_files(folder)},
    )
    data: dict[str, Any] = {
        "folder": str(target),
        "parameters": sum(parameter.numel() for parameter in loaded.model.parameters()),
        "heads": list(loaded.model.heads),
        "has_vocabulary": tokenizer is not None,
        "left_out": find_other_modules(folder),
        "bytes": sum(file.stat().st_size for file in target.rglob("*") if file.is_file()),
    }

    heads = ", ".join(data["heads"]) or "no heads"
    vocabulary = "with its vocabulary" if data["has_vocabulary"] else "without a vocabulary"
    size = f"{data['parameters']:,} parameters ({heads}), {vocabulary}, {data['bytes'] / 1e6:.1f} MB"
    notes = f"not converted: {', '.join(data['left_out'])}; the folder holds the encoder only\n"
    text = f"{notes if data['left_out'] else ''}{target}: {size}"
    return CommandResult(data, text)
