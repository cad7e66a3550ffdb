"""`albert doctor`: a run folder, or nothing, comes in; what is wrong with it or with the machine goes out."""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from albert.app.results import CommandResult
from albert.errors import InputError

if TYPE_CHECKING:
    from albert.app.doctor.findings import Finding
    from albert.app.doctor.reading import AnyRun

PLOT_NAME = "doctor.png"
_STYLES = {"serious": "bold red", "warning": "yellow", "note": "cyan", "fine": "green"}


def doctor(
    run: Annotated[
        Path | None,
        typer.Argument(metavar="[RUN]", help="the folder of a run, at work or not; without, the machine"),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help=f"the picture of its curves [default: RUN/{PLOT_NAME}]")
    ] = None,
) -> CommandResult:
    """Why is it slow, why is the loss stuck, what is damaged: each with its figures and its cure."""
    if run is None:
        if plot is not None:
            raise InputError(
                f"--plot {plot} draws the curves of a run; name the run, as in albert doctor RUN"
            )
        from albert.app.doctor.machine import examine_machine

        return _build_result(None, examine_machine(), None)
    from albert.app.doctor.diagnosis import examine
    from albert.app.doctor.reading import open_run

    found = open_run(run)
    findings = examine(found)
    return _build_result(str(run), findings, _draw(found, plot))


def _draw(run: "AnyRun", asked: Path | None) -> str | None:
    """The path of the picture; where the usual place cannot be written, the diagnosis goes on without."""
    from albert.app.doctor.plot import write_plot

    path = asked or run.path / PLOT_NAME
    try:
        return str(path) if write_plot(run, path) else None
    except OSError as error:
        if asked is not None:
            raise
        print(f"no picture: {path}: {error.strerror or error}; give --plot", file=sys.stderr)
        return None


def _build_result(run: str | None, findings: "Sequence[Finding]", plot: str | None) -> CommandResult:
    values = {
        "run": run,
        "findings": [dataclasses.asdict(finding) for finding in findings],
        "plot": plot,
    }
    if run is None:
        return CommandResult(values, lambda console: _render_machine(console, findings))
    return CommandResult(values, lambda console: _render_run(console, findings, plot))


def _render_machine(console: Any, findings: "Sequence[Finding]") -> None:
    """One line each; what is off is followed by what to do."""
    from rich.text import Text

    from albert.app.doctor.findings import format_figure

    for finding in findings:
        figures = ", ".join(format_figure(name, value) for name, value in finding.figures.items())
        style, cure = _STYLES[finding.severity], f" → {finding.cure}" if finding.cure else ""
        line = ((f"{finding.severity:8}", style), f"{finding.title:11}", figures + cure)
        console.print(Text.assemble(*line), soft_wrap=True)


def _render_run(console: Any, findings: "Sequence[Finding]", plot: str | None) -> None:
    from rich.table import Table
    from rich.text import Text

    from albert.app.doctor.findings import format_figure

    table = Table(show_lines=True)
    for column, ratio in (("", None), ("symptom", 3), ("figures", 4), ("cure", 4)):
        table.add_column(column, ratio=ratio, overflow="fold")
    for finding in findings:
        figures = "\n".join(format_figure(name, value) for name, value in finding.figures.items())
        table.add_row(
            Text(finding.severity, _STYLES[finding.severity]),
            f"{finding.kind}: {finding.title}",
            figures,
            finding.cure,
        )
    console.print(table)
    if plot is not None:
        console.print(f"curves: {plot}", soft_wrap=True)
