"""`albert finetune`: a pretrained folder, a task and its data come in; a scored model goes out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from albert.cli.options import Resume, Revision, tell_stopped
from albert.cli.progress import ProgressDisplay
from albert.cli.results import CommandResult
from albert.errors import InputError

if TYPE_CHECKING:
    from albert.tasks.finetune import FinetuneResult
    from albert.tasks.finetune_seeds import SeedRuns


def finetune(
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK",
            help="sst-2, mrpc, squad-2.0, race …; or classification, multilabel, regression, words, "
            "questions, choice, embedding on a table of your own",
        ),
    ],
    model: Annotated[str, typer.Option("--model", help="a pretrained folder, a run, nano, or a hub name")],
    data: Annotated[Path, typer.Option("--data", help="the task's folder; or a table, or a folder of two")],
    out: Annotated[Path, typer.Option("--out", help="the folder of the run; its model is in OUT/model")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[key=value…]", help="as in num_epochs=3 columns.text=review"),
    ] = None,
    dev: Annotated[Path | None, typer.Option("--dev", help="another table to be asked about")] = None,
    recipe: Annotated[
        str | None,
        typer.Option("--recipe", help="small, paper, paper-mnli … (else by task and model); or a YAML file"),
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", help="train so many times; median and spread")] = 1,
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="of the new head, the order and dropout; of several, the first"),
    ] = None,
    revision: Revision = None,
    resume: Resume = False,
) -> CommandResult:
    """Teach a pretrained model a task; Ctrl-C saves, and --resume goes on as if it had never been."""
    from albert.settings import add_seed
    from albert.tasks.finetune import finetune as run
    from albert.tasks.finetune_seeds import finetune_seeds

    overrides = settings or []
    numbers = _list_seeds(seeds, first=seed, overrides=overrides)
    with ProgressDisplay() as display:

        def train(number: int | None, folder: Path) -> "FinetuneResult":
            return run(
                task,
                model=model,
                data=data,
                out=folder,
                dev=dev,
                recipe=recipe,
                overrides=add_seed(overrides, number),
                revision=revision,
                resume=resume,
                reporter=display,
            )

        if seeds == 1:
            return _report_run(train(seed, out))
        found = finetune_seeds(train, seeds=numbers, out=out, resume=resume, reporter=display)
    return _report_seeds(found, out)


def _list_seeds(number: int, *, first: int | None, overrides: list[str]) -> range:
    """The seeds to train with; refused: none at all, and one seed for several runs."""
    if number < 1:
        raise InputError(f"--seeds is {number}; at least 1")
    told = [override for override in overrides if override.startswith("seed=")]
    if told and number > 1:
        raise InputError(f"{told[-1]} and --seeds: leave {told[-1]} out, and give --seed")
    return range(first or 0, (first or 0) + number)


def _report_run(result: "FinetuneResult") -> CommandResult:
    outcome = result.outcome
    progress = outcome.progress
    values: dict[str, Any] = {
        "run": str(result.run_dir),
        "model": None if result.model_dir is None else str(result.model_dir),
        "is_finished": outcome.is_finished,
        "step": progress.step,
        "num_steps": result.num_steps,
        "seconds": round(progress.seconds, 1),
        "best_step": progress.best_step,
        "scores": None if result.scores is None else dict(result.scores.metrics),
    }
    code = 0
    if not outcome.is_finished:
        code = tell_stopped(
            outcome.signal, step=progress.step, go_on="--resume goes on", is_silent=not result.is_main
        )
    return CommandResult(
        values, lambda console: _render_run(console, values), exit_code=code, is_silent=not result.is_main
    )


def _report_seeds(found: "SeedRuns", out: Path) -> CommandResult:
    from albert.training.distributed import is_first_process

    if found.stopped is not None:
        return _report_run(found.stopped)
    assert found.summary is not None
    values = {
        "run": str(out),
        "model": str(out / f"seed-{found.best_seed}" / "model"),
        "best_seed": found.best_seed,
        "summary": vars(found.summary),
        "scores": {seed: dict(each.metrics) for seed, each in found.scores.items()},
    }
    return CommandResult(
        values,
        lambda console: _render_seeds(console, found, values["model"]),
        is_silent=not is_first_process(),
    )


def _render_run(console: Any, values: dict[str, Any]) -> None:
    from rich.table import Table

    from albert.tasks.metrics.task_score import format_figure

    table = Table(show_header=False, box=None)
    table.add_row("model", values["model"] or f"not finished: {values['run']} is at step {values['step']:,}")
    best = "" if values["best_step"] is None else f", best at {values['best_step']:,}"
    table.add_row("steps", f"{values['step']:,} of {values['num_steps']:,}{best}")
    table.add_row("seconds", f"{values['seconds']:,.0f}")
    for name, value in (values["scores"] or {}).items():
        table.add_row(f"dev, {name.replace('_', ' ')}", format_figure(value))
    console.print(table)


def _render_seeds(console: Any, found: "SeedRuns", model: Any) -> None:
    from rich.table import Table

    from albert.tasks.metrics.task_score import format_figure

    metrics = list(next(iter(found.scores.values())).metrics)
    table = Table("seed", *(name.replace("_", " ") for name in metrics))
    for seed, scores in found.scores.items():
        table.add_row(str(seed), *(format_figure(scores.metrics[name]) for name in metrics))
    console.print(table)
    summary = found.summary
    assert summary is not None
    spread = "–" if summary.spread is None else f"{summary.spread:.2f}"
    console.print(
        f"median {summary.median:.2f}, spread {spread} ({summary.lowest:.2f} – {summary.highest:.2f}); "
        f"the best is seed {found.best_seed}: {model}",
        soft_wrap=True,
    )
