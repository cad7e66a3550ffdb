"""The name of a GLUE task comes in; the names of its official metrics go out, for `score_task`.

Classes are numbers, and 1 is what MRPC and QQP count (a paraphrase, a duplicate). Where GLUE names two
metrics, a task's score is their mean. The diagnostic set is judged by Matthews correlation over three classes
and does not count towards GLUE's average.
"""

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
