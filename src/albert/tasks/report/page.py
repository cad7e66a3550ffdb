"""An evaluation comes in; one HTML file goes out that a person can read anywhere, without a network."""

from pathlib import Path

from albert.files import write_text
from albert.report.frame import frame_page
from albert.report.markup import Html, join, section, tag
from albert.tasks.evaluation_result import Evaluation
from albert.tasks.report.honesty import show_calibration, show_numbers, show_threshold
from albert.tasks.report.style import SCRIPT, STYLE
from albert.tasks.report.tables import show_classes, show_confusion, show_members, show_scores
from albert.tasks.report.worst_errors import choose_errors, show_errors


def write_report(path: Path, evaluation: Evaluation) -> None:
    """Write the page, whole or not at all."""
    write_text(path, format_report(evaluation))


def format_report(evaluation: Evaluation) -> str:
    """The page: scores, models, classes, confusions, honesty, and the worst errors."""
    errors = choose_errors(evaluation)
    # Only where an error is one label for another does a cell of the matrix have errors to lead to.
    is_linked = bool(errors.names) and evaluation.facts.kind == "texts"
    body = join(
        _show_head(evaluation),
        show_scores(evaluation),
        show_members(evaluation),
        show_classes(evaluation),
        show_confusion(evaluation.confusion, is_linked=is_linked),
        show_numbers(evaluation),
        show_calibration(evaluation.calibration),
        show_threshold(evaluation.threshold),
        _show_problems(evaluation),
        show_errors(errors, num_scored=evaluation.num_scored),
    )
    title = f"{evaluation.task}, {evaluation.split}"
    return frame_page(body, title=title, style=STYLE, script=SCRIPT)


def _show_head(evaluation: Evaluation) -> Html:
    models = evaluation.models
    whole = f"an ensemble of {len(models)} models" if len(models) > 1 else models[0]
    asked = f"{evaluation.num_scored:,} examples scored"
    if evaluation.num_scored != len(evaluation.examples):
        asked += f", of {len(evaluation.examples):,}"
    return tag(
        "header",
        tag("h1", f"{evaluation.task}: {evaluation.split}"),
        tag("p", f"{whole} · {evaluation.data} · {asked}", class_="soft"),
    )


def _show_problems(evaluation: Evaluation) -> Html:
    if not evaluation.problems:
        return Html("")
    return section(
        "What was odd in the data", tag("ul", *(tag("li", problem) for problem in evaluation.problems))
    )
