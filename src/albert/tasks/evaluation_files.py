"""Write an evaluation: its scores, predictions and report, and the files of GLUE and SQuAD."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albert.errors import InputError
from albert.files import (
    atomic_dir,
    dump_json,
    read_json,
    reject_other_content,
    require_folder,
    write_json,
    write_text,
)
from albert.tasks.catalogue import TASKS, Task
from albert.tasks.evaluation_result import Evaluation
from albert.tasks.examples import SpanExample, TextExample
from albert.tasks.kinds.span_answers import NO_SPAN, SpanAnswer
from albert.tasks.kinds.spans import SpanKind
from albert.tasks.report import write_report
from albert.tasks.task_facts import build_kind

SCORES_NAME = "scores.json"
ANSWERS_NAME = "predictions.jsonl"
PAGE_NAME = "report.html"
EXITS_NAME = "exits.json"
PREDICTIONS_NAME = "predictions.json"
BEST_NAME = "nbest_predictions.json"
ODDS_NAME = "null_odds.json"
LOWEST, HIGHEST = 0.0, 5.0  # the range of STS-B's numbers
# What a folder of an evaluation may hold; it is replaced as a whole.
_NAMES = frozenset(
    {
        SCORES_NAME, ANSWERS_NAME, PAGE_NAME, EXITS_NAME, PREDICTIONS_NAME, BEST_NAME, ODDS_NAME,
        *(name for task in TASKS.values() for name in task.submissions.values()),
    }
)  # fmt: skip


def write_evaluation(folder: Path, evaluation: Evaluation) -> list[Path]:
    """Write an evaluation to a folder: all files, or none.

    An evaluation of the same split at `folder` is replaced; a folder that holds anything else is rejected.
    """
    check_folder(folder, task=evaluation.task, split=evaluation.split)
    with atomic_dir(folder) as aside:
        write_json(aside / SCORES_NAME, summarise_evaluation(evaluation))
        write_text(aside / ANSWERS_NAME, format_answers(evaluation))
        if evaluation.scores:
            write_report(aside / PAGE_NAME, evaluation)
        task, kind = TASKS.get(evaluation.task), build_kind(evaluation.facts)
        answers, examples, split = evaluation.answers, evaluation.examples, evaluation.split
        if task is not None and isinstance(kind, SpanKind):
            write_squad_files(aside, answers, examples=examples, kind=kind)  # type: ignore[arg-type]
        elif task is not None and split in task.submissions and evaluation.facts.kind == "texts":
            write_glue_file(aside, answers, examples=examples, task=task, split=split)  # type: ignore[arg-type]
        names = sorted(path.name for path in aside.iterdir())
    return [folder / name for name in names]


def check_folder(folder: Path, *, task: str, split: str) -> None:
    """Reject a folder whose content would be lost: anything but an evaluation of the same split."""
    if not require_folder(folder, hint="choose another name"):
        return
    path = folder / SCORES_NAME
    found = read_json(path) if path.is_file() else None
    if not isinstance(found, dict) or (found.get("task"), found.get("split")) != (task, split):
        raise InputError(
            f"{folder}: holds something else than an evaluation of {task} on {split}, which would be lost; "
            "choose another folder"
        )
    reject_other_content(folder, _NAMES, doing="writing an evaluation there")


def summarise_evaluation(evaluation: Evaluation) -> dict[str, Any]:
    """Summarize the scores as JSON, without the single examples."""
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
    """Format a line of JSON for each example, in their order."""
    kind = build_kind(evaluation.facts)
    pairs = zip(evaluation.answers, evaluation.examples, strict=True)
    # In ASCII: a text may hold half a surrogate pair, or a character that some take for a new line.
    return "".join(f"{dump_json(kind.describe(answer, example))}\n" for answer, example in pairs)


def write_glue_file(
    folder: Path,
    answers: Sequence[NDArray[np.float64]],
    *,
    examples: Sequence[TextExample],
    task: Task,
    split: str,
) -> Path:
    """Write the file that GLUE's server takes, under its official name and in its spelling.

    A number has three decimals and lies between 0 and 5.
    """
    lines = ["index\tprediction"]
    for example, answer in zip(examples, answers, strict=True):
        number = min(max(float(answer[0]), LOWEST), HIGHEST)
        spelled = f"{number:.3f}" if task.labels is None else task.labels.names[int(answer.argmax())]
        lines.append(f"{example.id}\t{spelled}")
    path = folder / task.submissions[split]
    write_text(path, "\n".join(lines) + "\n")
    return path


def write_squad_files(
    folder: Path, answers: Sequence[SpanAnswer], *, examples: Sequence[SpanExample], kind: SpanKind
) -> list[Path]:
    """Write the answers, the best spans of each and, of 2.0, the odds for no answer, all under question ids.

    The answers are those under the task's threshold, `""` where there is none. If the official script is to
    search for the best threshold, write them without one and give it the odds with `--na-prob-file`.
    """
    ids = [example.id for example in examples]
    for name, number in Counter(ids).items():
        if number > 1:
            raise InputError(
                f"two questions have the id {name!r}, and the files hold one answer for each id; give every "
                "question its own"
            )
    threshold = kind.threshold if kind.has_impossible else None
    found = dict(zip(ids, answers, strict=True))
    values: dict[str, dict[str, Any]] = {BEST_NAME: {name: _list_best(each) for name, each in found.items()}}
    if kind.has_impossible:
        values[ODDS_NAME] = {name: each.null_odds for name, each in found.items()}
    # Last: who waits for it takes it as the sign that all are there.
    values[PREDICTIONS_NAME] = {name: each.choose(threshold).text for name, each in found.items()}
    for name, value in values.items():
        # In ASCII, as the published code writes them: a context may hold half a surrogate pair.
        write_text(folder / name, json.dumps(value, indent=2) + "\n")
    return [folder / name for name in values]


def _list_best(answer: SpanAnswer) -> list[dict[str, Any]]:
    """List the spans with their share of the probability; at least one, as in the published code."""
    rows = zip(answer.spans or (NO_SPAN,), answer.probabilities or (1.0,), strict=True)
    return [
        {
            "text": span.text,
            "probability": probability,
            "score": span.score,
            "start": span.start,
            "end": span.end,
        }
        for span, probability in rows
    ]
