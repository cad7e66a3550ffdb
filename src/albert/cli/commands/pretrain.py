"""`albert pretrain`: a recipe and a prepared corpus come in; a run folder with a trained model goes out."""

from pathlib import Path
from typing import Annotated, Any

import typer

from albert.cli.options import Budget, Resume, tell_stopped
from albert.cli.progress import ProgressDisplay
from albert.cli.results import CommandResult


def pretrain(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE",
            help="nano, small; albert-base, albert-large, albert-xlarge, albert-xxlarge, each also as -v2; "
            "bert-base, bert-large, bert-xlarge; continue (with init_from=MODEL); study; albert-nano-en; "
            "or a YAML file",
        ),
    ],
    data: Annotated[str, typer.Option("--data", help="a prepared corpus, or its URL")],
    out: Annotated[Path, typer.Option("--out", help="the folder of the run; its model is in OUT/model")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[key=value…]", help="as in num_steps=5000 optimizer.learning_rate=1e-3"),
    ] = None,
    resume: Resume = False,
    budget: Budget = None,
    batch_size: Annotated[
        int | None,
        typer.Option("--batch-size", help="another batch size; learning rate and steps are rescaled to it"),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="of weights, examples and dropout")] = None,
) -> CommandResult:
    """Pretrain a model on a prepared corpus; Ctrl-C saves, and --resume goes on as if it had never been."""
    from albert.settings import add_seed
    from albert.training.pretrain import pretrain as run

    overrides = add_seed(settings or [], seed)
    with ProgressDisplay() as display:
        result = run(
            recipe,
            data=data,
            out=out,
            overrides=overrides,
            batch_size=batch_size,
            budget=budget,
            resume=resume,
            reporter=display,
        )
    outcome = result.outcome
    progress = outcome.progress
    values: dict[str, Any] = {
        "run": str(out),
        "model": None if result.model_dir is None else str(result.model_dir),
        "is_finished": outcome.is_finished,
        "step": progress.step,
        "num_steps": result.settings.num_steps,
        "tokens": progress.num_tokens,
        "seconds": round(progress.seconds, 1),
        "held_out": progress.figures,
        "best_step": progress.best_step,
    }
    code = 0
    if not outcome.is_finished:
        code = tell_stopped(
            outcome.signal, step=progress.step, go_on="--resume goes on", is_silent=not result.is_main
        )
    return CommandResult(
        values, lambda console: _render(console, values), exit_code=code, is_silent=not result.is_main
    )


def _render(console: Any, values: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table(show_header=False, box=None)
    rows = {
        "model": values["model"] or f"not finished: {values['run']} is at step {values['step']:,}",
        "steps": f"{values['step']:,} of {values['num_steps']:,}",
        "pieces": f"{values['tokens']:,}",
        "seconds": f"{values['seconds']:,.0f}",
        **{f"held out, {key.replace('_', ' ')}": f"{value:.4f}" for key, value in values["held_out"].items()},
    }
    for key, value in rows.items():
        table.add_row(key, value)
    console.print(table)
