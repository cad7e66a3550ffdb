"""`albert quickstart`: from text to a fine-tuned model in about ten minutes."""

from pathlib import Path
from typing import Annotated

from typer import Option

from albert.cli.command import CommandResult, ProgressDisplay, key_values, report_stop


def quickstart(
    settings: Annotated[list[str] | None, key_values("vocab_size=4000 pretrain.batch_size=16")] = None,
    data: Annotated[
        Path | None, Option(help="File or folder of your own text. [default: the King James Bible]")
    ] = None,
    out: Annotated[Path, Option(help="Folder to write; run the command again to continue.")] = Path(
        "quickstart"
    ),
    minutes: Annotated[float, Option(help="Time of pretraining, in minutes.")] = 3.0,
    model: Annotated[str, Option(help="Pretrained model to fine-tune.")] = "nano",
    seed: Annotated[int | None, Option(help="Seed of weights, examples and dropout. [default: 0]")] = None,
) -> CommandResult:
    """Pretrain and fine-tune small models in about ten minutes, and write a report."""
    from albert.cli.quickstart import QuickstartSettings, run_quickstart
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
            result = run_quickstart(chosen, data=data, out=out, reporter=display)
    except StoppedError as stopped:
        code = report_stop(str(stopped), "run the same command to continue")
        return CommandResult({"is_finished": False}, "", exit_code=code)
    run, reviews = result["pretraining"], result["reviews"]
    lines = [
        f"held-out loss after {run['steps']:,} steps of pretraining: {run['start']['mlm_loss']:.3f} → "
        f"{run['end']['mlm_loss']:.3f} (unigram baseline: {run['unigram_loss']:.3f})"
    ]
    if reviews is not None:
        scores = ", ".join(f"{name} {found['value']:.1f}%" for name, found in reviews["accuracy"].items())
        lines.append(f"accuracy on reviews: {scores.replace('_', ' ')}")
    lines += [f"skipped: {reason}" for reason in result["left_out"]]
    text = "\n".join([*lines, f"report: {result['report']}"])
    return CommandResult({"is_finished": True, **result}, text)
