"""Evaluate the snapshots of a run on held-out text and after short fine-tuning."""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

from albert.data.corpus import open_corpus
from albert.errors import InputError
from albert.examples.settings import ExampleSettings
from albert.files import read_text, write_text
from albert.pretrained.folder import load_model, load_vocabulary
from albert.progress import Reporter
from albert.tasks.finetune import finetune
from albert.training.losses import evaluate_pretraining
from albert.training.run_folder import CHECKPOINTS_DIR, has_run
from release.nano.snapshots import PREFIX, list_steps


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the step."""
    parser.add_argument("--snapshots", type=Path, required=True, help="the folder of model-STEP/")
    parser.add_argument("--held-out", type=Path, required=True, help="corpus of passages")
    parser.add_argument("--data", type=Path, required=True, help="the GLUE folder")
    parser.add_argument(
        "--out", type=Path, required=True, help="checkpoints.jsonl, one line each; run again to resume"
    )
    parser.add_argument("--tasks", default="sst-2,mrpc")
    parser.add_argument("--steps", type=int, default=400, help="fine-tuning steps, the same for all")
    parser.add_argument("--examples", type=int, default=500, help="number of held-out examples")
    parser.add_argument("--max-length", type=int, default=128, help="of the held-out examples")
    parser.add_argument("--seed", type=int, default=0)


def run(args: argparse.Namespace, reporter: Reporter) -> str:
    """Evaluate each snapshot without a line; a line is written when it is complete."""
    steps = list_steps(args.snapshots)
    if not steps:
        raise InputError(
            f"{args.snapshots}: has no {PREFIX}STEP folder; run `python -m release.nano snapshots` first"
        )
    lines = read_lines(args.out) if args.out.exists() else []
    tasks = set(args.tasks.split(","))
    if any((line["finetune_steps"], {*line["tasks"]}) != (args.steps, tasks) for line in lines):
        raise InputError(f"{args.out}: has lines with other --steps or --tasks; choose another --out")
    for number, step in enumerate(steps, start=1):
        if step in {line["step"] for line in lines}:
            continue
        reporter.say(f"{number} of {len(steps)}: step {step:,}")
        lines.append(_evaluate(args, step, reporter))
        lines.sort(key=lambda line: int(line["step"]))
        write_text(args.out, "".join(json.dumps(line) + "\n" for line in lines))
    shutil.rmtree(_runs_dir(args.out), ignore_errors=True)
    return f"{args.out}: {len(lines)} checkpoints"


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read the results, in the order of steps."""
    return [json.loads(line) for line in read_text(path).splitlines() if line.strip()]


def _runs_dir(out: Path) -> Path:
    return out.with_name(f"{out.stem}-runs")


def _evaluate(args: argparse.Namespace, step: int, reporter: Reporter) -> dict[str, Any]:
    folder = args.snapshots / f"{PREFIX}{step}"
    loaded, tokenizer = load_model(folder), load_vocabulary(folder)
    scores = evaluate_pretraining(
        loaded.model,
        open_corpus(args.held_out, fingerprint=tokenizer.fingerprint),
        tokenizer,
        settings=ExampleSettings(max_length=args.max_length),
        num_examples=args.examples,
    )
    return {
        "step": step,
        "depth": loaded.config.num_hidden_layers,
        **{name: score.mean for name, score in scores.items()},
        "tasks": {task: _finetune(task, folder, args, step, reporter) for task in args.tasks.split(",")},
        "finetune_steps": args.steps,
    }


def _finetune(
    task: str, model: Path, args: argparse.Namespace, step: int, reporter: Reporter
) -> dict[str, float]:
    """Return the metrics of the best evaluation on the dev set."""
    run_dir = _runs_dir(args.out) / f"{step}-{task}"
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
        raise KeyboardInterrupt  # stopped by a signal; the next start resumes it
    shutil.rmtree(run_dir / CHECKPOINTS_DIR, ignore_errors=True)
    return dict(result.scores.metrics)
