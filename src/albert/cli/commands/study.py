"""`albert study`: the name of an experiment of the paper comes in; a report of it at our scale goes out."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from albert.cli.options import Budget, tell_stopped
from albert.cli.progress import ProgressDisplay
from albert.cli.results import CommandResult

if TYPE_CHECKING:
    from albert.study.settings import StudyOutcome


def study(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="overall, embedding, sharing, objective, same-time, same-size, data, dropout, depth, width, "
            "layers, speed, memory, agreement, all; or a YAML file of arms",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="the folder of the study; started again, it goes on")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[key=value…]", help="as in num_seeds=5 pretrain.num_steps=2000 tasks=[sst-2]"
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            help="a prepared corpus, for studies that train; BLiMP's folder or archive, for agreement",
        ),
    ] = None,
    task_data: Annotated[
        str | None, typer.Option("--task-data", help="the folder that has glue/, squad/ and race/")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option("--model", help="a trained model to look at; may be repeated")
    ] = None,
    arms: Annotated[
        str, typer.Option("--arms", help="these, the base and what they start from, as in all,none")
    ] = "",
    budget: Budget = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="the first seed of every arm; or that of agreement's sentences"),
    ] = None,
    engine: Annotated[str, typer.Option("--engine", help="local, or ray: arms side by side")] = "local",
    workers: Annotated[
        int | None,
        typer.Option("--workers", help="arms at a time; one, or with ray as many as there is room"),
    ] = None,
    address: Annotated[
        str | None, typer.Option("--address", help="of a running Ray cluster, as host:port")
    ] = None,
) -> CommandResult:
    """Run an experiment of the paper and write a report; finished arms are never run again."""
    from albert.study.settings import StudyOptions
    from albert.study.studies import run_study
    from albert.training.timing import parse_duration

    options = StudyOptions(
        out=out,
        data=data,
        task_data=task_data,
        models=tuple(model or ()),
        overrides=tuple(settings or ()),
        variants=tuple(filter(None, arms.split(","))),
        budget_seconds=None if budget is None else parse_duration(budget),
        seed=seed,
        engine=engine,
        num_workers=workers,
        address=address,
        command=("albert", *sys.argv[1:]),
    )
    with ProgressDisplay() as display:
        outcome = run_study(name, options, reporter=display)
    return _report(outcome)


def _report(outcome: "StudyOutcome") -> CommandResult:
    findings = [found for section in outcome.page.sections for found in section.findings]
    values: dict[str, Any] = {
        "study": outcome.study,
        "report": str(outcome.report),
        "findings": [vars(found) for found in findings],
        "failures": dict(outcome.failures),
        "is_finished": outcome.signal is None and not outcome.failures,
    }
    code = 2 if outcome.failures else 0
    if outcome.signal is not None:
        code = tell_stopped(outcome.signal, go_on="the same command goes on")
    return CommandResult(values, lambda console: _render(console, values), exit_code=code)


def _render(console: Any, values: dict[str, Any]) -> None:
    from rich.table import Table

    if values["findings"]:
        table = Table(box=None, pad_edge=False)
        for name in ("claim", "the paper", "here", "verdict"):
            table.add_column(name, overflow="fold")
        for found in values["findings"]:
            table.add_row(found["claim"], found["theirs"], found["ours"], found["verdict"])
        console.print(table)
    for unit, reason in values["failures"].items():
        console.print(f"failed: {unit}: {reason}", markup=False)
    console.print(f"report: {values['report']}", markup=False)
