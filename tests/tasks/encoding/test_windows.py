"""Answers in windows: placed and read back by characters of the raw text, whatever is in it."""

import re
import time
from array import array
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albert.errors import InputError
from albert.tasks.encoding.sequence import Frame
from albert.tasks.encoding.windows import ContextPieces, EncodedQuestion, iter_encoded_questions, place_answer
from albert.tasks.examples import Answer, SpanExample


def encode(tokenizer, context: str, *answers: tuple[str, int], question: str = "Who?", **options):
    placed = tuple(Answer(*answer) for answer in answers)
    example = SpanExample("x", question, context, placed)
    options = {"max_length": 384, **options}
    (encoded,) = iter_encoded_questions([example], tokenizer=tokenizer, **options)
    return encoded


def read_gold(encoded: EncodedQuestion) -> list[str]:
    """The gold answer as each window that holds it reads it back."""
    return [window.read(*window.answer) for window in encoded.windows if window.answer]


@pytest.mark.parametrize(
    ("context", "answer"),
    [
        ("the ship left", "the ship left"),
        ("The café – the naïve one – was closed.", "naïve"),
        ("The cafe\u0301 was closed.", "cafe\u0301"),  # an accent on its own, which is dropped
        ("Ａ ﬁne ½ of №5 was left", "½"),  # characters that become several
        ("Ａ ﬁne ½ of №5 was left", "ﬁne"),
        ("the\tship\t\tleft  the\u00a0\u00a0harbour", "ship\t\tleft  the\u00a0\u00a0harbour"),
        ("the\u00a0ship left", "ship"),
        ("  \n the ship", "the"),
        ("the ship \n ", "ship"),
        ("``Well,'' said the captain", "``Well,''"),
        ('"Well," he said', "Well,"),
        ("in 1990, and in 1985, it rose", "1985"),
        ("İstanbul and ΣΊΣΥΦΟΣ", "ΣΊΣΥΦΟΣ"),
        ("a 文字 b", "文字"),
        ("🚢 the ship", "🚢"),
    ],
)
def test_an_answer_comes_back_as_it_was_written(tokenizer, published_or_none, context, answer):
    for vocabulary in filter(None, (tokenizer, published_or_none)):
        encoded = encode(vocabulary, context, (answer, context.index(answer)))
        assert read_gold(encoded) == [answer]


@pytest.fixture(scope="session")
def published_or_none(request):
    try:
        return request.getfixturevalue("published")
    except pytest.skip.Exception:
        return None


def test_what_a_long_question_loses_is_counted(tokenizer):
    question = "who left the ship and the dog by night"
    whole = encode(tokenizer, "the ship left", question=question)
    number = len(whole.head) - 2
    cut = encode(tokenizer, "the ship left", question=question, max_question=5)
    assert (whole.num_cut, cut.num_cut, len(cut.head)) == (0, number - 5, 7)


def test_a_repeated_answer_is_the_one_at_its_place(tokenizer):
    context = "the dog and the dog and the dog"
    first, second = (encode(tokenizer, context, ("dog", start)).gold.first for start in (4, 16))
    assert first < second
    (window,) = encode(tokenizer, context, ("dog", 16)).windows
    assert window.span(*window.answer) == (16, 19)


def test_an_answer_at_the_very_start_and_end(tokenizer):
    context = "Nobody knew the captain"
    start, end = encode(tokenizer, context, ("Nobody", 0)), encode(tokenizer, context, ("captain", 16))
    (window,) = start.windows
    assert window.answer[0] == window.context_start
    (window,) = end.windows
    assert window.answer[1] == window.context_end - 1
    assert read_gold(start) + read_gold(end) == ["Nobody", "captain"]


def test_an_answer_inside_a_piece_takes_the_whole_piece_and_loses_space_at_its_ends(wordpiece):
    for answer in (("hi", 10), (" ship", 8)):
        assert read_gold(encode(wordpiece, "left the ship in 1990", answer)) == ["ship"]


def test_answers_that_are_not_in_the_context_leave_no_gold_and_drop_nothing(tokenizer):
    # Of the last two, which are there, no piece stands for any character.
    for answer in (("dog", 0), ("captain", 500), ("", 2), ("the", -3), (" ", 3), ("\ud800", 8)):
        encoded = encode(tokenizer, "the ship\ud800 left", answer)
        assert encoded.gold is None
        assert [window.answer for window in encoded.windows] == [None]
    second = encode(tokenizer, "the ship left", ("dog", 0), ("ship", 4))
    assert read_gold(second) == ["ship"]


def test_an_empty_context_and_a_long_question_still_make_a_window(tokenizer):
    question = "Nobody knew why " + "the ship " * 100
    pieces = tokenizer.encode_ids([question])[0]
    (window,) = encode(tokenizer, "", question=question).windows
    assert window.context_start == window.context_end == 66
    assert window.sequence.ids[1:65] == tuple(pieces[:64])
    assert len(window.question.head) == 1 + 64 + 1 < len(pieces)
    with pytest.raises(InputError, match="max_length is 60, and at least 68 .* or max_question shorter"):
        encode(tokenizer, "the ship", max_length=60)


def test_windows_are_the_question_and_a_stretch_of_the_context(tokenizer):
    context = "The ship left the harbour in 1990. " * 30
    encoded = encode(tokenizer, context, question="The dog?", max_length=60, stride=16, max_question=8)
    question, pieces = tokenizer.encode_ids(["The dog?", context])
    for window in encoded.windows:
        sequence = window.sequence
        stretch = pieces[window.slide.first : window.slide.end]
        frame = (tokenizer.cls_id, *question, tokenizer.sep_id, *stretch, tokenizer.sep_id)
        assert sequence.ids == frame
        assert len(sequence.ids) <= 60
        assert sequence.segments == (0,) * (len(question) + 2) + (1,) * (len(stretch) + 1)
        assert window.context_start <= window.own_start <= window.own_end <= window.context_end
    owned = sum(window.own_end - window.own_start for window in encoded.windows)
    assert owned == len(pieces)


def test_an_answer_is_gold_only_in_windows_that_hold_all_of_it(tokenizer):
    context = "The ship left the harbour in 1990. " * 30
    num_held = Counter()
    for match in re.finditer("harbour in 1990. The ship", context):
        answer = (match[0], match.start())
        encoded = encode(tokenizer, context, answer, max_length=60, stride=16, max_question=8)
        for window in encoded.windows:
            start, end = window.span(window.context_start, window.context_end - 1)
            holds = start <= match.start() and match.end() <= end
            num_held[holds] += 1
            assert (window.answer is not None) == holds
        assert set(read_gold(encoded)) == {match[0]}
    assert min(num_held[True], num_held[False]) > 29


def test_a_border_that_stands_for_no_character_ends_no_answer():
    pieces = ContextPieces((7, 8), array("i", [0, 2]), array("i", [1, 2]))
    found = place_answer(Answer("a  ", 0), pieces)
    assert (found.first, found.last) == (0, 0)


texts = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("  \t\n\u00a0éﬁ½`'´\u0301 thesip1,.🚢文"),
    min_size=1,
    max_size=60,
)


@settings(deadline=None)
@given(texts, st.data())
def test_any_range_of_characters_lies_within_the_pieces_that_are_found_for_it(tokenizer, context, data):
    start = data.draw(st.integers(0, len(context) - 1))
    end = data.draw(st.integers(start + 1, len(context)))
    encoding = tokenizer.encode(context)
    pieces = ContextPieces.of(encoding, frame=Frame.of(tokenizer))
    found = place_answer(Answer(context[start:end], start), pieces)
    if found is None:
        assert not any(a < end and b > start for a, b in encoding.spans if a < b)
        return
    covered_start, covered_end = encoding.spans[found.first][0], encoding.spans[found.last][1]
    assert context[start:end].strip() in context[min(start, covered_start) : max(end, covered_end)]
    # No fewer pieces would do: the outermost ones each stand for a character of the answer.
    for place in (found.first, found.last):
        a, b = encoding.spans[place]
        assert a < end
        assert b > start
    inner = encoding.spans[found.first : found.last + 1]
    for place, (a, b) in enumerate(encoding.spans):
        if a < end and b > start and a < b:
            assert found.first <= place <= found.last, (inner, a, b)


def test_contexts_of_100_000_characters_take_linear_time(tokenizer):
    sentence = "The ship left the harbour in 1990, and nobody on the quay waved. "

    def measure(num_characters: int) -> float:
        context = (sentence * (num_characters // len(sentence) + 1))[:num_characters]
        start = time.process_time()
        encoded = encode(tokenizer, context, ("ship", context.rindex("ship")))
        assert sum(len(window.sequence.ids) for window in encoded.windows) > num_characters // 8
        assert read_gold(encoded)[-1] == "ship"
        return time.process_time() - start

    ratio = min(measure(400_000) for _ in range(3)) / min(measure(100_000) for _ in range(3))
    assert ratio < 9, ratio  # four times the text; 16 times the time would be quadratic
