"""The card's tables of fine-tuned scores beside baselines and BERT-Tiny."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from albert.errors import InputError
from albert.files import read_text
from albert.report.content import Cell, Chart, Column, Section, Series, Table
from albert.tasks.metrics.intervals import SeedSummary
from bench.downstream.facts import BERT_TINY, OFFICIAL_SIZES, list_shown
from bench.downstream.findings import list_findings
from bench.downstream.results import TaskResults, collect
from bench.downstream.workshop import Trial, Workshop

_COLUMNS = ("trivial", "bag of words", "untrained", "nano", "BERT-Tiny")


def read_results(folder: Path) -> list[TaskResults]:
    """Read what `python -m bench.downstream --out FOLDER` wrote."""
    cuts, trials = {}, []
    for path in sorted((folder / "results").glob("*/*.json")):
        task, cut = _split_name(path.parent.name)
        if cut is not None:
            cuts[task] = cut
        arm, _, seed = path.stem.partition("-")
        if arm in ("baselines", "pretrained", "untrained"):
            trials.append(Trial(task, arm, int(seed or 0)))  # type: ignore[arg-type]
    if not trials:
        raise InputError(f"{folder}: has no results; run `python -m bench.downstream --out {folder}` first")
    return collect(trials, Workshop(Path(), Path(), folder, max_train=cuts))


def _split_name(name: str) -> tuple[str, int | None]:
    """`mnli-4000` as its task and its cut."""
    if name in OFFICIAL_SIZES:
        return name, None
    task, _, number = name.rpartition("-")
    return task, int(number)


def describe_tasks(results: Sequence[TaskResults], folder: Path) -> Section:
    """A row for each metric, what is passed and what is not, and on what it rests."""
    rows = [
        row for result in results for metric in list_shown(result.task) if (row := _build_row(result, metric))
    ]
    numbers = (Column(name, is_number=True) for name in _COLUMNS)
    columns = [Column("task"), Column("metric"), *numbers, Column("BERT-Tiny is")]
    report = folder / "table.md"
    command = read_text(report).partition("\n")[0] if report.exists() else ""
    return Section(
        "Fine-tuned",
        paragraphs=[
            "Medians over seeds ± their standard deviation on the development sets, in points of 100, "
            "against always the same answer (trivial), a linear model on words, and the same shape with "
            "fresh weights. BERT-Tiny (4.4M "
            "parameters, 3.3 billion words): its published figures, which are of the hidden test sets.",
            *(line.replace("**", "") for line in list_findings(results, [])),
            *(result.data.describe().replace("**", "") for result in results),
        ],
        tables=[Table("tasks", columns, rows)],
        code=command.removeprefix("Command: ").strip("`"),
    )


def _build_row(result: TaskResults, metric: str) -> list[Cell] | None:
    own = result.summarize("pretrained", metric)
    if own is None:
        return None
    trivial, words = (result.find_best(metric, is_trivial=flag) for flag in (True, False))
    theirs = BERT_TINY.get(result.task, {}).get(metric)
    return [
        Cell(result.task),
        Cell(metric.replace("_", " ")),
        _format_figure(trivial and trivial[1]),
        _format_figure(words and words[1]),
        _format_seeds(result.summarize("untrained", metric)),
        _format_seeds(own),
        _format_figure(theirs),
        Cell(_judge(own.median, theirs, is_comparable=result.data.is_complete)),
    ]


def _judge(own: float, theirs: float | None, *, is_comparable: bool) -> str:
    if theirs is None:
        return ""
    if not is_comparable:
        return "other data"
    return "passed" if own >= theirs else "not passed"


def _format_figure(figure: float | None) -> Cell:
    return Cell("") if figure is None else Cell(f"{figure:.1f}", figure)


def _format_seeds(summary: SeedSummary | None) -> Cell:
    if summary is None:
        return Cell("")
    spread = "" if summary.spread is None else f" ± {summary.spread:.1f}"
    return Cell(f"{summary.median:.1f}{spread}", summary.median)


def describe_checkpoints(lines: Sequence[Mapping[str, Any]]) -> Section:
    """The learning curve of downstream quality: intermediate models, shortly fine-tuned."""
    tasks = list(lines[0]["tasks"])
    columns = [Column(name, is_number=True) for name in ("step", "loops", "word loss", "order", *tasks)]
    rows = [
        [
            Cell(f"{line['step']:,}", line["step"]),
            Cell(str(line["depth"]), line["depth"]),
            Cell(f"{line['mlm_loss']:.3f}", line["mlm_loss"]),
            Cell(f"{line['sop_accuracy']:.1%}" if "sop_accuracy" in line else "", line.get("sop_accuracy")),
            *(Cell(f"{line['tasks'][task]['score']:.1f}", line["tasks"][task]["score"]) for task in tasks),
        ]
        for line in lines
    ]
    xs = [float(line["step"]) for line in lines]
    series = [Series(task, xs, [line["tasks"][task]["score"] for line in lines]) for task in tasks]
    told = "; ".join(f"{each.name}: from {each.ys[0]:.1f} to {each.ys[-1]:.1f}" for each in series)
    chart = Chart(
        "downstream", "After short fine-tuning", "step of pretraining", "score of the task", series,
        caption=f"From the first checkpoint to the last, {told}.",
    )  # fmt: skip
    return Section(
        "What it was worth on the way",
        paragraphs=[
            f"Models saved during the run, each fine-tuned for {lines[0]['finetune_steps']} steps with one "
            "seed: far less than above, and the same for all."
        ],
        tables=[Table("checkpoints", columns, rows)],
        charts=[chart],
    )
