"""`albert predict`: predict the rows of a file with fine-tuned models, as JSON lines."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from albert.cli import command
from albert.errors import InputError
from albert.progress import StderrReporter


def predict(
    task: Annotated[str, Argument(metavar="TASK", help="Task of the model: sst-2, classification, …")],
    source: Annotated[
        str,
        Argument(
            metavar="INPUT", help="Table, task folder, or - for stdin; with workers also a folder of tables."
        ),
    ],
    model: Annotated[list[str], Option("--model", "-m", help="Fine-tuned model. Repeat it for an ensemble.")],
    settings: Annotated[list[str] | None, command.key_values("columns.text=review")] = None,
    out: Annotated[
        str | None,
        Option(
            help="Write the predictions to this file, with workers to this folder or URL. [default: stdout]"
        ),
    ] = None,
    force: command.Force = False,
    workers: Annotated[
        int | None, Option(help="Predict in this many processes, and write a folder of files.")
    ] = None,
    engine: command.EngineName = None,
    address: command.Address = None,
    shard_rows: command.ShardRows = None,
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
    """Predict the rows of a file or of stdin, as JSON lines.

    With --workers or --engine, several processes write the files of a folder. Run the same command again to
    resume it.
    """
    from albert.model.runtime import build_runtime
    from albert.settings import apply_overrides, build_settings
    from albert.tasks.predict import PredictionSettings, Stream
    from albert.tasks.predict import predict as run
    from albert.threads import count_cores

    values = apply_overrides({}, settings or [], literal="columns")
    chosen = build_settings(PredictionSettings, values=values, source="predict")
    runtime = build_runtime(device, precision, source="predict")
    if workers is not None or engine is not None:
        from albert.tasks.many_texts import SHARD_ROWS, predict_files

        command.reject_options({"--force": force}, hint="does not apply to a folder; remove the folder")
        command.reject_options({"--backend": backend != "torch"}, hint="does not apply to workers; remove it")
        if out is None:
            raise InputError("workers write files; give --out FOLDER")
        with command.ProgressDisplay() as display:
            found = predict_files(
                task,
                source,
                models=model,
                out=out,
                columns=chosen.columns,
                split=split,
                format=format,
                depth=depth,
                patience=patience,
                shard_rows=SHARD_ROWS if shard_rows is None else shard_rows,
                num_workers=count_cores() if workers is None and engine == "local" else workers,
                engine=engine or "local",
                address=address,
                runtime=runtime,
                reporter=display,
            )
        return command.report_shards(found)
    command.reject_options(
        {"--address": address, "--shard-rows": shard_rows}, hint="is for several workers; add --workers N"
    )
    path = None if out is None else Path(out)
    command.check_new_file(path, force=force)
    # Without a buffer, so that each line is predicted as soon as it arrives.
    stdin = getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)
    # On a terminal the predictions show the progress.
    is_shown = out is not None or not sys.stdout.isatty()
    shown: Any = command.ProgressDisplay() if is_shown else nullcontext(StderrReporter())
    with shown as reporter:
        summary = run(
            task,
            models=model,
            source=Stream(stdin, is_live=not stdin.seekable()) if source == "-" else source,
            target=path or sys.stdout.buffer,  # always UTF-8
            columns=chosen.columns,
            split=split,
            format=format,
            depth=depth,
            patience=patience,
            runtime=runtime,
            backend=backend,
            reporter=reporter,
        )
    data = {
        "file": out,
        "answers": summary.num_answers,
        "skipped": summary.num_skipped,
        "seconds": round(summary.seconds, 3),
    }

    skipped = f", {summary.num_skipped:,} rows skipped" if summary.num_skipped else ""
    text = f"{out}: {summary.num_answers:,} predictions{skipped}"
    return command.CommandResult(data, text, is_silent=out is None)
