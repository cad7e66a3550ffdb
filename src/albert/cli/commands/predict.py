"""`albert predict`: predictions of fine-tuned models for the rows of a file, as lines of JSON."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from albert.cli import command
from albert.progress import NullReporter


def predict(
    task: Annotated[str, Argument(metavar="TASK", help="what the model was fine-tuned for: sst-2, words …")],
    source: Annotated[str, Argument(metavar="INPUT", help="table, task folder, or - for standard input")],
    model: Annotated[list[str], Option("--model", "-m", help="fine-tuned folder; several are an ensemble")],
    settings: Annotated[list[str] | None, command.key_values("columns.text=review")] = None,
    out: Annotated[Path | None, Option(help="write the predictions to this file, not to stdout")] = None,
    force: command.Force = False,
    format: Annotated[
        str | None,
        Option(help="csv, tsv, jsonl, parquet, conll or lines (one text each) [default: by the file's name]"),
    ] = None,
    split: Annotated[str | None, Option(help="split of the task's folder [default: test]")] = None,
    depth: command.Depth = None,
    patience: Annotated[int | None, Option(help="early exit after so many layers in a row agree")] = None,
    device: command.Device = "auto",
    precision: command.PrecisionName = "float32",
) -> command.CommandResult:
    """Predict every row of a file or stdin, as lines of JSON."""
    from albert.model.runtime import build_runtime
    from albert.settings import apply_overrides, build_settings
    from albert.tasks.predict import PredictionSettings, Stream
    from albert.tasks.predict import predict as run

    command.check_new_file(out, force=force)
    values = apply_overrides({}, settings or [], literal="columns")
    chosen = build_settings(PredictionSettings, values=values, source="predict")
    # Without a buffer, so that each line is predicted as soon as it arrives.
    stdin = getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)
    # On a terminal the predictions show the progress.
    is_shown = out is not None or not sys.stdout.isatty()
    display: Any = command.ProgressDisplay() if is_shown else nullcontext(_MessageReporter())
    with display as reporter:
        summary = run(
            task,
            models=model,
            source=Stream(stdin, is_live=not stdin.seekable()) if source == "-" else source,
            target=out or sys.stdout.buffer,  # always UTF-8
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

    skipped = f", {summary.num_skipped:,} rows skipped" if summary.num_skipped else ""
    text = f"{out}: {summary.num_answers:,} predictions{skipped}"
    return command.CommandResult(data, text, is_silent=out is None)


class _MessageReporter(NullReporter):
    """Prints messages and no progress."""

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)
