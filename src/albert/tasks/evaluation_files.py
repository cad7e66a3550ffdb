"""An evaluation comes in; a folder with its scores, answers, page and official files goes out."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from albert.errors import InputError
from albert.files import (
    atomic_dir,
    dump_json,
    read_json,
    refuse_other_content,
    require_folder,
    write_json,
    write_text,
)
from albert.tasks.catalogue import TASKS
from albert.tasks.evaluation_result import Evaluation
from albert.tasks.glue_files import write_glue_file
from albert.tasks.kinds.spans import SpanKind
from albert.tasks.report import write_report
from albert.tasks.squad_files import BEST_NAME, ODDS_NAME, PREDICTIONS_NAME, write_squad_files
from albert.tasks.task_facts import build_kind

SCORES_NAME = "scores.json"
ANSWERS_NAME = "predictions.jsonl"
PAGE_NAME = "report.html"
EXITS_NAME = "exits.json"
# What a folder of an evaluation may hold; it is replaced as a whole.
_NAMES = frozenset(
    {
        SCORES_NAME, ANSWERS_NAME, PAGE_NAME, EXITS_NAME, PREDICTIONS_NAME, BEST_NAME, ODDS_NAME,
        *(name for task in TASKS.values() for name in task.submissions.values()),
    }
)  # fmt: skip


def write_evaluation(folder: Path, evaluation: Evaluation) -> list[Path]:
    """Write all there is to keep of an evaluation: the whole folder, or nothing.

    An evaluation of the same split at `folder` is replaced; a folder that holds anything else is refused.
    """
    check_folder(folder, task=evaluation.task, split=evaluation.split)
    with atomic_dir(folder) as aside:
        write_json(aside / SCORES_NAME, summarise_evaluation(evaluation))
        write_text(aside / ANSWERS_NAME, format_answers(evaluation))
        if evaluation.scores:
            write_report(aside / PAGE_NAME, evaluation)
        _write_official(aside, evaluation)
        names = sorted(path.name for path in aside.iterdir())
    return [folder / name for name in names]


def check_folder(folder: Path, *, task: str, split: str) -> None:
    """Refuse a folder whose content would be lost: anything but an evaluation of the same split."""
    if not require_folder(folder, cure="choose another name"):
        return
    path = folder / SCORES_NAME
    found = read_json(path) if path.is_file() else None
    if not isinstance(found, dict) or (found.get("task"), found.get("split")) != (task, split):
        raise InputError(
            f"{folder}: holds something else than an evaluation of {task} on {split}, which would be lost; "
            "choose another folder"
        )
    refuse_other_content(folder, _NAMES, doing="writing an evaluation there")


def summarise_evaluation(evaluation: Evaluation) -> dict[str, Any]:
    """The figures as JSON: all but the single examples."""
    parts = {
        "selection": evaluation.selection,
        "calibration": evaluation.calibration,
        "threshold": evaluation.threshold,
        "confusion": evaluation.confusion,
    }
    return {
        "task": evaluation.task,
        "split": evaluation.split,
        "data": evaluation.data,
        "models": list(evaluation.models),
        "num_examples": len(evaluation.examples),
        "num_scored": evaluation.num_scored,
        "scores": dict(evaluation.scores),
        "intervals": {name: [each.low, each.high] for name, each in evaluation.intervals.items()},
        "member_scores": [asdict(each) for each in evaluation.member_scores],
        "classes": [asdict(each) for each in evaluation.classes],
        **{name: None if part is None else asdict(part) for name, part in parts.items()},
        "problems": list(evaluation.problems),
    }


def format_answers(evaluation: Evaluation) -> str:
    """A line of JSON for each example, in their order."""
    kind = build_kind(evaluation.facts)
    pairs = zip(evaluation.answers, evaluation.examples, strict=True)
    # In ASCII: a text may hold half a surrogate pair, or a character that some take for a new line.
    return "".join(f"{dump_json(kind.describe(answer, example))}\n" for answer, example in pairs)


def _write_official(folder: Path, evaluation: Evaluation) -> None:
    """What the task's own server or script takes, where it has one."""
    task = TASKS.get(evaluation.task)
    if task is None:
        return
    answers, examples, kind = evaluation.answers, evaluation.examples, build_kind(evaluation.facts)
    if isinstance(kind, SpanKind):
        write_squad_files(folder, answers, examples=examples, kind=kind)  # type: ignore[arg-type]
    elif evaluation.split in task.submissions and evaluation.facts.kind == "texts":
        write_glue_file(folder, answers, examples=examples, task=task, split=evaluation.split)  # type: ignore[arg-type]
