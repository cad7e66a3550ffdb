"""Baselines of every task type: they beat trivial answers, and never see the labels of the dev set."""

import numpy as np
import pytest

from albert.tasks.assignment import Assignment, open_assignment
from albert.tasks.examples import Answer, ChoiceExample, SpanExample, TextExample
from albert.tasks.task_facts import TaskConfig
from bench.baselines.score import TRIVIAL, answer_by_sliding_window, score_baseline
from bench.baselines.span_candidates import count_rarities, find_first_name, list_candidates
from tests.tasks.tables import NOUNS, OWN_TABLES, write_tables

NUMBERS = TaskConfig(task="regression", kind="texts", label_kind="number", metrics=("pearson",))
QUESTIONS = TaskConfig(task="questions", kind="spans", has_impossible=True)
CHOICES = TaskConfig(task="choice", kind="choices", metrics=("accuracy",))


def build(facts: TaskConfig, train, dev) -> Assignment:
    return Assignment(facts, tuple(train), tuple(dev), ())


@pytest.mark.parametrize("task", OWN_TABLES)
def test_reading_beats_trivial_answers_and_is_deterministic(tmp_path, task):
    assignment = open_assignment(task, write_tables(tmp_path, task), dev=None, columns={}, dev_share=0.1)
    found = score_baseline(assignment)
    assert found == score_baseline(assignment)
    trivial = [metrics["score"] for name, metrics in found.items() if name in TRIVIAL]
    reading = [metrics["score"] for name, metrics in found.items() if name not in TRIVIAL]
    assert min(reading) > max(trivial) + 10
    assert max(reading) > 90


def test_similarity_without_learning():
    """The more words two texts share, the more they are alike; what the labels are does not matter."""
    texts = [("big old dog", "big old dog"), ("big old dog", "big old man"), ("big old dog", "a new ship")]
    examples = [TextExample("", *pair, label) for pair, label in zip(texts, (5.0, 3.0, 0.0), strict=True)]
    scores = score_baseline(build(NUMBERS, examples * 5, examples))
    assert scores["cosine"]["pearson"] > 95
    assert scores["mean"]["pearson"] == 0.0


def test_without_an_answer_every_impossible_question_is_right():
    context = "In the town Anna saw a ship . The old dog was in Bergen ."
    asked = [
        SpanExample("1", "Who saw a ship ?", context, (Answer("Anna", context.index("Anna")),)),
        SpanExample("2", "Where was the old dog ?", context, (Answer("Bergen", context.index("Bergen")),)),
        SpanExample("3", "When did it snow ?", context, is_impossible=True),
    ]
    scores = score_baseline(build(QUESTIONS, asked * 10, asked))
    assert list(scores) == ["no_answer", "bag_of_words"]
    assert scores["no_answer"]["f1"] == pytest.approx(100 / 3)
    assert scores["bag_of_words"]["f1"] == 100.0


def test_candidates_are_slices_of_one_sentence():
    context = "He went (in 1900) to Bergen. Then home!"
    example = SpanExample("1", "When did he go?", context)
    found = list_candidates(example, count_rarities([example]))
    texts = {context[start:end] for start, end in zip(found.starts, found.ends, strict=True)}
    assert {"1900", "in 1900", "Bergen", "He went", "Then home"} <= texts
    assert not any("Bergen. Then" in text or text.endswith((".", ")", "!")) for text in texts)
    assert found.features.shape[0] == len(found.starts)
    assert np.isfinite(found.features).all()


@pytest.mark.parametrize(
    ("context", "name"),
    [("Then Anna Berg came", "Anna Berg"), ("nobody came", "nobody"), ("", ""), ("?!", "?")],
)
def test_the_first_name(context, name):
    start, end = find_first_name(context)
    assert context[start:end] == name


def test_contexts_without_words_are_answered():
    train = SpanExample("1", "Who ?", "Anna came", (Answer("Anna", 0),))
    asked = (
        SpanExample("2", "Who ?", "?!", (Answer("?!", 0),)),
        SpanExample("3", "", "", is_impossible=True),
    )
    assert set(score_baseline(build(QUESTIONS, [train] * 3, asked))) == {"no_answer", "bag_of_words"}


def test_a_sliding_window_by_hand():
    """Question and first option have 3 words: the window `big old dog` has two of them, each once there."""
    example = ChoiceExample("1", "a big old dog and a ship", "the _ .", ("big dog", "new man"), 0)
    (scores,) = answer_by_sliding_window(build(CHOICES, [example], [example]))
    # `the`, `.`, `big`, `dog`: a window of four words holds `big` and `dog`, of weight log 2 each.
    assert scores == pytest.approx([2 * np.log(2), 0.0])


def test_embeddings_of_words():
    facts = TaskConfig(task="embedding", kind="embedding")
    pairs = [TextExample(str(place), f"the {noun}", f"a {noun}") for place, noun in enumerate(NOUNS)]
    assert score_baseline(build(facts, pairs, pairs))["cosine"]["score"] == 100.0
