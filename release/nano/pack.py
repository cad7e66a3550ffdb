"""Write the released folder: the model in half precision and its card, within a limit of size."""

import argparse
import shutil
from pathlib import Path

from albert.errors import InputError
from albert.files import atomic_dir
from albert.pretrained.folder import MODEL_FILES, load_model, load_vocabulary
from albert.pretrained.huggingface import CARD_NAME
from albert.progress import Reporter
from albert.report.write import FIGURES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the step."""
    parser.add_argument("--model", type=Path, required=True, help="output of `albert convert RUN … --half`")
    parser.add_argument("--card", type=Path, required=True, help="output of the step `card`")
    parser.add_argument("--out", type=Path, required=True, help="the folder in src/albert/released, replaced")
    parser.add_argument("--limit", type=float, default=6.0, help="in MB")


def run(args: argparse.Namespace, reporter: Reporter) -> str:
    """Write the folder atomically; reject a model that cannot be loaded or is too large."""
    load_model(args.model)
    load_vocabulary(args.model)
    with atomic_dir(args.out) as temporary_dir:
        for file in sorted(args.model.iterdir()):
            if file.name in MODEL_FILES - {CARD_NAME}:
                copy = shutil.copytree if file.is_dir() else shutil.copyfile
                copy(file, temporary_dir / file.name)
        shutil.copyfile(args.card / CARD_NAME, temporary_dir / CARD_NAME)
        if (args.card / FIGURES).exists():
            shutil.copytree(args.card / FIGURES, temporary_dir / FIGURES)
        size = sum(file.stat().st_size for file in temporary_dir.rglob("*") if file.is_file())
        if size > args.limit * 1e6:
            raise InputError(
                f"{args.out}: would have {size / 1e6:.2f} MB, and the limit is {args.limit:g} MB; "
                "convert with --half, or use a smaller vocabulary"
            )
    return f"{args.out}: {size / 1e6:.2f} MB"
