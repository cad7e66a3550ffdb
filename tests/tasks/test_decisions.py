"""Intervals, confusions and per-example results of every task type agree with its score."""

import random
import time
from typing import Any

import numpy as np
import pytest

from albert.tasks.decisions import find_classes, find_confusion, list_verdicts
from albert.tasks.examples import Answer, ChoiceExample, SpanExample, TextExample, TokenExample
from albert.tasks.kinds.span_answers import FoundSpan, SpanAnswer
from albert.tasks.metrics.classification import count_entities
from albert.tasks.task_facts import TaskConfig, build_kind

from .metrics.plain_bootstrap import bootstrap_metric

TAGS = ("O", "B-X", "I-X", "B-Y", "I-Y")
CONTEXT = "one two three four five six seven eight"
FACTS = {
    "one": TaskConfig(task="a", kind="texts", labels=("p", "q", "r"), metrics=("accuracy", "macro_f1")),
    "binary": TaskConfig(task="mrpc", kind="texts", labels=("p", "q"), metrics=("accuracy", "f1")),
    "matthews": TaskConfig(task="cola", kind="texts", labels=("p", "q"), metrics=("matthews",)),
    "several": TaskConfig(
        task="b", kind="texts", label_kind="several", labels=("p", "q", "r"),
        metrics=("multilabel_micro_f1", "subset_accuracy"),
    ),
    "number": TaskConfig(task="c", kind="texts", label_kind="number", metrics=("pearson", "spearman")),
    "entities": TaskConfig(task="words", kind="words", labels=TAGS),
    "words": TaskConfig(task="words", kind="words", labels=("noun", "verb", "other")),
    "spans": TaskConfig(task="squad-1.1", kind="spans"),
    "impossible": TaskConfig(task="squad-2.0", kind="spans", has_impossible=True, threshold=0.0),
    "choices": TaskConfig(task="race", kind="choices"),
}  # fmt: skip


def draw_examples(name: str, number: int) -> list[Any]:
    """Examples of a task with their golds."""
    draw = random.Random(4)
    return [_BUILDERS[FACTS[name].kind](FACTS[name], str(place), draw) for place in range(number)]


def _draw_text(facts, name, draw):
    label = draw.randrange(len(facts.labels) or 6)
    if facts.label_kind == "several":
        label = tuple(place for place in range(3) if draw.random() < 0.5)
    return TextExample(name, "a text", None, float(label) if facts.label_kind == "number" else label)


def _draw_words(facts, name, draw):
    words = ("one", "two", "three", "four")[: draw.randint(1, 4)]
    return TokenExample(name, words, tuple(draw.randrange(len(facts.labels)) for _ in words))


def _draw_span(facts, name, draw):
    word = draw.choice(CONTEXT.split())
    if facts.has_impossible and draw.random() < 0.4:
        return SpanExample(name, "which ?", CONTEXT, is_impossible=True)
    return SpanExample(name, "which ?", CONTEXT, (Answer(word, CONTEXT.index(word)),))


def _draw_choice(facts, name, draw):
    options = tuple("abcd"[: draw.randint(2, 4)])
    level = draw.choice(("middle", "high"))
    return ChoiceExample(name, "passage", "which ?", options, draw.randrange(len(options)), level)


def find_intervals(facts, answers, examples, seed=0):
    return build_kind(facts).find_intervals(answers, examples, seed=seed)


def entity_f1(tags, *, golds):
    return float(count_entities(tags, golds)[1](np.ones(len(golds))).total.f1[0])


def word_accuracy(tags, *, golds):
    pairs = [pair for given, gold in zip(tags, golds, strict=True) for pair in zip(given, gold, strict=True)]
    return np.mean([given == gold for given, gold in pairs])


_BUILDERS = {"texts": _draw_text, "words": _draw_words, "spans": _draw_span, "choices": _draw_choice}


def answer_right(facts, example, strength=8.0):
    """The answer of a model that knows everything."""
    if facts.kind == "spans":
        gold = example.answers[0] if example.answers else Answer("two", 4)
        span = FoundSpan(gold.text, gold.start, gold.start + len(gold.text), 3.0)
        return SpanAnswer((span,), 5.0 if example.is_impossible else -5.0)
    if facts.kind == "words":
        return strength * np.eye(len(facts.labels))[list(example.labels)]
    if facts.kind == "choices":
        return strength * np.eye(len(example.options))[example.label]
    if facts.label_kind == "number":
        return np.array([example.label])
    if facts.label_kind == "several":
        return strength * (2.0 * np.isin(np.arange(3), example.label) - 1)
    return strength * np.eye(len(facts.labels))[example.label]


def answer_anyhow(facts, example, rng):
    """The answer of a model that knows something."""
    right = answer_right(facts, example, strength=1.0)
    if facts.kind == "spans":
        word = str(rng.choice(CONTEXT.split())) if rng.random() < 0.5 else right.best.text
        place = CONTEXT.index(word)
        return SpanAnswer((FoundSpan(word, place, place + len(word), 1.0),), float(rng.normal()))
    return right + rng.normal(size=right.shape)


@pytest.mark.parametrize("name", FACTS)
def test_gold_answers_score_100_and_nothing_is_wrong(name):
    facts, examples = FACTS[name], draw_examples(name, 40)
    answers = [answer_right(facts, example) for example in examples]
    scores = build_kind(facts).score(answers, examples)
    assert scores["score"] == pytest.approx(100.0)
    for metric, interval in find_intervals(facts, answers, examples).items():
        assert (interval.value, interval.low) == pytest.approx((100.0, 100.0)), metric
    verdicts = list_verdicts(facts, answers, examples)
    assert all(verdict.is_right for verdict in verdicts)
    assert name == "number" or all(verdict.gold == verdict.given for verdict in verdicts)
    assert all(verdict.loss == pytest.approx(0.0, abs=0.01) for verdict in verdicts)
    confusion = find_confusion(facts, answers, examples)
    if confusion is not None:
        counts = np.array(confusion.counts)
        assert counts.trace() == counts.sum() > 0
    assert all(each.f1 == 1.0 for each in find_classes(facts, answers, examples) if each.support)


@pytest.mark.parametrize("name", FACTS)
def test_intervals_and_verdicts_are_of_the_scores(name):
    facts, examples, rng = FACTS[name], draw_examples(name, 60), np.random.default_rng(5)
    answers = [answer_anyhow(facts, example, rng) for example in examples]
    scores = build_kind(facts).score(answers, examples)
    intervals = find_intervals(facts, answers, examples)
    assert set(scores) - set(intervals) <= {"best_exact", "best_f1", "threshold"}
    for metric, interval in intervals.items():
        assert interval.value == pytest.approx(scores[metric]), metric
        assert interval.low < interval.value < interval.high, metric
    verdicts = list_verdicts(facts, answers, examples)
    assert [verdict.id for verdict in verdicts] == [example.id for example in examples]
    share = 100 * np.mean([verdict.is_right for verdict in verdicts])
    exact = {"one": "accuracy", "binary": "accuracy", "several": "subset_accuracy", "choices": "accuracy"}
    exact |= {"spans": "exact", "impossible": "exact"}
    if name in exact:
        assert share == pytest.approx(scores[exact[name]])
    wrong = [verdict.loss for verdict in verdicts if not verdict.is_right]
    assert min(wrong) > 0


def test_words_are_drawn_by_texts():
    facts, examples, rng = FACTS["entities"], draw_examples("entities", 20), np.random.default_rng(6)
    answers = [answer_anyhow(facts, example, rng) for example in examples]
    given = [[TAGS[place] for place in answer.argmax(-1)] for answer in answers]
    golds = [[TAGS[place] for place in example.labels] for example in examples]
    found = find_intervals(facts, answers, examples, seed=7)
    for name, metric in (("entity_f1", entity_f1), ("word_accuracy", word_accuracy)):
        plain = bootstrap_metric(given, golds=golds, metric=metric, seed=7)
        limits = (100 * plain.low, 100 * plain.high)
        assert (found[name].low, found[name].high) == pytest.approx(limits)


@pytest.mark.parametrize("name", ["number", "entities", "impossible"])
def test_ten_thousand_examples_take_seconds(name):
    facts, rng = FACTS[name], np.random.default_rng(8)
    examples = draw_examples(name, 10_000)
    answers = [answer_anyhow(facts, example, rng) for example in examples]
    begin = time.process_time()
    find_intervals(facts, answers, examples)
    assert time.process_time() - begin < 10


def test_a_verdict_says_how_wrong_and_how_sure():
    facts = FACTS["binary"]
    verdict = list_verdicts(facts, [np.log([0.9, 0.1])], [TextExample("7", "one", "other", 1)])[0]
    assert (verdict.id, verdict.texts) == ("7", {"first": "one", "second": "other"})
    assert (verdict.gold, verdict.given, verdict.is_right) == ("q", "p", False)
    assert verdict.loss == pytest.approx(-np.log(0.1))
    assert verdict.confidence == pytest.approx(0.9)


def test_a_verdict_on_words_names_the_entities():
    example = TokenExample("1", ("in", "New", "York"), (0, 1, 2))
    answer = 5.0 * np.eye(5)[[0, 1, 3]]
    verdict = list_verdicts(FACTS["entities"], [answer], [example])[0]
    assert (verdict.texts, verdict.gold) == ({"text": "in New York"}, "X: New York")
    assert verdict.given == "X: New; Y: York"
    assert list_verdicts(FACTS["words"], [np.eye(3)], [example])[0].gold == "in/noun New/verb York/other"
