"""`albert predict`: the predictions of fine-tuned models for the rows of a file, as lines of JSON."""

import io
import os
import stat
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from albert.cli.command import (
    CommandResult,
    Depth,
    Device,
    Force,
    PrecisionName,
    ProgressDisplay,
    check_new_file,
)
from albert.progress import NullReporter

if TYPE_CHECKING:
    from albert.tasks.predict import Stream


def predict(
    task: Annotated[str, Argument(metavar="TASK", help="what the model was fine-tuned for: sst-2, words …")],
    source: Annotated[
        str, Argument(metavar="INPUT", help="table, folder of the task, or - for standard input")
    ],
    model: Annotated[list[str], Option("--model", "-m", help="fine-tuned folder; several are an ensemble")],
    settings: Annotated[
        list[str] | None, Argument(metavar="[key=value…]", help="names of columns, as in columns.text=review")
    ] = None,
    out: Annotated[Path | None, Option(help="write the predictions to this file, not to stdout")] = None,
    force: Force = False,
    format: Annotated[
        str | None,
        Option(help="csv, tsv, jsonl, parquet, conll or lines (one text each) [default: by the file's name]"),
    ] = None,
    split: Annotated[str | None, Option(help="split of the task's folder [default: test]")] = None,
    depth: Depth = None,
    patience: Annotated[
        int | None, Option(help="early exit: stop when so many layers in a row agree with the one before")
    ] = None,
    device: Device = "auto",
    precision: PrecisionName = "float32",
) -> CommandResult:
    """Predict every row of a file or stdin, as lines of JSON."""
    from albert.model.runtime import build_runtime
    from albert.settings import apply_overrides, build_settings
    from albert.tasks.predict import PredictionSettings
    from albert.tasks.predict import predict as run

    check_new_file(out, force=force)
    values = apply_overrides({}, settings or [], literal="columns")
    chosen = build_settings(PredictionSettings, values=values, source="predict")
    # On a terminal the predictions themselves show the progress.
    is_shown = out is not None or not sys.stdout.isatty()
    display: Any = ProgressDisplay() if is_shown else nullcontext(_MessageReporter())
    with display as reporter:
        summary = run(
            task,
            models=model,
            source=_open_stdin() if source == "-" else source,
            target=out or sys.stdout.buffer,  # UTF-8, whatever the terminal's encoding is
            columns=chosen.columns,
            split=split,
            format=format,
            depth=depth,
            patience=patience,
            runtime=build_runtime(device, precision, source="predict"),
            reporter=reporter,
        )
    data = {
        "file": None if out is None else str(out),
        "answers": summary.num_answers,
        "skipped": summary.num_skipped,
        "seconds": round(summary.seconds, 3),
    }

    def render(console: Any) -> None:
        skipped = f", {summary.num_skipped:,} rows skipped" if summary.num_skipped else ""
        console.print(f"{out}: {summary.num_answers:,} predictions{skipped}")

    return CommandResult(data, render, is_silent=out is None)


class _MessageReporter(NullReporter):
    """Prints messages and no progress."""

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


def _open_stdin() -> "Stream":
    """Open standard input without a buffer, so that each line is answered when it arrives."""
    from albert.tasks.predict import Stream

    try:
        number = sys.stdin.fileno()
    except io.UnsupportedOperation:  # replaced by another stream, as in a test
        return Stream(sys.stdin.buffer, is_live=False)
    file: Any = open(number, "rb", buffering=0, closefd=False)  # noqa: SIM115
    return Stream(file, is_live=not stat.S_ISREG(os.fstat(number).st_mode))
