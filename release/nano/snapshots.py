"""Save checkpoints of a run as models in half precision, also while it is training."""

import argparse
import time
from pathlib import Path

import torch

from albert.errors import AlbertError, InputError
from albert.pretrained.folder import save_model
from albert.progress import Reporter
from albert.text.tokenizer import Tokenizer
from albert.training.checkpoints import CheckpointFolder
from albert.training.pretrain import build_pretrain_model, open_data
from albert.training.run_folder import CHECKPOINTS_DIR, has_run, list_records, read_pretrain_run
from albert.training.settings import PretrainSettings

PREFIX = "model-"
_SECONDS = 20.0  # between two polls


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the step."""
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="a folder for model-STEP/")
    parser.add_argument("--number", type=int, default=16, help="number of snapshots, spread over the steps")
    parser.add_argument("--watch", action="store_true", help="poll until the run is finished")


def run(args: argparse.Namespace, reporter: Reporter) -> str:
    """Save the checkpoints there are; with --watch, also new ones before the run removes them."""
    while not has_run(args.run):
        if not args.watch:
            raise InputError(f"{args.run}: not a pretraining run; wait for one with --watch")
        time.sleep(_SECONDS)
    settings, metadata = read_pretrain_run(args.run)
    tokenizer = open_data(metadata.data, settings.held_out).tokenizer
    _save(args.out, 0, settings, tokenizer, weights=None)
    while True:
        save_new(args.run, args.out, settings, tokenizer, number=args.number, reporter=reporter)
        steps = list_steps(args.out)
        reporter.show(
            "snapshots",
            f"step {steps[-1]:,} of {settings.num_steps:,}",
            fraction=steps[-1] / settings.num_steps,
        )
        if steps[-1] == settings.num_steps or not args.watch:
            return f"{args.out}: models of steps {', '.join(f'{step:,}' for step in steps)}"
        time.sleep(_SECONDS)


def list_steps(folder: Path) -> list[int]:
    """List the steps of the snapshots in a folder, in order."""
    names = [path.name.removeprefix(PREFIX) for path in folder.glob(f"{PREFIX}*")]
    return sorted(int(name) for name in names if name.isdigit())


def save_new(
    run_dir: Path,
    out: Path,
    settings: PretrainSettings,
    tokenizer: Tokenizer,
    *,
    number: int,
    reporter: Reporter,
) -> None:
    """Save the first evaluated checkpoint in each of `number` equal parts of the run."""
    evaluated = {record["step"] for record in list_records(run_dir, "evaluate")}
    checkpoints = CheckpointFolder(run_dir / CHECKPOINTS_DIR)
    for step in (step for step in checkpoints.list_steps() if step in evaluated):
        saved = {known * number // settings.num_steps for known in list_steps(out)}  # 0: untrained
        if step * number // settings.num_steps in saved:
            continue
        try:
            tensors = checkpoints.load(step).tensors
        except (AlbertError, OSError) as error:  # the run has just removed it
            reporter.say(f"skipped step {step:,}: {error}")
            continue
        weights = {
            name.removeprefix("model."): tensor
            for name, tensor in tensors.items()
            if name.startswith("model.")
        }
        _save(out, step, settings, tokenizer, weights=weights)


def _save(
    out: Path,
    step: int,
    settings: PretrainSettings,
    tokenizer: Tokenizer,
    *,
    weights: dict[str, torch.Tensor] | None,
) -> None:
    """Save the model of a step with the depth it was trained with; without weights, the untrained model."""
    folder = out / f"{PREFIX}{step}"
    if folder.exists() or settings.model is None:
        return
    depth = settings.build_curriculum(settings.model).find(max(0, step - 1)).depth
    shape = settings.model.model_copy(
        update={"num_hidden_layers": depth} if settings.model.is_fully_shared and step else {}
    )
    plain = settings.model_copy(update={"model": shape, "is_compiled": False})
    model = build_pretrain_model(plain, is_resumed=weights is not None).eval()
    if weights is not None:
        model.load_state_dict(weights)
    save_model(folder, model, tokenizer=tokenizer, dtype=torch.float16)
