"""A GLUE task with predictions and golds comes in; its official metrics and the score it is judged by go out.

Classes are numbers, and 1 is what MRPC and QQP count (a paraphrase, a duplicate). Where GLUE names two
metrics, a task's score is their mean; MNLI's two are the accuracies on its matched and mismatched parts. The
diagnostic set is judged by Matthews correlation over three classes and does not count towards the average.
"""

from collections.abc import Mapping

from albert.errors import InputError
from albert.tasks.metrics.pairs import Values
from albert.tasks.metrics.task_score import TaskScore, combine, score_task

GLUE_METRICS: dict[str, tuple[str, ...]] = {
    "cola": ("matthews",),
    "sst-2": ("accuracy",),
    "mrpc": ("accuracy", "f1"),
    "sts-b": ("pearson", "spearman"),
    "qqp": ("accuracy", "f1"),
    "mnli": ("accuracy",),
    "qnli": ("accuracy",),
    "rte": ("accuracy",),
    "wnli": ("accuracy",),
    "ax": ("matthews",),
}
AVERAGED = tuple(task for task in GLUE_METRICS if task != "ax")


def score_glue(task: str, *, predictions: Values, golds: Values) -> TaskScore:
    """The official metrics of one task on one file; refused: a name that is none of GLUE's tasks."""
    return score_task(predictions, golds=golds, metrics=GLUE_METRICS[_known(task)])


def combine_mnli(matched: TaskScore, *, mismatched: TaskScore) -> TaskScore:
    """MNLI's two parts as the one task they are in GLUE's average."""
    return combine({"accuracy_matched": matched.score, "accuracy_mismatched": mismatched.score})


def average_glue(scores: Mapping[str, float]) -> float:
    """The plain mean of the tasks' scores that are there; GLUE's own has all of `AVERAGED`."""
    counted = [score for task, score in scores.items() if _known(task) in AVERAGED]
    if not counted:
        raise InputError(f"0 tasks to average; give at least 1 of {', '.join(AVERAGED)}")
    return sum(counted) / len(counted)


def _known(task: str) -> str:
    if task not in GLUE_METRICS:
        raise InputError(f"no GLUE task {task!r}; there are {', '.join(GLUE_METRICS)}")
    return task
