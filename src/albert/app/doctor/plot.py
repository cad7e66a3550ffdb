"""A run comes in; a picture of its losses, accuracies, learning rate and speed goes out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from albert.app.doctor.curves import Curve
from albert.app.doctor.reading import AnyRun, FinetuneRun, PretrainRun
from albert.app.doctor.run import Run
from albert.files import atomic_path
from albert.report.charts import COLORS, GREY, PALE, PAPER

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, GREEN = COLORS[:3]
_SIZE_INCHES, _DPI = (12.0, 9.0), 100
_PAPER = {"facecolor": PAPER, "edgecolor": "none", "alpha": 0.8, "pad": 1}  # below words, above lines
_SMOOTHED = 60  # records; through the noise of more than these a line is drawn


@dataclass(frozen=True)
class Line:
    """A curve, its colour and its name; a noisy one gets a line through it, one of few points dots."""

    curve: Curve
    color: str
    label: str = ""
    is_noisy: bool = False
    has_dots: bool = False


@dataclass(frozen=True)
class Level:
    """A height that means something, with its name above it, or below where curves are above."""

    height: float
    label: str
    is_named_below: bool = False


@dataclass(frozen=True)
class Panel:
    """One part of the picture."""

    title: str
    height: float
    lines: tuple[Line, ...]
    level: Level | None = None
    limits: tuple[float, float] | None = None  # are seen at least; None: what the lines need
    format: Callable[[float], str] = "{:,.2f}".format


def write_plot(run: AnyRun, path: Path) -> bool:
    """Draw a run into a PNG file, whole or not at all; False: nothing is recorded yet."""
    if not run.trains:
        return False
    from matplotlib.figure import Figure

    panels = list_panels(run)
    figure = Figure(figsize=_SIZE_INCHES, dpi=_DPI, layout="constrained")
    grid = figure.subplots(
        len(panels), 1, sharex=True, squeeze=False, height_ratios=[panel.height for panel in panels]
    )
    for panel, axes in zip(panels, grid[:, 0], strict=True):
        _draw_panel(axes, panel)
        _mark_stages(axes, run.stages[1:])
    _name_stages(grid[0, 0], run.stages)
    grid[-1, 0].set_xlabel("step")
    grid[-1, 0].set_xlim(0, 1.12 * max(run.step, 1))  # room for the names at the ends
    grid[-1, 0].locator_params(axis="x", integer=True)
    grid[-1, 0].xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    title = f"{run.path.resolve().name}: step {run.step:,} of {run.num_steps:,}"
    figure.suptitle(title, fontsize=13, parse_math=False)  # a name may hold two dollars
    with atomic_path(path) as aside:
        figure.savefig(aside, format="png")
    return True


def list_panels(run: AnyRun) -> list[Panel]:
    """What is drawn of a run, from top to bottom: what it learned, the learning rate and the speed."""
    optimizer = run.settings.optimizer
    rate = Line(run.train_curve("learning_rate"), GREEN)
    rates = (0.0, optimizer.learning_rate)
    speed = Line(run.train_curve("tokens_per_second"), BLUE, is_noisy=True)
    return [
        *(_list_task(run) if isinstance(run, FinetuneRun) else _list_objectives(run)),
        Panel(f"learning rate of {optimizer.name}", 1.2, (rate,), limits=rates, format="{:.2g}".format),
        Panel("pieces a second", 1.5, (speed,), limits=(0.0, 0.0), format="{:,.0f}".format),
    ]


def _list_task(run: FinetuneRun) -> list[Panel]:
    """The loss of training, and the score on the development set beside what guessing scores."""
    loss = Line(run.train_curve("loss"), BLUE, "train", is_noisy=True)
    score = Line(run.held_out_curve("score"), ORANGE, "dev", has_dots=True)
    guess = None if run.facts.guess is None else Level(run.facts.guess, "guessing", is_named_below=True)
    return [
        Panel(f"loss of {run.facts.task.task}", 2.0, (loss,)),
        Panel("score on the development set", 3.0, (score,), guess, format="{:.1f}".format),
    ]


def _list_objectives(run: PretrainRun) -> list[Panel]:
    """Masked words and, where there is a sentence objective, pairs."""
    unigram, name = run.facts.unigram_loss, run.pair_objective
    words = Panel(
        "loss of masked words", 3.0, _list_lines(run, "mlm_loss"),
        Level(unigram, f"unigram entropy {unigram:.2f}: what the frequency of pieces alone gives"),
    )  # fmt: skip
    pairs = Panel(
        f"accuracy of {name}", 2.0, _list_lines(run, f"{name}_accuracy"),
        Level(0.5, "chance", is_named_below=True), limits=(0.4, 1.0), format="{:.0%}".format,
    )  # fmt: skip
    return [words, *([pairs] if name is not None else [])]


def _list_lines(run: Run, key: str) -> tuple[Line, ...]:
    train = Line(run.train_curve(key), BLUE, "train", is_noisy=True)
    return train, Line(run.held_out_curve(key), ORANGE, "held out", has_dots=True)


def _draw_panel(axes: "Axes", panel: Panel) -> None:
    axes.margins(y=0.12)
    drawn = [(line, _draw_line(axes, line)) for line in panel.lines if len(line.curve)]
    # Names and last values stand at the ends of lines: the higher one's above its end, the lower one's below.
    drawn.sort(key=lambda pair: -pair[1].values[-1])
    for number, (line, curve) in enumerate(drawn):
        axes.annotate(
            f"{line.label} {panel.format(curve.values[-1])}".strip(), (curve.steps[-1], curve.values[-1]),
            xytext=(6, 0), textcoords="offset points", va="top" if number else "bottom",
            color=line.color, fontsize=10, weight="bold", bbox=_PAPER,
        )  # fmt: skip
    if panel.level is not None:
        _draw_level(axes, panel.level)
    if panel.limits is not None:
        low, high = axes.get_ylim()
        axes.set_ylim(
            min(low, panel.limits[0]) if panel.limits[0] else 0.0, max(high, 1.05 * panel.limits[1])
        )
    axes.set_title(panel.title, loc="left", fontsize=11)
    axes.locator_params(axis="y", nbins=4 if panel.height < 2 else 7)
    axes.yaxis.set_major_formatter(lambda value, _: panel.format(value))
    axes.grid(axis="y", color=PALE, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_line(axes: "Axes", line: Line) -> Curve:
    """Draw it, and give back what its name is to stand at the end of."""
    curve = line.curve
    if line.is_noisy and len(curve) > _SMOOTHED:
        axes.plot(curve.steps, curve.values, color=line.color, linewidth=0.8, alpha=0.3)
        curve = curve.smooth(max(5, len(curve) // 30))
    axes.plot(
        curve.steps, curve.values, color=line.color, linewidth=1.8, marker="o" if line.has_dots else "",
        markersize=4,
    )  # fmt: skip
    return curve


def _draw_level(axes: "Axes", level: Level) -> None:
    axes.axhline(level.height, color=GREY, linewidth=1.3, linestyle="--")
    side = -1 if level.is_named_below else 1
    axes.annotate(
        level.label, (0.88, level.height), xycoords=("axes fraction", "data"), xytext=(0, 7 * side),
        textcoords="offset points", color=GREY, ha="right", va="bottom" if side > 0 else "top",
        fontsize=10, bbox=_PAPER,
    )  # fmt: skip


def _mark_stages(axes: "Axes", stages: Sequence[tuple[int, str]]) -> None:
    for step, _ in stages:
        axes.axvline(step, color=GREY, linewidth=1.0, linestyle=":")


def _name_stages(axes: "Axes", stages: Sequence[tuple[int, str]]) -> None:
    """Where there are several, their names stand above the first panel, at two heights in turn."""
    for number, (step, label) in enumerate(stages if len(stages) > 1 else ()):
        axes.annotate(
            label, (step, 1.0), xycoords=("data", "axes fraction"), xytext=(3, -11 * (number % 2) - 2),
            textcoords="offset points", color=GREY, fontsize=9, va="top",
        )  # fmt: skip
