"""Answers are scored as SQuAD's scripts do, with a threshold that is given or the best there is."""

import pytest

from albert.errors import InputError
from albert.tasks.examples import Answer, SpanExample
from albert.tasks.kinds.span_answers import FoundSpan, SpanAnswer
from albert.tasks.kinds.span_answers import build_part, score_answered, score_possible
from albert.tasks.metrics.squad import report_elsewhere

DOG, SEA = (Answer("the old dog", 0),), (Answer("sea", 20), Answer("blue sea", 15))
EXAMPLES = [
    SpanExample("dog", "Who?", "", DOG),
    SpanExample("sea", "What?", "", SEA),
    SpanExample("none", "Why?", "", is_impossible=True),
    SpanExample("no", "How?", "", is_impossible=True),
]


def say(text: str, null_odds: float) -> SpanAnswer:
    return SpanAnswer((FoundSpan(text, 0, len(text), 1.0),) if text else (), null_odds)


ANSWERS = [say("dog", -2.0), say("sea", 0.5), say("a man", 0.0), say("a day", 3.0)]


def test_every_question_has_an_answer_in_1_1():
    found = score_answered(ANSWERS[:2], EXAMPLES[:2])
    assert found == {"exact": 50.0, "f1": pytest.approx(100 * (2 / 3 + 1) / 2), "score": found["f1"]}
    nothing = score_answered([say("", 0.0)] * 2, EXAMPLES[:2])
    assert nothing == {"exact": 0.0, "f1": 0.0, "score": 0.0}


def test_a_given_threshold_decides_who_is_answered():
    found = score_possible(ANSWERS, EXAMPLES, threshold=0.0)
    assert found == {
        "exact": 25.0,  # of the sea it says nothing, and of the man too much
        "f1": pytest.approx(100 * (2 / 3 + 1) / 4),
        "has_answer_exact": 0.0,
        "has_answer_f1": pytest.approx(100 / 3),
        "no_answer_exact": 50.0,
        "no_answer_f1": 50.0,
        "best_exact": 50.0,
        "best_f1": pytest.approx(100 * (2 / 3 + 2) / 4),
        "threshold": 0.0,
        "score": found["f1"],
    }


def test_without_a_threshold_the_best_is_taken_and_told():
    found = score_possible(ANSWERS, EXAMPLES, threshold=None)
    assert found["threshold"] == -1.0  # the dog is answered, and nothing else
    assert found["score"] == found["f1"] == pytest.approx(found["best_f1"])
    assert score_possible(ANSWERS, EXAMPLES, threshold=-1.0) == found


def test_a_threshold_can_be_chosen_on_other_questions():
    part = build_part(ANSWERS, EXAMPLES)
    chosen = report_elsewhere(part, chosen_on=build_part(ANSWERS[1:2], EXAMPLES[1:2]))
    assert chosen.threshold == pytest.approx(0.51)  # a little above what is answered
    assert chosen.scores.overall.f1 == score_possible(ANSWERS, EXAMPLES, threshold=0.5)["f1"]


def test_questions_of_which_nothing_is_known_cannot_be_scored():
    unknown = SpanExample("q7", "Who?", "")
    with pytest.raises(InputError, match="'q7' cannot be scored without an answer, or to be marked as impo"):
        score_possible(ANSWERS[:1], [unknown], threshold=None)
    with pytest.raises(InputError, match="'none' cannot be scored without an answer; leave out"):
        score_answered(ANSWERS[:1], EXAMPLES[2:3])
