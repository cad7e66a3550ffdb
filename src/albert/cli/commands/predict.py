"""`albert predict`: predict the rows of a file with fine-tuned models, as JSON lines."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from albert.cli import command
from albert.progress import StderrReporter


def predict(
    task: Annotated[str, Argument(metavar="TASK", help="Task of the model: sst-2, classification, …")],
    source: Annotated[str, Argument(metavar="INPUT", help="Table, task folder, or - for stdin.")],
    model: Annotated[list[str], Option("--model", "-m", help="Fine-tuned model. Repeat it for an ensemble.")],
    settings: Annotated[list[str] | None, command.key_values("columns.text=review")] = None,
    out: Annotated[Path | None, Option(help="Write the predictions to this file. [default: stdout]")] = None,
    force: command.Force = False,
    format: Annotated[
        str | None,
        Option(help="csv, tsv, jsonl, parquet, conll, or lines (one text per line). [default: by suffix]"),
    ] = None,
    split: Annotated[str | None, Option(help="Split of the task folder. [default: test]")] = None,
    depth: command.Depth = None,
    patience: Annotated[
        int | None, Option(help="Exit early after a layer that agrees with this many layers before it.")
    ] = None,
    device: command.Device = "auto",
    precision: command.PrecisionName = "float32",
    backend: command.BackendName = "torch",
) -> command.CommandResult:
    """Predict the rows of a file or of stdin, as JSON lines."""
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
    display: Any = command.ProgressDisplay() if is_shown else nullcontext(StderrReporter())
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
            backend=backend,
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
