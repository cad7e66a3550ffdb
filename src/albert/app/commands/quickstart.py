"""`albert quickstart`: nothing comes in, or a folder of text; the whole road and its report go out."""

from pathlib import Path
from typing import Annotated, Any

import typer

from albert.app.progress import ProgressDisplay
from albert.app.results import CommandResult
from albert.app.stopping import tell_stopped


def quickstart(
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[key=value…]", help="as in vocab_size=4000 num_train=500 pretrain.batch_size=16"
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", help="a folder of your own text, instead of the King James Bible")
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", help="the folder of everything; started again, it goes on")
    ] = Path("quickstart"),
    minutes: Annotated[float, typer.Option("--minutes", help="of pretraining")] = 3.0,
    model: Annotated[str, typer.Option("--model", help="the pretrained model to fine-tune")] = "nano",
    seed: Annotated[
        int | None, typer.Option("--seed", help="of weights, examples and dropout [default: 0]")
    ] = None,
) -> CommandResult:
    """See all of it work in about ten minutes: pretrain, stop, resume, fine-tune, look inside; a report."""
    from albert.app.quickstart.run import run_quickstart
    from albert.app.quickstart.settings import QuickstartSettings
    from albert.settings import add_seed, build_settings
    from albert.training.loop import StoppedError

    chosen = build_settings(
        QuickstartSettings,
        values={"minutes": minutes, "model": model},
        overrides=add_seed(settings or [], seed),
        source="quickstart",
    )
    try:
        with ProgressDisplay() as display:
            report, result = run_quickstart(chosen, data=data, out=out, reporter=display)
    except StoppedError as stopped:
        code = tell_stopped(str(stopped), go_on="the same command goes on")
        return CommandResult({"is_finished": False}, lambda console: None, exit_code=code)
    shown: dict[str, Any] = {"is_finished": True, "report": str(report), **result.list_values()}
    return CommandResult(shown, lambda console: _render(console, shown))


def _render(console: Any, shown: dict[str, Any]) -> None:
    run, reviews = shown["pretraining"], shown["reviews"]
    console.print(
        f"pretrained for {run['steps']:,} steps: held-out loss {run['start']['mlm_loss']:.3f} → "
        f"{run['end']['mlm_loss']:.3f}, where frequencies alone give {run['unigram_loss']:.3f}"
    )
    if reviews is not None:
        scores = ", ".join(f"{name} {found['value']:.1f}%" for name, found in reviews["accuracy"].items())
        console.print(f"reviews, right answers: {scores.replace('_', ' ')}")
    for reason in shown["left_out"]:
        console.print(f"left out: {reason}", markup=False, soft_wrap=True)
    console.print(f"report: {shown['report']}", markup=False, soft_wrap=True)
