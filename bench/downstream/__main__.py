"""`python -m bench.downstream --model M --data D --out DIR`: a table of pretrained and untrained."""

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
from bench.downstream.experiment import Experiment, open_experiment, split_setting
from bench.downstream.plan import list_tasks, make_plan, parse_cuts
from bench.downstream.reference import ENSEMBLES, LARGE
from bench.downstream.results import collect
from bench.downstream.table import format_report
from bench.downstream.trials import run_trials


def compare(args: argparse.Namespace, *, command: str, reporter: Reporter) -> str:
    """Run the trials without a result, and write the table of all results."""
    data = Path(args.data)
    tasks = list_tasks(args.tasks, data)
    experiment = Experiment(
        model=resolve_source(args.model),
        data=data,
        out=Path(args.out),
        max_train=parse_cuts(args.max_train, tasks),
        overrides=tuple(args.settings),
        start=read_recipe(args.start).initialization,
    )
    for name, _ in map(split_setting, experiment.overrides):
        find_task(name or tasks[0])  # raises for an unknown task
    open_experiment(experiment)
    seeds = {task: range(args.large_seeds if task in LARGE else args.seeds) for task in tasks}
    num_untrained = args.seeds if args.untrained_seeds is None else args.untrained_seeds
    plan = make_plan(tasks, experiment, seeds=seeds, num_untrained=num_untrained, reporter=reporter)
    if args.estimate:
        return ""
    budget = None if args.budget is None else parse_duration(args.budget)
    unfinished = run_trials(plan.trials, experiment, reporter=reporter, seconds=plan.seconds, budget=budget)
    missed = {**plan.missed, **{f"{trial.task} {trial.name}": reason for trial, reason in unfinished.items()}}
    found = (
        measure_ensemble(task, seeds[task], experiment, reporter=reporter)
        for task in tasks
        if task in ENSEMBLES
    )
    ensembles: list[Ensemble] = [each for each in found if each is not None]
    results = collect(plan.trials, experiment)
    report = format_report(results, ensembles, command=command, start=str(experiment.start), missed=missed)
    write_text(experiment.out / "table.md", report)
    return report


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.downstream", description=__doc__)
    parser.add_argument("--model", required=True, help="pretrained model: folder or name")
    parser.add_argument("--data", required=True, help="folder with glue/, squad/ and race/")
    parser.add_argument(
        "--out", required=True, help="folder of runs, results and table.md; the same command resumes"
    )
    parser.add_argument("--tasks", help="such as sst-2,mrpc [default: all in the data]")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--large-seeds", type=int, default=3, help=f"of {', '.join(LARGE)}")
    parser.add_argument(
        "--untrained-seeds", type=int, help="at most this many for the untrained model [default: as many]"
    )
    parser.add_argument(
        "--max-train",
        action="append",
        default=[],
        help="N training examples of large tasks, or TASK=N; may be repeated",
    )
    parser.add_argument("--budget", help="start no run that would exceed it, such as 6h")
    parser.add_argument("--start", default="albert-nano-en",
                        help="pretraining recipe that initializes the untrained model")  # fmt: skip
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--estimate", action="store_true", help="only estimate the time")
    parser.add_argument("settings", nargs="*", help="key=value for all runs, or TASK:key=value for one task")
    return parser


def format_command(words: Sequence[str]) -> str:
    """Format the command without the paths of this machine."""
    shown, names = [], {"--model": "MODEL", "--data": "DATA", "--out": "DIR"}
    for before, word in zip(["", *words], words, strict=False):
        shown.append(names[before] if before in names else shlex.quote(word))
    return " ".join(["python -m bench.downstream", *shown])


def main(words: Sequence[str] | None = None) -> int:
    """Run a command line; return 2 after an error of the user, 3 if stopped."""
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
        print(f"stopped by {stopped or 'Ctrl-C'}; run the same command to continue", file=sys.stderr)
        return 3
    print(report, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
