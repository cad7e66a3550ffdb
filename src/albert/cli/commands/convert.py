"""`albert convert`: convert any supported model to a folder that `transformers` opens."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from albert.cli.command import CommandResult, Revision, check_new_folder, key_values
from albert.errors import InputError


def convert(
    source: Annotated[
        str, Argument(metavar="SRC", help="Model folder, weights file, TensorFlow checkpoint, or hub name.")
    ],
    target: Annotated[Path, Argument(metavar="DST", help="Folder to write.")],
    settings: Annotated[list[str] | None, key_values("embedding_size=128 intermediate_size=480")] = None,
    half: Annotated[bool, Option("--half", help="Write the weights in half precision.")] = False,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace the model folder DST.")] = False,
    revision: Revision = None,
    shrink: Annotated[
        bool, Option("--shrink", help="Change the shape of the encoder by key=value; needs --data.")
    ] = False,
    data: Annotated[str | None, Option(help="For --shrink: a corpus with the model's vocabulary.")] = None,
) -> CommandResult:
    """Convert any supported model to a folder that transformers opens."""
    from albert.pretrained.huggingface import CONFIG_NAME, TASK_NAME

    if check_new_folder(target, overwrite=overwrite) and not (target / CONFIG_NAME).is_file():
        raise InputError(
            f"{target}: is not a model folder, so --overwrite does not replace it; choose another DST"
        )
    import torch

    from albert.files import read_text
    from albert.model.heads import LABELED_HEADS
    from albert.pretrained.folder import find_vocabulary, load_model, read_card, save_model
    from albert.pretrained.sentence_transformers import find_other_modules, read_sentence_files

    loaded = load_model(source, revision=revision)
    tokenizer = find_vocabulary(loaded.path)
    model = loaded.model
    if shrink or settings or data is not None:
        if not (shrink and settings and data is not None):
            raise InputError("--shrink, --data and key=value need each other, as in embedding_size=128")
        from albert.data.corpus import open_corpus
        from albert.pretrained.folder import load_vocabulary
        from albert.training.distillation import shrink_model

        corpus = open_corpus(data, fingerprint=load_vocabulary(loaded.path).fingerprint)
        model = shrink_model(loaded.path, corpus, settings)
    folder = loaded.path if loaded.path.is_dir() else loaded.path.parent
    is_task = (folder / TASK_NAME).is_file() and model is loaded.model
    task = {TASK_NAME: read_text(folder / TASK_NAME)} if is_task else {}
    has_labels = set(LABELED_HEADS) & set(model.heads)
    save_model(
        target,
        model,
        tokenizer=tokenizer,
        labels=loaded.folder_config.labels if has_labels else (),
        problem_type=loaded.folder_config.problem_type if has_labels else None,
        dtype=torch.float16 if half else torch.float32,
        card=read_card(loaded.path) if model is loaded.model and loaded.int8 is None else None,
        extras={**task, **read_sentence_files(folder)},
    )
    values: dict[str, Any] = {
        "folder": str(target),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "heads": list(model.heads),
        "has_vocabulary": tokenizer is not None,
        "left_out": find_other_modules(folder),
        "bytes": sum(file.stat().st_size for file in target.rglob("*") if file.is_file()),
    }

    heads = ", ".join(values["heads"]) or "no heads"
    vocabulary = "with its vocabulary" if values["has_vocabulary"] else "without a vocabulary"
    size = f"{values['parameters']:,} parameters ({heads}), {vocabulary}, {values['bytes'] / 1e6:.1f} MB"
    notes = f"not converted: {', '.join(values['left_out'])}; the folder holds the encoder only\n"
    text = f"{notes if values['left_out'] else ''}{target}: {size}"
    return CommandResult(values, text)
