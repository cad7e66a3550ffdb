"""Shared parts of commands: their result, progress on stderr, and common options."""

import io
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from albert.errors import InputError
from albert.files import dump_json

if TYPE_CHECKING:
    from rich.console import Console

    from albert.tasks.finetune import FinetuneResult
    from albert.tasks.many_texts import ShardSummary
    from albert.training.pretrain import PretrainResult

INTERRUPTED = 130
TERMINATED = 143
_SECONDS_BETWEEN_LINES = 5.0

Depth = Annotated[int | None, Option("--depth", help="Number of layers to run. [default: all]")]
Device = Annotated[str, Option("--device", help="auto, cpu, cuda, cuda:N or mps.")]
PrecisionName = Annotated[
    str, Option("--precision", help="float32, bf16 if the hardware supports it, or int8 (CPU).")
]
BackendName = Annotated[
    str, Option("--backend", help="torch, or onnx or onnx-int8 for a folder written by albert export onnx.")
]
Revision = Annotated[str | None, Option("--revision", help="Tag, branch or commit of a model on the hub.")]
Budget = Annotated[
    str | None, Option("--budget", help="Train for as many steps as fit into this time: 20m, 2h, 1h30m.")
]
Resume = Annotated[
    bool, Option("--resume", help="Continue the run in --out exactly where it stopped, or start a new one.")
]
Force = Annotated[bool, Option("--force", help="Replace the file at --out.")]
Workers = Annotated[int | None, Option("--workers", help="Number of processes. [default: one per core]")]
EngineName = Annotated[str | None, Option("--engine", help="local, or ray for a cluster. [default: local]")]
Address = Annotated[
    str | None, Option("--address", help="host:port of a Ray cluster. [default: start one on this machine]")
]
ShardRows = Annotated[int | None, Option("--shard-rows", help="Rows of a file of results. [default: 2048]")]
Sources = Annotated[
    list[str], Argument(metavar="TEXTS", help="Files, folders or URLs of text, or hf:NAME[@CONFIG][:SPLIT].")
]
TextKey = Annotated[str, Option("--text-key", help="Key or column of the text.")]
Texts = Annotated[list[str], Argument(metavar="TEXT", help="Texts, or - to read one per line from stdin.")]
Vocabulary = Annotated[str, Option("--vocab", help="Vocabulary folder or file, or a model.")]


def key_values(example: str) -> Any:
    """Return the argument for overrides of settings, with an example in its help."""
    return Argument(metavar="key=value", help=f"Settings, such as {example}.")


@dataclass(frozen=True)
class CommandResult:
    """The result of a command: `data` for --json, and the same as text or as a function that prints it.

    Of several processes of a job, only the first has a result that is not silent.
    """

    data: Any
    output: "str | Callable[[Console], None]"
    exit_code: int = 0
    is_silent: bool = False


def print_result(result: CommandResult, *, as_json: bool) -> None:
    """Print a result to stdout."""
    if as_json:
        text = dump_json(result.data, ensure_ascii=False, indent=2, default=str)
        try:
            text.encode(sys.stdout.encoding or "utf-8")
        except UnicodeEncodeError:
            text = dump_json(result.data, indent=2, default=str)
        print(text)
        return
    from rich.console import Console

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for characters that the terminal cannot encode
    # A pipe has no width; 140 folds no table. No markup, because file names and labels may have brackets.
    width = None if sys.stdout.isatty() else 140
    console = Console(width=width, markup=False, highlight=False, emoji=False)
    if not isinstance(result.output, str):
        result.output(console)
    elif result.output:
        console.print(result.output, soft_wrap=True)


def print_table(console: "Console", columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; columns whose name ends with `>` are right-aligned."""
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for name in columns:
        table.add_column(Text(name.removesuffix(">")), justify="right" if name.endswith(">") else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)


def report_run(
    result: "PretrainResult | FinetuneResult", *, num_steps: int, data: dict[str, Any], rows: dict[str, str]
) -> CommandResult:
    """Build the result of a training run, with further `data` for --json and `rows` for the text."""
    progress = result.outcome.progress
    values = {
        "run": str(result.run_dir),
        "model": None if result.model_dir is None else str(result.model_dir),
        "is_finished": result.outcome.is_finished,
        "step": progress.step,
        "num_steps": num_steps,
        "seconds": round(progress.seconds, 1),
        "best_step": progress.best_step,
        **data,
    }
    best = "" if progress.best_step is None else f", best at step {progress.best_step:,}"
    shown = {
        "model": values["model"] or f"not finished: {result.run_dir} is at step {progress.step:,}",
        "steps": f"{progress.step:,} of {num_steps:,}{best}",
        "seconds": f"{progress.seconds:,.0f}",
        **rows,
    }
    code = 0
    if not result.outcome.is_finished:
        signal = f"{result.outcome.signal} at step {progress.step}"
        code = report_stop(signal, "resume it with --resume", is_silent=not result.is_main)

    width = max(map(len, shown))
    text = "\n".join(f"{name:{width}}  {value}" for name, value in shown.items())
    return CommandResult(values, text, code, not result.is_main)


def report_stop(signal: str, hint: str, *, is_silent: bool = False) -> int:
    """Print to stderr that a signal (`SIGINT at step 5`) stopped the work; return the exit code."""
    if not is_silent:
        print(f"stopped by {signal} and saved; {hint}", file=sys.stderr)
    return {"SIGINT": INTERRUPTED, "SIGTERM": TERMINATED}.get(signal.partition(" ")[0], 1)


class ProgressDisplay:
    """Shows progress on stderr: a bar on a terminal, otherwise a line every few seconds."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._stage = ""
        self._last_time = 0.0

    def __enter__(self) -> "ProgressDisplay":
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

            stage, message = (
                TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[message]}")
            )
            columns = (stage, BarColumn(), message, TimeElapsedColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=Console(stderr=True))
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, text: str) -> None:
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def show(self, stage: str, message: str, *, fraction: float | None = None) -> None:
        is_new, self._stage = stage != self._stage, stage
        if self._bar is not None:
            if is_new:
                self._task = self._bar.add_task(stage, total=None, message=message)
            total = None if fraction is None else 1.0
            self._bar.update(self._task, total=total, completed=fraction or 0.0, message=message)
        elif is_new or fraction == 1.0 or time.monotonic() - self._last_time > _SECONDS_BETWEEN_LINES:
            self._last_time = time.monotonic()
            percent = "" if fraction is None else f" ({fraction:.0%})"
            print(f"{stage}: {message}{percent}", file=sys.stderr, flush=True)


def reject_options(options: Mapping[str, object], *, hint: str) -> None:
    """Raise an InputError if an option is set that belongs to another form of a command."""
    for name, value in options.items():
        if value not in (None, False):
            raise InputError(f"{name}{'' if value is True else f' {value}'} {hint}")


def report_shards(summary: "ShardSummary") -> CommandResult:
    """Build the result of a command that wrote shards."""
    data = {
        "folder": summary.out,
        "rows": summary.num_rows,
        "skipped": summary.num_skipped,
        "shards": summary.num_shards,
        "kept_shards": summary.num_kept,
        "seconds": round(summary.seconds, 3),
    }
    skipped = f", {summary.num_skipped:,} rows skipped" if summary.num_skipped else ""
    text = f"{summary.out}: {summary.num_rows:,} rows in {summary.num_shards:,} shards{skipped}"
    return CommandResult(data, text)


def check_new_file(path: Path | None, *, force: bool) -> None:
    """Raise an InputError if `--out` is an existing file, without --force; devices and pipes are allowed."""
    if path is not None and path.is_file() and not force:
        raise InputError(f"{path}: already exists; add --force to replace it, or choose another --out")


def check_new_folder(path: Path, *, overwrite: bool) -> bool:
    """Return whether --overwrite is to replace the folder; reject an existing one without it."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return False
    if not overwrite:
        raise InputError(f"{path}: already exists; choose another folder, or add --overwrite")
    return True


def read_texts(words: list[str]) -> list[str]:
    """Return the texts, or the lines of standard input for a dash."""
    if words != ["-"]:
        return list(words)
    try:
        content = sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"standard input is not UTF-8 text (byte {error.start}); convert it to UTF-8"
        ) from error
    # Only line feeds end a line: the other line ends of Unicode occur inside texts.
    lines = content.removeprefix("\ufeff").rstrip().split("\n")
    if lines == [""]:
        raise InputError("standard input is empty; give at least one line")
    return [line.removesuffix("\r") for line in lines]
