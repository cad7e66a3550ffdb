"""`python -m bench.downstream --model M --data D --out DIR`: every task, pretrained and not, in a table."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from albert.cli.command import ProgressDisplay
from albert.errors import AlbertError
from albert.files import write_text
from albert.pretrained.hub import resolve_source
from albert.progress import Reporter
from albert.tasks.catalogue import find_task
from albert.training.loop import StoppedError
from albert.training.settings import read_recipe
from albert.training.timing import parse_duration
from bench.downstream.ensembles import Ensemble, measure_ensemble
from bench.downstream.facts import ENSEMBLES, LARGE
from bench.downstream.plan import list_tasks, make_plan, parse_cuts
from bench.downstream.results import collect
from bench.downstream.table import format_report
from bench.downstream.trials import run_trials
from bench.downstream.workshop import Workshop, open_workshop, split_setting


def compare(args: argparse.Namespace, *, command: str, reporter: Reporter) -> str:
    """Run the trials without a result, and write the table of all results."""
    data = Path(args.data)
    tasks = list_tasks(args.tasks, data)
    shop = Workshop(
        model=resolve_source(args.model),
        data=data,
        out=Path(args.out),
        max_train=parse_cuts(args.max_train, tasks),
        overrides=tuple(args.settings),
        start=read_recipe(args.start).initialization,
    )
    for name, _ in map(split_setting, shop.overrides):
        find_task(name or tasks[0])  # reject an unknown one now
    open_workshop(shop)
    seeds = {task: range(args.large_seeds if task in LARGE else args.seeds) for task in tasks}
    plan = make_plan(tasks, shop, seeds=seeds, reporter=reporter)
    if args.estimate:
        return ""
    budget = None if args.budget is None else parse_duration(args.budget)
    lost = run_trials(plan.trials, shop, reporter=reporter, seconds=plan.seconds, budget=budget)
    missed = {**plan.missed, **{f"{trial.task} {trial.name}": reason for trial, reason in lost.items()}}
    found = (
        measure_ensemble(task, seeds[task], shop, reporter=reporter) for task in tasks if task in ENSEMBLES
    )
    ensembles: list[Ensemble] = [each for each in found if each is not None]
    results = collect(plan.trials, shop)
    report = format_report(results, ensembles, command=command, start=str(shop.start), missed=missed)
    write_text(shop.out / "table.md", report)
    return report


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.downstream", description=__doc__)
    parser.add_argument("--model", required=True, help="a pretrained folder, or a name")
    parser.add_argument("--data", required=True, help="the folder that has glue/, squad/ and race/")
    parser.add_argument(
        "--out", required=True, help="a folder for runs, results and table.md; stopped, it goes on"
    )
    parser.add_argument("--tasks", help="such as sst-2,mrpc; all that the data has, if left out")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--large-seeds", type=int, default=3, help=f"of {', '.join(LARGE)}")
    parser.add_argument(
        "--max-train",
        action="append",
        default=[],
        help="N examples of large tasks, or TASK=N; may be repeated",
    )
    parser.add_argument("--budget", help="begin no run that would not end within it, such as 6h")
    parser.add_argument("--start", default="albert-nano-en",
                        help="the pretraining recipe as whose models the untrained one begins")  # fmt: skip
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--estimate", action="store_true", help="only say how long it will take")
    parser.add_argument("settings", nargs="*", help="key=value for all runs, or TASK:key=value for some")
    return parser


def format_command(words: Sequence[str]) -> str:
    """Format the command without the paths of this machine."""
    shown, names = [], {"--model": "MODEL", "--data": "DATA", "--out": "DIR"}
    for before, word in zip(["", *words], words, strict=False):
        shown.append(names[before] if before in names else shlex.quote(word))
    return " ".join(["python -m bench.downstream", *shown])


def main(words: Sequence[str] | None = None) -> int:
    """Run from a command line; a mistake is one line and 2, a stop is 3."""
    words = list(sys.argv[1:] if words is None else words)
    args = build_parser().parse_intermixed_args(words)
    torch.set_num_threads(args.threads)
    try:
        with ProgressDisplay() as reporter:
            report = compare(args, command=format_command(words), reporter=reporter)
    except AlbertError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (StoppedError, KeyboardInterrupt) as stopped:
        print(f"stopped by {stopped or 'Ctrl-C'}; the same command goes on from here", file=sys.stderr)
        return 3
    print(report, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
