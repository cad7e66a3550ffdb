"""Balanced weights: every class counts the same as a whole, and the mean over the examples is 1."""

import pytest

from albert.errors import InputError
from albert.tasks.examples import TextExample, TokenExample
from albert.tasks.task_facts import TaskFacts
from albert.tasks.finetune import count_class_weights

CLASSES = TaskFacts(task="classification", kind="texts", labels=("a", "b", "c"))
WORDS = TaskFacts(task="words", kind="words", labels=("O", "B-X"))


def test_a_rare_class_counts_for_more():
    labels = [0] * 6 + [1] * 3 + [2]
    weights = count_class_weights([TextExample(str(i), "", None, i) for i in labels], CLASSES)
    assert weights == pytest.approx((10 / 18, 10 / 9, 10 / 3))
    assert sum(weights[label] for label in labels) == pytest.approx(len(labels))
    totals = [weights[place] * labels.count(place) for place in range(3)]
    assert totals == pytest.approx([10 / 3] * 3)


def test_words_are_counted_one_by_one():
    texts = [TokenExample("0", ("w",) * 4, (0, 0, 0, 1)), TokenExample("1", ("w",) * 4, (0, 0, 0, 0))]
    assert count_class_weights(texts, WORDS) == pytest.approx((8 / 14, 8 / 2))


def test_a_class_without_examples_weighs_1():
    weights = count_class_weights([TextExample("0", "", None, 0), TextExample("1", "", None, 1)], CLASSES)
    assert weights[2] == 1.0
    assert all(weight > 0 for weight in weights)


@pytest.mark.parametrize(
    "facts",
    [
        TaskFacts(task="regression", kind="texts", label_kind="number"),
        TaskFacts(task="multilabel", kind="texts", label_kind="several", labels=("a", "b")),
        TaskFacts(task="choice", kind="choices"),
        TaskFacts(task="questions", kind="spans"),
    ],
    ids=lambda facts: facts.task,
)
def test_what_is_no_choice_between_classes_is_not_weighed(facts):
    with pytest.raises(
        InputError, match=f"class_weights=balanced for {facts.task}: only classes of which one"
    ):
        count_class_weights([], facts)
