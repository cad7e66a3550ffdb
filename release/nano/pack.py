"""Write the released folder: the model in half precision and its card, if it is small enough."""

import argparse
import shutil
from pathlib import Path

from albert.errors import InputError
from albert.files import atomic_dir
from albert.pretrained.folder import MODEL_FILES, load_model, load_vocabulary
from albert.pretrained.huggingface import CARD_NAME
from albert.progress import Reporter
from albert.report.write import FIGURES

MAX_BYTES = 6_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the step."""
    parser.add_argument("--model", type=Path, required=True, help="what `albert convert RUN … --half` wrote")
    parser.add_argument("--card", type=Path, required=True, help="the folder that the step card wrote")
    parser.add_argument("--out", type=Path, required=True, help="src/albert/released/nano; it is replaced")


def run(args: argparse.Namespace, reporter: Reporter) -> str:
    """Write the folder atomically; reject a model that cannot be opened or is too large."""
    load_model(args.model)
    load_vocabulary(args.model)
    with atomic_dir(args.out) as aside:
        for file in sorted(args.model.iterdir()):
            if file.name in MODEL_FILES - {CARD_NAME}:
                shutil.copyfile(file, aside / file.name)
        shutil.copyfile(args.card / CARD_NAME, aside / CARD_NAME)
        if (args.card / FIGURES).exists():
            shutil.copytree(args.card / FIGURES, aside / FIGURES)
        size = sum(file.stat().st_size for file in aside.rglob("*") if file.is_file())
        if size > MAX_BYTES:
            raise InputError(
                f"{args.out}: would hold {size / 1e6:.2f} MB, and {MAX_BYTES / 1e6:.0f} MB are allowed; "
                "convert with --half, or choose a smaller vocabulary"
            )
    return f"{args.out}: {size / 1e6:.2f} MB"
