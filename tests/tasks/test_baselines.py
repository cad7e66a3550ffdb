"""Majority and bag of words: scored like a model, and never by a look at the labels of the dev set."""

from dataclasses import replace

import numpy as np
import pytest

from albert.tasks.assignment import Assignment, open_assignment
from albert.tasks.baselines import (
    STRENGTHS,
    answer_by_words,
    build_features,
    choose_strength,
    list_baselines,
    score_baseline,
    score_majority,
)
from albert.tasks.examples import Answer, SpanExample, TextExample
from albert.tasks.task_facts import TaskConfig
from tests.tasks.tables import NOUNS, SIZES, write_tables

TEXTS = TaskConfig(task="classification", kind="texts", labels=("no", "yes"), metrics=("accuracy",))


def read_own(task: str, folder) -> Assignment:
    return open_assignment(task, write_tables(folder, task), dev=None, columns={}, dev_share=0.1)


def build(facts: TaskConfig, train, dev) -> Assignment:
    return Assignment(facts, tuple(train), tuple(dev), ())


def pair_words(number: int, *, words) -> list[TextExample]:
    """Pairs of two words each that are the same or not; which words they are tells nothing."""
    draw = np.random.default_rng(number)
    found = []
    for place in range(number):
        first, other = draw.choice(words, size=2, replace=False)
        label = int(draw.integers(2))
        found.append(TextExample(str(place), f"the {first}", f"a {first if label else other}", label))
    return found


@pytest.mark.parametrize("task", ["classification", "multilabel", "regression"])
def test_bag_of_words_beats_the_majority(tmp_path, task):
    scores = score_baseline(read_own(task, tmp_path))
    assert list(scores) == ["majority", "bag_of_words"]
    assert scores["bag_of_words"]["score"] > max(90, scores["majority"]["score"] + 10)


@pytest.mark.parametrize("task", ["words", "choice"])
def test_other_task_types_have_a_majority(tmp_path, task):
    assignment = read_own(task, tmp_path)
    assert list(list_baselines(assignment)) == ["majority"]
    assert 0 <= score_majority(assignment) < 90


def test_no_answer_is_the_majority_of_questions_that_may_have_none():
    context = "In the town Anna saw a ship ."
    asked = [
        SpanExample("1", "Who saw a ship ?", context, (Answer("Anna", context.index("Anna")),)),
        SpanExample("2", "When did it snow ?", context, is_impossible=True),
    ]
    assignment = build(TaskConfig(task="questions", kind="spans", has_impossible=True), asked, asked)
    assert score_majority(assignment) == 50.0
    answered = assignment.facts.model_copy(update={"has_impossible": False})
    assert not list_baselines(replace(assignment, facts=answered))
    assert score_majority(replace(assignment, facts=answered)) == 0.0


@pytest.mark.parametrize("task", ["classification", "multilabel", "regression"])
def test_the_answers_to_the_development_set_have_no_say(tmp_path, task):
    """Whatever its labels are, the same is answered."""
    assignment = read_own(task, tmp_path)
    others = {"classification": 1, "multilabel": (0,), "regression": -5.0}
    blind = tuple(replace(example, label=others[task]) for example in assignment.dev)
    assert np.array_equal(answer_by_words(assignment), answer_by_words(replace(assignment, dev=blind)))


def test_the_strength_is_that_of_examples_kept_from_learning():
    """Among words that tell nothing weights are best kept small; a rare class needs large ones."""
    draw = np.random.default_rng(1)
    noise = [f"w{number}" for number in range(2000)]
    noisy, rare = [], []
    for place in range(400):
        label = int(draw.integers(2))
        told = label if draw.random() < 0.8 else 1 - label
        words = " ".join(draw.choice(noise, size=30))
        noisy.append(TextExample(str(place), f"{'good' if told else 'bad'} {words}", None, label))
        is_rare = place % 10 == 0
        rare.append(TextExample(str(place), f"{'rare' if is_rare else 'usual'} the a of", None, int(is_rare)))
    assert choose_strength(noisy, TEXTS) < STRENGTHS[-1]
    assert choose_strength(rare, TEXTS) > STRENGTHS[0]  # with which the usual class is all that is answered


def test_of_pairs_the_overlap_tells_even_of_words_that_are_new():
    train = pair_words(200, words=[f"a{number}" for number in range(60)])
    dev = pair_words(100, words=[f"b{number}" for number in range(60)])
    scores = score_baseline(build(TEXTS, train, dev))
    assert scores["bag_of_words"]["accuracy"] > 95
    assert scores["majority"]["accuracy"] < 65


def test_features_of_pairs():
    single = [TextExample("1", "the dog"), TextExample("2", "a man")]
    assert build_features(single, single[:1])[1].shape == (1, 6)  # four words and two bigrams
    double = [replace(example, second="the house") for example in single]
    assert build_features(double, double)[0].shape == (2, 4 * 8 + 7)


def test_a_label_that_nobody_has_is_never_given():
    facts = TEXTS.model_copy(update={"labels": ("no", "yes", "never")})
    train = [TextExample("", f"{size} {noun}", None, int(size == "big")) for size in SIZES for noun in NOUNS]
    answers = np.stack(answer_by_words(build(facts, train, train)))
    assert answers.shape == (16, 3)
    assert set(answers.argmax(1)) == {0, 1}
