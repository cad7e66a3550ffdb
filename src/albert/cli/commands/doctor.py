"""`albert doctor`: report what is wrong with a training run, or with the machine."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from albert.cli.results import CommandResult
from albert.errors import InputError

if TYPE_CHECKING:
    from albert.cli.doctor.run import AnyRun, Finding, Value

PLOT_NAME = "doctor.png"
_STYLES = {"serious": "bold red", "warning": "yellow", "note": "cyan", "fine": "green"}


def doctor(
    run: Annotated[
        Path | None,
        typer.Argument(metavar="[RUN]", help="run folder, active or not; without it, check the machine"),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help=f"PNG file of the curves [default: RUN/{PLOT_NAME}]")
    ] = None,
) -> CommandResult:
    """Find out why a run is slow, why its loss is stuck and what is damaged, with hints."""
    if run is None:
        if plot is not None:
            raise InputError(f"--plot {plot} needs a run, as in `albert doctor RUN --plot {plot}`")
        from albert.cli.doctor.machine import diagnose_machine

        return _build_result(None, diagnose_machine(), None)
    from albert.cli.doctor.checks import diagnose
    from albert.cli.doctor.run import load_run

    loaded = load_run(run)
    return _build_result(str(run), diagnose(loaded), _write_plot(loaded, plot))


def _write_plot(run: "AnyRun", plot: Path | None) -> str | None:
    """Draw the curves; a default path that cannot be written is only a warning."""
    from albert.cli.doctor.run import build_charts
    from albert.report.charts import write_png

    path = plot or run.path / PLOT_NAME
    charts = build_charts(run)
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


def _build_result(run: str | None, findings: "Sequence[Finding]", plot: str | None) -> CommandResult:
    rows = [
        {
            "kind": each.kind,
            "severity": each.severity,
            "title": each.title,
            "figures": dict(each.figures),
            "hint": each.hint,
        }
        for each in findings
    ]
    values = {"run": run, "findings": rows, "plot": plot}
    if run is None:
        return CommandResult(values, lambda console: _print_machine(console, findings))
    return CommandResult(values, lambda console: _print_run(console, findings, plot))


def _print_machine(console: Any, findings: "Sequence[Finding]") -> None:
    from rich.text import Text

    for finding in findings:
        values = ", ".join(_format_value(name, value) for name, value in finding.figures.items())
        hint = f" → {finding.hint}" if finding.hint else ""
        line = ((f"{finding.severity:8}", _STYLES[finding.severity]), f"{finding.title:11}", values + hint)
        console.print(Text.assemble(*line), soft_wrap=True)


def _print_run(console: Any, findings: "Sequence[Finding]", plot: str | None) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(show_lines=True)
    for column, ratio in (("", None), ("finding", 3), ("evidence", 4), ("hint", 4)):
        table.add_column(column, ratio=ratio, overflow="fold")
    for finding in findings:
        values = "\n".join(_format_value(name, value) for name, value in finding.figures.items())
        severity = Text(finding.severity, _STYLES[finding.severity])
        table.add_row(severity, f"{finding.kind}: {finding.title}", values, finding.hint)
    console.print(table)
    if plot is not None:
        console.print(f"curves: {plot}", soft_wrap=True)


def _format_value(name: str, value: "Value") -> str:
    """Format `unigram_loss` and 6.31 as `unigram loss 6.31`; shares are percentages."""
    label = name if name.isupper() else name.removesuffix("_share").replace("_", " ")
    if isinstance(value, str):
        return f"{label}: {value}"
    if name.endswith("_share"):
        return f"{label} {value:.1%}"
    is_whole = isinstance(value, int) or abs(value) >= 1000
    return f"{label} {value:,.0f}" if is_whole else f"{label} {value:.4g}"
