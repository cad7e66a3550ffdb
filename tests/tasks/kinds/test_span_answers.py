"""Answers to questions: aggregated over windows, merged over models, and scored."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert.errors import InputError
from albert.tasks.encoding.windows import Window, iter_encoded_questions
from albert.tasks.examples import Answer, SpanExample
from albert.tasks.kinds.span_answers import (
    NO_SPAN,
    FoundSpan,
    PlacedSpan,
    SpanAnswer,
    WindowSpans,
    conclude_windows,
    merge_answers,
    score_possible,
    summarise_spans,
)
from albert.tasks.metrics.squad import report_elsewhere

CONTEXT = "the dog saw the man . the dog saw  the man ."
WORDS = ("dog", "man", "sea", "old ship")


def build_windows(tokenizer, *contexts: str) -> list[Window]:
    examples = [SpanExample(str(place), "who ?", context) for place, context in enumerate(contexts)]
    encoded = iter_encoded_questions(examples, tokenizer=tokenizer, max_length=12, stride=2, max_question=3)
    return [window for question in encoded for window in question.windows]


def place(window: Window, first: int, last: int, score: float) -> PlacedSpan:
    """A span by its pieces in the context."""
    shift = window.context_start - window.slide.first
    return PlacedSpan(first + shift, last + shift, score)


def test_the_windows_of_a_question_make_one_answer(wordpiece):
    windows = build_windows(wordpiece, "the ship left the ship in 1990 the ship left", "", "the ship")
    long = [window for window in windows if window.question.example.id == "0"]
    assert len(long) > 1
    outputs = [WindowSpans((place(long[0], 1, 1, 1.0), place(long[0], 1, 2, 0.5)), 3.0)]
    outputs += [WindowSpans((), 1.0 + number) for number in range(len(long) - 1)]
    # The same text elsewhere, with a higher score, in the last window.
    outputs[-1] = WindowSpans((place(long[-1], long[-1].slide.end - 2, long[-1].slide.end - 2, 2.0),), -1.0)
    outputs += [WindowSpans((), 0.5), WindowSpans((place(windows[-1], 0, 0, 0.0),), 0.25)]
    first, second, third = conclude_windows(windows, outputs, num_best=20)
    assert [(span.text, span.score) for span in first.spans] == [("ship", 2.0), ("ship left", 0.5)]
    assert first.best.start == windows[0].question.example.context.rindex("ship")
    assert first.null_odds == -1.0
    assert (second.spans, second.null_odds, second.best) == ((), 0.5, NO_SPAN)
    assert third == SpanAnswer((FoundSpan("the", 0, 3, 0.0),), 0.25)


def test_the_border_of_a_word_is_no_answer_and_white_space_is_none_of_it(tokenizer):
    """Some vocabularies have a piece for the space in front of a word."""
    (window,) = build_windows(tokenizer, "the ✦ ship")
    pieces = range(window.context_start, window.context_end)
    spans = [
        PlacedSpan(first, last, 0.0) for first, last in itertools.combinations_with_replacement(pieces, 2)
    ]
    (answer,) = conclude_windows([window], [WindowSpans(tuple(spans))], num_best=100)
    assert answer.spans
    for span in answer.spans:
        assert span.text == span.text.strip() != ""
        assert "the ✦ ship"[span.start : span.end] == span.text


@st.composite
def draw_answers(draw: st.DrawFn) -> SpanAnswer:
    texts = draw(st.lists(st.sampled_from(WORDS), unique=True))
    scores = sorted((draw(st.integers(-40, 40)) / 8 for _ in texts), reverse=True)
    starts = [draw(st.integers(0, 50)) for _ in texts]
    rows = zip(texts, starts, scores, strict=True)
    spans = (FoundSpan(text, start, start + len(text), score) for text, start, score in rows)
    return SpanAnswer(tuple(spans), draw(st.integers(-40, 40)) / 8)


@given(st.lists(draw_answers(), min_size=1, max_size=5))
def test_merging_takes_the_mean_over_models(answers):
    merged = merge_answers(answers, num_best=20)
    assert merged.null_odds == pytest.approx(sum(each.null_odds for each in answers) / len(answers))
    assert {span.text for span in merged.spans} == {span.text for each in answers for span in each.spans}
    assert [span.score for span in merged.spans] == sorted(
        (span.score for span in merged.spans), reverse=True
    )
    for span in merged.spans:
        scores = [
            next((other.score for other in each.spans if other.text == span.text), each.spans[-1].score)
            for each in answers
            if each.spans
        ]
        assert span.score == pytest.approx(sum(scores) / len(scores))
        assert any(
            (span.start, span.end) == (other.start, other.end) for each in answers for other in each.spans
        )
    backwards = merge_answers(answers[::-1], num_best=20)
    assert {span.text: span.score for span in backwards.spans} == pytest.approx(
        {span.text: span.score for span in merged.spans}
    )


@given(draw_answers())
def test_models_that_agree_are_one(answer):
    one, two = (merge_answers([answer] * number, num_best=20) for number in (1, 2))
    assert one == two
    assert {span.text: span for span in one.spans} == {span.text: span for span in answer.spans}
    assert one.null_odds == answer.null_odds


def test_the_same_words_in_two_places_agree():
    left = SpanAnswer(
        (FoundSpan("dog", 4, 7, 5.0), FoundSpan("man", 16, 19, 4.0), FoundSpan("sea", 9, 12, -9.0))
    )
    right = SpanAnswer(
        (FoundSpan("dog", 26, 29, 6.0), FoundSpan("man", 16, 19, 4.0), FoundSpan("sea", 9, 12, -9.0))
    )
    assert merge_answers([left, right], num_best=20).best == FoundSpan("dog", 26, 29, 5.5)
    assert len(merge_answers([left, right], num_best=2).spans) == 2


@given(draw_answers())
def test_probabilities_are_shares_in_the_order_of_the_scores(answer):
    assert len(answer.probabilities) == len(answer.spans)
    if answer.spans:
        assert sum(answer.probabilities) == pytest.approx(1.0)
        assert list(answer.probabilities) == sorted(answer.probabilities, reverse=True)


DOG, SEA = (Answer("the old dog", 0),), (Answer("sea", 20), Answer("blue sea", 15))
QUESTIONS = [
    SpanExample("dog", "Who?", "", DOG),
    SpanExample("sea", "What?", "", SEA),
    SpanExample("none", "Why?", "", is_impossible=True),
    SpanExample("no", "How?", "", is_impossible=True),
]


def say(text: str, null_odds: float) -> SpanAnswer:
    return SpanAnswer((FoundSpan(text, 0, len(text), 1.0),) if text else (), null_odds)


ANSWERS = [say("dog", -2.0), say("sea", 0.5), say("a man", 0.0), say("a day", 3.0)]


def test_every_question_has_an_answer_in_1_1():
    found = summarise_spans(ANSWERS[:2], QUESTIONS[:2], has_impossible=False)
    assert found == {"exact": 50.0, "f1": pytest.approx(100 * (2 / 3 + 1) / 2), "score": found["f1"]}
    nothing = summarise_spans([say("", 0.0)] * 2, QUESTIONS[:2], has_impossible=False)
    assert nothing == {"exact": 0.0, "f1": 0.0, "score": 0.0}


def test_a_given_threshold_decides_who_is_answered():
    found = summarise_spans(ANSWERS, QUESTIONS, has_impossible=True, threshold=0.0)
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
    found = summarise_spans(ANSWERS, QUESTIONS, has_impossible=True, threshold=None)
    assert found["threshold"] == -1.0  # the dog is answered, and nothing else
    assert found["score"] == found["f1"] == pytest.approx(found["best_f1"])
    assert summarise_spans(ANSWERS, QUESTIONS, has_impossible=True, threshold=-1.0) == found


def test_a_threshold_can_be_chosen_on_other_questions():
    part = score_possible(ANSWERS, QUESTIONS)
    chosen = report_elsewhere(part, chosen_on=score_possible(ANSWERS[1:2], QUESTIONS[1:2]))
    assert chosen.threshold == pytest.approx(0.51)  # a little above what is answered
    assert (
        chosen.scores.overall.f1
        == summarise_spans(ANSWERS, QUESTIONS, has_impossible=True, threshold=0.5)["f1"]
    )


def test_questions_of_which_nothing_is_known_cannot_be_scored():
    unknown = SpanExample("q7", "Who?", "")
    with pytest.raises(InputError, match="'q7' cannot be scored without an answer, or to be marked as impo"):
        summarise_spans(ANSWERS[:1], [unknown], has_impossible=True, threshold=None)
    with pytest.raises(InputError, match="'none' cannot be scored without an answer; leave out"):
        summarise_spans(ANSWERS[:1], QUESTIONS[2:3], has_impossible=False)
