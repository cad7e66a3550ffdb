"""`albert doctor`: report what is wrong with a training run, or with the machine."""

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from albert.cli.command import CommandResult
from albert.errors import InputError

if TYPE_CHECKING:
    from albert.cli.doctor import AnyRun, Value

PLOT_NAME = "doctor.png"
_STYLES = {"serious": "bold red", "warning": "yellow", "note": "cyan", "fine": "green"}


def doctor(
    run: Annotated[
        Path | None,
        Argument(metavar="[RUN]", help="run folder, active or not; without it, check the machine"),
    ] = None,
    plot: Annotated[Path | None, Option(help=f"PNG file of the curves [default: RUN/{PLOT_NAME}]")] = None,
) -> CommandResult:
    """Find problems of a training run or of the machine."""
    from albert.cli.doctor import diagnose, diagnose_machine, load_run

    if run is None and plot is not None:
        raise InputError(f"--plot {plot} needs a run, as in `albert doctor RUN --plot {plot}`")
    loaded = None if run is None else load_run(run)
    findings = diagnose_machine() if loaded is None else diagnose(loaded)
    path = None if loaded is None else _write_plot(loaded, plot)

    def render(console: Any) -> None:
        from rich.table import Table
        from rich.text import Text

        table = Table(show_lines=True)
        for column, ratio in (("", None), ("finding", 3), ("evidence", 4), ("hint", 4)):
            table.add_column(column, ratio=ratio, overflow="fold")
        for finding in findings:
            values = [_format_value(name, value) for name, value in finding.figures.items()]
            severity = (f"{finding.severity:8}", _STYLES[finding.severity])
            if loaded is None:  # one line each
                hint = f" → {finding.hint}" if finding.hint else ""
                line = Text.assemble(severity, f"{finding.title:11}", ", ".join(values) + hint)
                console.print(line, soft_wrap=True)
            else:
                title = Text(f"{finding.kind}: {finding.title}")
                table.add_row(Text(*severity), title, Text("\n".join(values)), Text(finding.hint))
        if loaded is not None:
            console.print(table)
        if path is not None:
            console.print(f"curves: {path}", soft_wrap=True)

    data = {
        "run": None if run is None else str(run),
        "findings": [dataclasses.asdict(each) for each in findings],
        "plot": path,
    }
    return CommandResult(data, render)


def _write_plot(run: "AnyRun", plot: Path | None) -> str | None:
    """Draw the curves; a default path that cannot be written is only a warning."""
    from albert.cli.doctor import build_charts
    from albert.report.charts import write_png

    path, charts = plot or run.path / PLOT_NAME, build_charts(run)
    if not charts:
        return None
    try:
        write_png(path, charts)
    except OSError as error:
        if plot is not None:
            raise
        print(f"warning: no plot: {path}: {error.strerror or error}; use --plot", file=sys.stderr)
        return None
    return str(path)


def _format_value(name: str, value: "Value") -> str:
    """Format `unigram_loss` and 6.31 as `unigram loss 6.31`; shares are percentages."""
    label = name if name.isupper() else name.removesuffix("_share").replace("_", " ")
    if isinstance(value, str):
        return f"{label}: {value}"
    if name.endswith("_share"):
        return f"{label} {value:.1%}"
    is_whole = isinstance(value, int) or abs(value) >= 1000
    return f"{label} {value:,.0f}" if is_whole else f"{label} {value:.4g}"
