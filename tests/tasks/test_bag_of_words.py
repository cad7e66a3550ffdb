"""The bag-of-words baseline of classification tasks."""

from dataclasses import replace

import numpy as np
import pytest

from albert.tasks.bag_of_words import STRENGTHS, choose_strength
from albert.tasks.catalogue import build_task
from albert.tasks.classification import ClassificationConfig, TextExample
from albert.tasks.data import TaskData, open_task_data
from tests.tasks.tables import write_tables

TEXTS = ClassificationConfig(task="classification", labels=("no", "yes"), metrics=("accuracy",))
TASKS = ["classification", "multilabel", "regression"]


def read_table(task, folder):
    return open_task_data(task, write_tables(folder, task), dev=None, columns={}, dev_share=0.1)


def score_baselines(data):
    task = build_task(data.config)
    predicted = {name: fit(data.train, data.dev) for name, fit in task.list_baselines().items()}
    return {name: task.score(answers, data.dev) for name, answers in predicted.items()}


def draw_pairs(number, words):
    """Pairs that share a word or not; the words themselves tell nothing."""
    draw = np.random.default_rng(number)
    found = []
    for index in range(number):
        first, other = draw.choice(words, size=2, replace=False)
        label = int(draw.integers(2))
        found.append(TextExample(str(index), f"the {first}", f"a {first if label else other}", label))
    return tuple(found)


@pytest.mark.parametrize("task", TASKS)
def test_bag_of_words_beats_the_majority(tmp_path, task):
    scores = score_baselines(read_table(task, tmp_path))
    assert list(scores) == ["majority", "bag_of_words"]
    assert scores["bag_of_words"]["score"] > max(90, scores["majority"]["score"] + 10)


@pytest.mark.parametrize("task", TASKS)
def test_predictions_do_not_depend_on_the_labels_of_the_dev_set(tmp_path, task):
    found = read_table(task, tmp_path)
    label = {"classification": 1, "multilabel": (0,), "regression": -5.0}[task]
    predict = build_task(found.config).list_baselines()["bag_of_words"]
    other_dev = [replace(example, label=label) for example in found.dev]
    assert np.array_equal(predict(found.train, found.dev), predict(found.train, other_dev))


def test_the_strength_is_chosen_on_held_out_examples():
    def choose(best):
        return choose_strength(range(100), lambda fit, held: lambda strength: -abs(strength - best))

    assert [choose(best) for best in STRENGTHS] == list(STRENGTHS)
    assert choose_strength(range(100), lambda fit, held: lambda strength: 0.0) == STRENGTHS[0]
    assert choose_strength(range(9), lambda fit, held: lambda strength: strength) == 1.0
    sizes = []
    choose_strength(range(100), lambda fit, held: sizes.append((len(fit), len(held))) or float)
    assert sizes == [(80, 20)]


def test_pairs_are_compared_by_their_overlap_even_with_new_words():
    train, dev = (
        draw_pairs(size, [f"{name}{n}" for n in range(60)]) for size, name in ((200, "a"), (100, "b"))
    )
    scores = score_baselines(TaskData(TEXTS, train, dev, ()))
    assert scores["bag_of_words"]["accuracy"] > 95
    assert scores["majority"]["accuracy"] < 65
