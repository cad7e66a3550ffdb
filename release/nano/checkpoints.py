"""Evaluate the checkpoints of a run: on held-out text, and after short fine-tuning."""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

from albert.data.corpus import Corpus
from albert.errors import InputError
from albert.files import read_text, write_text
from albert.progress import Reporter
from albert.tasks.finetune import finetune
from albert.training.run_folder import CHECKPOINTS_DIR, has_run
from release.nano.asking import Asked, open_asked, open_held_out
from release.nano.snapshots import PREFIX, list_steps


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the step."""
    parser.add_argument("--snapshots", type=Path, required=True, help="the folder of model-STEP/")
    parser.add_argument("--held-out", type=Path, required=True, help="a prepared corpus, in passages")
    parser.add_argument("--data", type=Path, required=True, help="the folder of GLUE's tasks")
    parser.add_argument(
        "--out", type=Path, required=True, help="checkpoints.jsonl, a line each; stopped, it goes on"
    )
    parser.add_argument("--tasks", default="sst-2,mrpc")
    parser.add_argument("--steps", type=int, default=400, help="of fine-tuning, the same for all")
    parser.add_argument("--examples", type=int, default=500, help="of held-out text to ask about")
    parser.add_argument("--max-length", type=int, help="of these examples [default: 128]")
    parser.add_argument("--seed", type=int, default=0)


def run(args: argparse.Namespace, reporter: Reporter) -> str:
    """Measure each snapshot that has no line yet; a line is written when all of it is known."""
    steps = list_steps(args.snapshots)
    if not steps:
        raise InputError(f"{args.snapshots}: has no {PREFIX}STEP folder; `python -m release.nano snapshots`")
    lines = read_lines(args.out) if args.out.exists() else []
    tasks = set(args.tasks.split(","))
    if any((line["finetune_steps"], {*line["tasks"]}) != (args.steps, tasks) for line in lines):
        raise InputError(
            f"{args.out}: has lines of other --steps or --tasks; choose another file, or remove it"
        )
    for number, step in enumerate(steps, start=1):
        if step in {line["step"] for line in lines}:
            continue
        reporter.say(f"{number} of {len(steps)}: step {step:,}")
        lines.append(_measure(args, step, reporter))
        lines.sort(key=lambda line: int(line["step"]))
        write_text(args.out, "".join(json.dumps(line) + "\n" for line in lines))
    shutil.rmtree(_find_scratch(args.out), ignore_errors=True)
    return f"{args.out}: {len(lines)} checkpoints"


def read_lines(path: Path) -> list[dict[str, Any]]:
    """What is known of each checkpoint, in the order of steps."""
    return [json.loads(line) for line in read_text(path).splitlines() if line.strip()]


def _find_scratch(out: Path) -> Path:
    return out.with_name(f"{out.stem}-runs")


def _measure(args: argparse.Namespace, step: int, reporter: Reporter) -> dict[str, Any]:
    folder = args.snapshots / f"{PREFIX}{step}"
    asked = open_asked(str(folder), max_length=args.max_length)
    scores = _ask(asked, open_held_out(args.held_out, asked), num_examples=args.examples)
    tasks = {
        task: _finetune(task, folder, args, _find_scratch(args.out) / f"{step}-{task}", reporter)
        for task in args.tasks.split(",")
    }
    depth = asked.model.config.num_hidden_layers
    return {"step": step, "depth": depth, **scores, "tasks": tasks, "finetune_steps": args.steps}


def _ask(asked: Asked, corpus: Corpus, *, num_examples: int) -> dict[str, float]:
    scores = asked.ask(corpus, num_examples=num_examples)
    return {name: score["mean"] for name, score in scores.items()}


def _finetune(
    task: str, model: Path, args: argparse.Namespace, run_dir: Path, reporter: Reporter
) -> dict[str, float]:
    """The metrics of the best evaluation on the development set."""
    result = finetune(
        task,
        model=model,
        data=args.data,
        out=run_dir,
        overrides=(
            f"num_steps={args.steps}", f"seed={args.seed}", "num_evaluations=4", "has_tensorboard=false",
        ),
        resume=has_run(run_dir),
        reporter=reporter,
    )  # fmt: skip
    if result.scores is None:
        raise KeyboardInterrupt  # a signal has stopped it, and its run goes on at the next start
    shutil.rmtree(run_dir / CHECKPOINTS_DIR, ignore_errors=True)
    return dict(result.scores.metrics)
