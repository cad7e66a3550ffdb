"""`albert study`: reproduce an experiment of the paper at a small scale and write a report."""

import sys
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from albert.cli.command import Budget, CommandResult, ProgressDisplay, key_values, print_table, report_stop


def study(
    name: Annotated[
        str,
        Argument(
            metavar="NAME",
            help="overall, embedding, sharing, objective, same-time, same-size, data, dropout, depth, width, "
            "layers, speed, memory, agreement, all; or a YAML file.",
        ),
    ],
    out: Annotated[Path, Option(help="Folder of the study; run the command again to continue.")],
    settings: Annotated[list[str] | None, key_values("num_seeds=5 pretrain.num_steps=2000")] = None,
    data: Annotated[str | None, Option(help="Prepared corpus to train on; for agreement, BLiMP.")] = None,
    task_data: Annotated[str | None, Option(help="Folder with glue/, squad/ and race/.")] = None,
    model: Annotated[
        list[str] | None, Option(help="Trained model, for layers, agreement and all; can be repeated.")
    ] = None,
    variants: Annotated[
        str, Option("--variants", "--arms", help="Only these variants and those they need, such as all,none.")
    ] = "",
    budget: Budget = None,
    seed: Annotated[
        int | None, Option(help="First seed of every variant; for agreement, seed of the pairs. [default: 0]")
    ] = None,
    engine: Annotated[str, Option(help="local, or ray for a cluster.")] = "local",
    workers: Annotated[
        int | None, Option(help="Number of parallel runs. [default: 1; ray: as many as fit]")
    ] = None,
    address: Annotated[
        str | None, Option(help="host:port of a Ray cluster. [default: start one on this machine]")
    ] = None,
) -> CommandResult:
    """Run an experiment of the paper and write a report. Run the command again to continue."""
    from albert.study.settings import StudyOptions
    from albert.study.studies import run_study
    from albert.training.timing import parse_duration

    options = StudyOptions(
        out=out,
        data=data,
        task_data=task_data,
        models=tuple(model or ()),
        overrides=tuple(settings or ()),
        variants=tuple(filter(None, variants.split(","))),
        budget_seconds=None if budget is None else parse_duration(budget),
        seed=seed,
        engine=engine,
        num_workers=workers,
        address=address,
        command=("albert", *sys.argv[1:]),
    )
    with ProgressDisplay() as display:
        outcome = run_study(name, options, reporter=display)
    findings = [found for section in outcome.page.sections for found in section.findings]
    values = {
        "study": outcome.study,
        "report": str(outcome.report),
        "findings": [vars(found) for found in findings],
        "failures": dict(outcome.failures),
        "is_finished": outcome.signal is None and not outcome.failures,
    }

    def render(console: Any) -> None:
        if findings:
            rows = [(found.claim, found.theirs, found.ours, found.outcome) for found in findings]
            print_table(console, ("claim", "the paper", "here", "result"), rows)
        for run, reason in outcome.failures.items():
            console.print(f"failed: {run}: {reason}")
        console.print(f"report: {outcome.report}", soft_wrap=True)

    code = 2 if outcome.failures else 0
    if outcome.signal is not None:
        code = report_stop(outcome.signal, "run the same command to continue")
    return CommandResult(values, render, code)
