"""GLUE's table of metrics, on worked examples and on the real development files."""

import pytest

from albert.errors import InputError
from albert.tasks.metrics.glue import AVERAGED, GLUE_METRICS
from albert.tasks.metrics.task_score import METRICS, combine, score_task

# The column of the label (CoLA's file has no header line) and the classes in the order of their numbers.
FILES = {
    "CoLA/dev.tsv": ("cola", 1, ["0", "1"]),
    "SST-2/dev.tsv": ("sst-2", 1, ["0", "1"]),
    "MRPC/dev.tsv": ("mrpc", 0, ["0", "1"]),
    "STS-B/dev.tsv": ("sts-b", -1, None),
    "QQP/dev.tsv": ("qqp", 3, ["0", "1"]),
    "MNLI/dev_matched.tsv": ("mnli", -1, ["entailment", "neutral", "contradiction"]),
    "QNLI/dev.tsv": ("qnli", -1, ["entailment", "not_entailment"]),
    "RTE/dev.tsv": ("rte", -1, ["entailment", "not_entailment"]),
    "WNLI/dev.tsv": ("wnli", -1, ["0", "1"]),
}


def score_glue(task, *, predictions, golds):
    return score_task(predictions, golds=golds, metrics=GLUE_METRICS[task])


def read_golds(path, text):
    task, column, classes = FILES[path]
    rows = text.rstrip("\n").split("\n")[0 if task == "cola" else 1 :]
    cells = [row.split("\t")[column].strip() for row in rows]
    return [classes.index(cell) for cell in cells] if classes else [float(cell) for cell in cells]


def test_two_metrics_are_judged_by_their_mean():
    # Two hits, one false alarm, one miss, one right no.
    outcome = score_glue("mrpc", predictions=[1, 1, 1, 0, 0], golds=[1, 1, 0, 1, 0])
    assert outcome.values == pytest.approx({"accuracy": 60.0, "f1": 100 * 4 / 6})
    assert outcome.score == pytest.approx((60.0 + 100 * 4 / 6) / 2)
    outcome = score_glue("sts-b", predictions=[1, 2, 3, 100], golds=[1, 2, 3, 4])
    assert outcome.values["spearman"] == pytest.approx(100.0)
    assert outcome.values["pearson"] < 90
    assert outcome.score == pytest.approx(sum(outcome.values.values()) / 2)


def test_cola_and_the_diagnostic_set_are_judged_by_correlation():
    assert score_glue("cola", predictions=[1, 1, 1], golds=[1, 0, 1]).score == 0.0
    assert score_glue("ax", predictions=[0, 1, 2], golds=[0, 1, 2]).score == pytest.approx(100.0)
    assert set(score_glue("ax", predictions=[0, 1, 2], golds=[0, 2, 1]).values) == {"matthews"}


def test_the_average_counts_every_task_but_the_diagnostic_set():
    assert set(GLUE_METRICS) - set(AVERAGED) == {"ax"}
    assert len(AVERAGED) == 9


def test_golds_as_predictions_give_100_in_every_task():
    for task in GLUE_METRICS:
        golds = [0.5, 1.0, 4.0, 4.0] if task == "sts-b" else [0, 1, 1, 0]
        assert score_glue(task, predictions=golds, golds=golds).score == pytest.approx(100.0)


def test_real_development_files(glue_files):
    """Golds as predictions give 100; one answer for everything gives the figures that papers print for it."""
    seen = set()
    for path, text in glue_files.items():
        own = "/".join(path.split("/")[-2:])
        task, golds = FILES[own][0], read_golds(own, text)
        perfect = score_glue(task, predictions=golds, golds=golds)
        assert list(perfect.values.values()) == pytest.approx([100.0] * len(perfect.values)), task
        constant = score_glue(task, predictions=[1] * len(golds), golds=golds)
        wanted = {
            "cola": {"matthews": 0.0},
            "sst-2": {"accuracy": 50.9},
            "mrpc": {"accuracy": 68.4, "f1": 81.2},
            "sts-b": {"pearson": 0.0, "spearman": 0.0},
            "rte": {"accuracy": 47.3},
            "wnli": {"accuracy": 43.7},
        }
        if task in wanted:
            assert constant.values == pytest.approx(wanted[task], abs=0.05)
        seen.add(task)
    assert seen == set(AVERAGED)


def test_unknown_names_are_refused():
    with pytest.raises(InputError, match="no metric 'bleu'; there are accuracy"):
        score_task([1], golds=[1], metrics=["bleu"])
    with pytest.raises(InputError, match="0 metrics"):
        combine({})
    assert {name for names in GLUE_METRICS.values() for name in names} <= METRICS.keys()
