"""Windows make one answer, and several models too: sorted, no text twice, means of scores and odds."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert.tasks.encoding.windows import Window, iter_encoded_questions
from albert.tasks.examples import SpanExample
from albert.tasks.kinds.span_answers import (
    NO_SPAN,
    FoundSpan,
    SpanAnswer,
    conclude_windows,
    merge_answers,
)
from albert.tasks.kinds.span_answers import PlacedSpan, WindowSpans

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
