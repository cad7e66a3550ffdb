"""Format the results of all tasks as a table in Markdown, with findings and notes."""

from collections.abc import Mapping, Sequence

from albert.progress import format_seconds
from albert.tasks.metrics.intervals import SeedSummary
from bench.downstream.ensembles import Ensemble
from bench.downstream.findings import list_findings
from bench.downstream.reference import BERT_TINY, DataSizes, list_shown
from bench.downstream.results import TaskResults

_COLUMNS = (
    "task", "metric", "trivial", "bag of words", "untrained", "pretrained", "difference", "BERT-Tiny",
    "time of a run",
)  # fmt: skip


def format_table(results: Sequence[TaskResults]) -> str:
    """Format a row for each metric of each task."""
    lines = [f"| {' | '.join(_COLUMNS)} |", "|---" * len(_COLUMNS) + "|"]
    for result in results:
        for number, metric in enumerate(list_shown(result.task)):
            cells = _list_cells(result, metric)
            if cells is not None:
                time = format_seconds(result.seconds) if result.seconds is not None and number == 0 else ""
                lines.append(f"| {result.task if number == 0 else ''} | {' | '.join(cells)} | {time} |")
    return "\n".join(lines)


def _list_cells(result: TaskResults, metric: str) -> list[str] | None:
    """List the cells of a row; None if no result has the metric."""
    trivial, words = (result.find_best(metric, is_trivial=flag) for flag in (True, False))
    untrained, pretrained = (result.summarize(variant, metric) for variant in ("untrained", "pretrained"))
    if not any((trivial, words, untrained, pretrained)):
        return None
    gap = "–" if untrained is None or pretrained is None else f"{pretrained.median - untrained.median:+.1f}"
    return [
        metric.replace("_", " "),
        format_baseline(trivial),
        format_baseline(words),
        format_seeds(untrained),
        format_seeds(pretrained),
        gap,
        _format_published(result.data, metric),
    ]


def format_baseline(found: tuple[str, float] | None) -> str:
    """Format a score and its baseline's name."""
    return "–" if found is None else f"{found[1]:.1f} ({found[0].replace('_', ' ')})"


def format_seeds(summary: SeedSummary | None) -> str:
    """Format median ± standard deviation."""
    if summary is None:
        return "–"
    return f"{summary.median:.1f}" + (
        f" ± {summary.spread:.1f}" if summary.spread is not None else " (one seed)"
    )


def _format_published(data: DataSizes, metric: str) -> str:
    score = BERT_TINY.get(data.task, {}).get(metric)
    if score is None:
        return "–"
    return f"{score:.1f}" if data.is_complete else f"({score:.1f})"


def format_report(
    results: Sequence[TaskResults],
    ensembles: Sequence[Ensemble],
    *,
    command: str,
    start: str,
    missed: Mapping[str, str],
) -> str:
    """Format the table, findings and notes."""
    notes = [
        "Medians over seeds ± their standard deviation, in points of 100, on the dev set. For both variants "
        "the checkpoint with the best dev score counts; the no-answer threshold of SQuAD 2.0 is the best on "
        "the dev set, for all results.",
        f"*Untrained*: the same shape with new weights ({start}) and the same recipe. *Trivial* and *bag of "
        "words*: the best baseline, named in brackets. Bag of words: TF-IDF and a linear model; its "
        "regularization was chosen on held-out training examples.",
        "*BERT-Tiny*: on the hidden test sets (google-research/bert); in brackets if our dev set is reduced.",
        *(result.data.describe() for result in results),
        *(f"missing: {name} ({reason})" for name, reason in missed.items()),
    ]
    parts = [
        f"Command: `{command}`",
        format_table(results),
        "\n".join(f"- {line}" for line in list_findings(results, ensembles)),
        "Notes:\n\n" + "\n".join(f"- {line}" for line in notes),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"
