"""Measure the held-out loss after a number of steps or minutes: `python -m bench.quality SIDE …`.

Both sides are trained on the same corpus and evaluated by the same code on the same held-out examples.
"""

import argparse
import dataclasses
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from albert.examples.batches import ExampleSource, build_source, iter_steps
from albert.examples.settings import ExampleSettings
from albert.files import write_json
from albert.model.albert_model import AlbertModel
from albert.model.config import ModelConfig
from albert.pretrained.folder import load_model
from albert.training.losses import build_held_out_source, evaluate_pass
from albert.training.pretrain import PretrainData, open_data
from albert.training.settings import read_recipe
from albert.training.timing import parse_duration
from bench.plain_loop import PlainLoop, pad_batches

NUM_EXAMPLES = 2000


@torch.inference_mode()
def evaluate_model(model: AlbertModel, data: PretrainData, *, length: int) -> dict[str, Any]:
    """Evaluate MLM and SOP on the held-out documents, with standard errors."""
    settings = ExampleSettings(max_length=length)
    source = build_held_out_source(data.held_out, data.tokenizer, settings, objective="sop")
    found = evaluate_pass(model.eval(), source, num_examples=NUM_EXAMPLES, max_tokens=4096)
    return dataclasses.asdict(found)


def train_plain(args: argparse.Namespace, data: PretrainData) -> dict[str, Any]:
    """Train the recipe's model in the plain loop: constant depth and length, linear warm-up and decay."""
    config = read_recipe(args.recipe, overrides=[f"model.vocab_size={data.tokenizer.vocab_size}"]).model
    assert config is not None, "the recipe has no model"
    settings = ExampleSettings(max_length=args.length)
    source = build_source(data.train, data.tokenizer, settings=settings, seed=args.seed)
    num_steps = args.steps or count_plain_steps(args, config, source)
    loop = PlainLoop(config, learning_rate=args.learning_rate, seed=args.seed)
    steps = iter_steps(source, batch_size=args.batch_size, first_step=0, num_steps=num_steps)
    curve, began = [], time.perf_counter()
    for step, batches in enumerate(steps):
        warmup = 0.06 * num_steps
        factor = min(step / warmup, (num_steps - step) / (num_steps - warmup))
        loss = loop.step(pad_batches(batches), factor=factor)
        if step % 50 == 0:
            curve.append((step, round(loss, 4), round(time.perf_counter() - began, 1)))
            print(curve[-1], flush=True)
    seconds = time.perf_counter() - began
    with tempfile.TemporaryDirectory() as name:
        loop.save(Path(name))
        model = load_model(name).model
    return {
        "steps": num_steps,
        "seconds": seconds,
        "curve": curve,
        **evaluate_model(model, data, length=args.length),
    }


def count_plain_steps(args: argparse.Namespace, config: ModelConfig, source: ExampleSource) -> int:
    """Time the plain loop for half a minute, and return the number of steps that fit into the budget."""
    loop = PlainLoop(config, learning_rate=0.0)
    began, done = 0.0, 0
    for step, batches in enumerate(
        iter_steps(source, batch_size=args.batch_size, first_step=0, num_steps=1000)
    ):
        if step == 3:  # after the warm-up
            began = time.perf_counter()
        elif step > 3 and time.perf_counter() - began > 30:
            done = step - 3
            break
        loop.step(pad_batches(batches))
    seconds = (time.perf_counter() - began) / done
    num_steps = int((parse_duration(args.budget) - 30) / seconds)
    print(f"{num_steps} steps of {seconds:.3f} s", flush=True)
    return num_steps


def train_ours(args: argparse.Namespace, data: PretrainData) -> dict[str, Any]:
    """Train with `albert pretrain`."""
    from albert.cli.command import ProgressDisplay
    from albert.training.pretrain import pretrain
    from albert.training.run_folder import iter_records

    with tempfile.TemporaryDirectory() as name:
        overrides = [*args.settings, f"seed={args.seed}"]
        if args.held_out:
            overrides.append(f"held_out.data={args.held_out}")
        if args.steps:
            overrides.append(f"num_steps={args.steps}")
        began = time.perf_counter()
        result = pretrain(
            args.recipe, data=args.data, out=Path(name) / "run", overrides=overrides, budget=args.budget,
            reporter=ProgressDisplay(),
        )  # fmt: skip
        seconds = time.perf_counter() - began
        records = [
            record for record in iter_records(result.run_dir) if record["kind"] in ("train", "evaluate")
        ]
        model = load_model(result.run_dir / "model").model
    curve = [(r["step"], r["mlm_loss"], r["seconds"], r["kind"]) for r in records]
    settings = read_recipe(args.recipe, overrides=overrides)
    return {
        "steps": result.outcome.progress.step,
        "settings": settings.model_dump(mode="json"),
        "seconds": seconds,
        "curve": curve,
        **evaluate_model(model, data, length=args.length),
    }


def main() -> None:
    """Train one side, and write the result as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", choices=["ours", "plain"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--held-out", type=Path, help="prepared corpus to evaluate on")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--budget")
    parser.add_argument("--recipe", default="nano")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("settings", nargs="*")
    args = parser.parse_intermixed_args()
    torch.set_num_threads(args.threads)
    held_out = [f"held_out.data={args.held_out}"] if args.held_out else []
    data = open_data(args.data, read_recipe("nano", overrides=held_out).held_out)
    found = (train_ours if args.side == "ours" else train_plain)(args, data)
    arguments = {key: str(value) for key, value in vars(args).items()}
    write_json(args.out, {"arguments": arguments, **found})
    print(json.dumps({key: found[key] for key in ("seconds", "mlm_loss", "mlm_accuracy", "pair_accuracy")}))


if __name__ == "__main__":
    main()
