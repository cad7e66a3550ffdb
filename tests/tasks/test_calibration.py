"""Temperatures and thresholds that are chosen on the dev set."""

import numpy as np
import pytest

from albert.tasks.calibration import list_logits, tune_facts
from albert.tasks.examples import Answer, ChoiceExample, SpanExample, TextExample, TokenExample
from albert.tasks.kinds.span_answers import FoundSpan, SpanAnswer
from albert.tasks.task_facts import TaskConfig, build_kind

CLASSES = TaskConfig(task="classification", kind="texts", labels=("a", "b", "c"), metrics=("accuracy",))
SEVERAL = CLASSES.model_copy(update={"label_kind": "several"})
WORDS = TaskConfig(task="words", kind="words", labels=("a", "b", "c"))
CHOICES = TaskConfig(task="choice", kind="choices")
QUESTIONS = TaskConfig(task="questions", kind="spans", has_impossible=True)
TOO_SURE = 3.0  # times as large as they should be are the logits of the model below


@pytest.fixture
def draw() -> np.random.Generator:
    return np.random.default_rng(5)


def draw_class(logits, draw) -> int:
    """A right answer that is as likely as the logits say."""
    odds = np.exp(logits - logits.max())
    return int(draw.choice(len(logits), p=odds / odds.sum()))


def test_the_temperature_undoes_how_much_too_sure_a_model_is(draw):
    logits = draw.normal(size=(4000, 3), scale=2)
    examples = [TextExample(str(place), "", None, draw_class(row, draw)) for place, row in enumerate(logits)]
    tuned = tune_facts(CLASSES, list(TOO_SURE * logits), examples)
    assert tuned.temperature == pytest.approx(TOO_SURE, rel=0.1)
    found = build_kind(tuned).describe(TOO_SURE * logits[0], examples[0])["probabilities"]
    wanted = np.exp(logits[0]) / np.exp(logits[0]).sum()
    assert list(found.values()) == pytest.approx(wanted, abs=0.05)


def test_words_are_as_many_decisions(draw):
    texts = [draw.normal(size=(draw.integers(1, 9), 3), scale=2) for _ in range(800)]
    examples = [
        TokenExample(str(place), ("x",) * len(rows), tuple(draw_class(row, draw) for row in rows))
        for place, rows in enumerate(texts)
    ]
    tuned = tune_facts(WORDS, [TOO_SURE * rows for rows in texts], examples)
    assert tuned.temperature == pytest.approx(TOO_SURE, rel=0.1)


def test_several_labels_are_decided_one_by_one(draw):
    logits = draw.normal(size=(3000, 3), scale=2)
    marks = draw.random(size=logits.shape) < 1 / (1 + np.exp(-logits))
    examples = [
        TextExample(str(place), "", None, tuple(np.flatnonzero(row).tolist()))
        for place, row in enumerate(marks)
    ]
    assert tune_facts(SEVERAL, list(TOO_SURE * logits), examples).temperature == pytest.approx(
        TOO_SURE, rel=0.1
    )


def test_questions_may_have_any_number_of_options(draw):
    rows = [draw.normal(size=draw.integers(2, 6), scale=2) for _ in range(4000)]
    examples = [
        ChoiceExample(str(place), "", "", ("",) * len(row), draw_class(row, draw))
        for place, row in enumerate(rows)
    ]
    tuned = tune_facts(CHOICES, [TOO_SURE * row for row in rows], examples)
    assert tuned.temperature == pytest.approx(TOO_SURE, rel=0.1)


def test_where_every_answer_is_right_the_model_is_surer_and_not_sure():
    examples = [TextExample(str(place), "", None, place % 3) for place in range(9)]
    logits = [np.eye(3)[place % 3] for place in range(9)]
    assert 0.25 < tune_facts(CLASSES, logits, examples).temperature < 0.5


def test_numbers_are_no_decisions():
    facts = CLASSES.model_copy(update={"label_kind": "number", "labels": ()})
    assert list_logits(facts, [np.zeros(1)], [TextExample("0", "", None, 1.5)]) is None
    assert tune_facts(facts, [np.zeros(1)], [TextExample("0", "", None, 1.5)]) == facts


def ask(odds: float, *, is_right: bool, is_impossible: bool) -> tuple[SpanAnswer, SpanExample]:
    """An answer with its odds for none, and the question."""
    said = FoundSpan("dog" if is_right else "cat", 0, 3, 1.0)
    answers = () if is_impossible else (Answer("dog", 0),)
    return SpanAnswer((said,), odds), SpanExample("q", "what", "dog cat", answers, is_impossible)


def test_the_threshold_leaves_unanswered_what_has_no_answer():
    asked = [
        ask(-3.0, is_right=True, is_impossible=False),
        ask(-1.0, is_right=True, is_impossible=False),
        ask(2.0, is_right=False, is_impossible=True),
        ask(4.0, is_right=False, is_impossible=True),
    ]
    answers, examples = map(list, zip(*asked, strict=True))
    tuned = tune_facts(QUESTIONS, answers, examples)
    assert tuned.threshold == 0.5  # midway between those that have an answer and those that have none
    assert build_kind(tuned).score(answers, examples)["f1"] == 100.0
    assert [build_kind(tuned).describe(answer, examples[0])["answer"] for answer in answers] == [
        "dog", "dog", "", "",
    ]  # fmt: skip


@pytest.mark.parametrize("is_impossible", [True, False])
def test_by_questions_of_one_kind_no_threshold_is_chosen(is_impossible):
    """The best would answer nothing, or everything, with a score of 100."""
    asked = [ask(odds, is_right=True, is_impossible=is_impossible) for odds in (-3.0, 2.0)]
    answers, examples = map(list, zip(*asked, strict=True))
    tuned = tune_facts(QUESTIONS, answers, examples)
    assert tuned.threshold == 0.0
    assert [build_kind(tuned).describe(answer, examples[0])["answer"] for answer in answers] == ["dog", ""]


def test_where_every_question_has_an_answer_there_is_no_threshold():
    answer, example = ask(0.0, is_right=True, is_impossible=False)
    facts = QUESTIONS.model_copy(update={"has_impossible": False})
    assert tune_facts(facts, [answer], [example]).threshold is None
