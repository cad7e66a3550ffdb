"""`albert predict`: a task, models and questions come in; a line of JSON for each answer goes out."""

import io
import os
import stat
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from albert.cli.options import Depth, Device, Force, PrecisionName, check_new_file
from albert.cli.progress import ProgressDisplay
from albert.cli.results import CommandResult
from albert.errors import InputError
from albert.progress import NullReporter


def predict(
    task: Annotated[
        str, typer.Argument(metavar="TASK", help="what the model was fine-tuned for: sst-2, words …")
    ],
    source: Annotated[
        str,
        typer.Argument(metavar="INPUT", help="a table, a folder of the task, or - for standard input"),
    ],
    model: Annotated[
        list[str], typer.Option("--model", "-m", help="a fine-tuned folder; several are an ensemble")
    ],
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[key=value…]", help="names of columns, as in columns.text=review"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="write the answers to this file, not to standard output")
    ] = None,
    force: Force = False,
    format: Annotated[
        str | None,
        typer.Option(
            "--format", help="csv, tsv, jsonl, parquet, conll or lines (a text each), by the file's name"
        ),
    ] = None,
    split: Annotated[
        str | None, typer.Option("--split", help="of a task's folder: the split to answer [default: test]")
    ] = None,
    depth: Depth = None,
    patience: Annotated[
        int | None,
        typer.Option(
            "--patience", help="of a model with exits: stop once so many layers agree with the one before"
        ),
    ] = None,
    device: Device = "auto",
    precision: PrecisionName = "float32",
) -> CommandResult:
    """Answer every question of a file or of standard input, of any size, as lines of JSON."""
    from albert.model.runtime import build_runtime
    from albert.settings import apply_overrides, build_settings
    from albert.tasks.predict import PredictionSettings
    from albert.tasks.predict import predict as run

    check_new_file(out, force=force)
    values = apply_overrides({}, settings or [], literal="columns")
    chosen = build_settings(PredictionSettings, values=values, source="predict")
    runtime = build_runtime(device, precision, source="predict")
    # On a terminal the answers themselves show how far it is.
    display: Any = ProgressDisplay() if out is not None or not sys.stdout.isatty() else nullcontext(_Words())
    with display as reporter:
        summary = run(
            task,
            models=model,
            source=_open_standard_input() if source == "-" else source,
            target=out or _find_standard_output(),
            columns=chosen.columns,
            split=split,
            format=format,
            depth=depth,
            patience=patience,
            runtime=runtime,
            reporter=reporter,
        )
    data = {
        "file": None if out is None else str(out),
        "answers": summary.num_answers,
        "skipped": summary.num_skipped,
        "seconds": round(summary.seconds, 3),
    }

    def render(console: Any) -> None:
        left_out = f", {summary.num_skipped:,} rows left out" if summary.num_skipped else ""
        console.print(f"{out}: {summary.num_answers:,} answers{left_out}", markup=False)

    return CommandResult(data, render, is_silent=out is None)


class _Words(NullReporter):
    """Says what must be said, and shows nothing."""

    def say(self, text: str) -> None:
        """A line on standard error."""
        print(text, file=sys.stderr, flush=True)


def _open_standard_input() -> Any:
    """Standard input without a buffer: what is typed or piped is there at once, and no lock outlives us."""
    from albert.tasks.predict import Stream

    try:
        number = sys.stdin.fileno()
    except (OSError, ValueError, AttributeError):  # another program's idea of one
        if sys.stdin is None:
            raise InputError("there is no standard input; give a file") from None
        return Stream(
            getattr(sys.stdin, "buffer", None) or io.BytesIO(sys.stdin.read().encode()), is_live=False
        )
    file: Any = open(number, "rb", buffering=0, closefd=False)  # noqa: SIM115 - it stays open
    return Stream(file, is_live=not stat.S_ISREG(os.fstat(number).st_mode))


def _find_standard_output() -> BinaryIO:
    """Bytes: UTF-8 whatever the terminal is set to."""
    return sys.stdout.buffer
