"""`albert doctor`: diagnose a training run, or the machine."""

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from albert.cli.command import CommandResult
from albert.errors import InputError

if TYPE_CHECKING:
    from albert.cli.doctor import Value

PLOT_NAME = "doctor.png"
_STYLES = {"serious": "bold red", "warning": "yellow", "note": "cyan", "fine": "green"}


def doctor(
    run: Annotated[
        Path | None, Argument(metavar="RUN", help="Run folder. [default: check the machine]")
    ] = None,
    plot: Annotated[Path | None, Option(help=f"PNG file for the curves. [default: RUN/{PLOT_NAME}]")] = None,
) -> CommandResult:
    """Diagnose a training run, or the machine."""
    from albert.cli.doctor import build_charts, diagnose, diagnose_machine, load_run
    from albert.report.charts import write_png

    if run is None and plot is not None:
        raise InputError(f"--plot {plot}: needs a run; give it, as in `albert doctor RUN --plot {plot}`")
    path = None
    if run is None:
        findings = diagnose_machine()
    else:
        loaded = load_run(run)
        findings = diagnose(loaded)
        if charts := build_charts(loaded):
            path = plot or run / PLOT_NAME
            try:
                write_png(path, charts)
            except OSError as error:
                if plot is not None:
                    raise
                print(
                    f"warning: {path}: plot not written ({error.strerror or error}); use --plot",
                    file=sys.stderr,
                )
                path = None

    def render(console: Any) -> None:
        from rich.text import Text

        for finding in findings:
            severity = Text(f"{finding.severity:9}", _STYLES[finding.severity])
            values = ", ".join(_format_value(name, value) for name, value in finding.figures.items())
            if run is None:  # one line each
                hint = f" → {finding.hint}" if finding.hint else ""
                console.print(severity + f"{finding.title:12}{values}{hint}", soft_wrap=True)
            else:
                lines = [f"{finding.kind}: {finding.title}", values, *finding.hint.splitlines()]
                console.print(severity + f"\n{'':9}".join(filter(None, lines)), soft_wrap=True)
        if path is not None:
            console.print(f"curves: {path}", soft_wrap=True)

    found = [dataclasses.asdict(each) for each in findings]
    data = {"run": run and str(run), "findings": found, "plot": path and str(path)}
    return CommandResult(data, render)


def _format_value(name: str, value: "Value") -> str:
    """Format `unigram_loss` and 6.31 as `unigram loss 6.31`; shares are percentages."""
    label = name if name.isupper() else name.removesuffix("_share").replace("_", " ")
    if isinstance(value, str):
        return f"{label}: {value}"
    if name.endswith("_share"):
        return f"{label} {value:.1%}"
    is_whole = isinstance(value, int) or abs(value) >= 1000
    return f"{label} {value:,.0f}" if is_whole else f"{label} {value:.4g}"
