"""Question answering: windows and gold positions, losses, search, aggregation and scores."""

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from albert.errors import InputError
from albert.model.albert_model import AlbertModel, build_model
from albert.model.config import ModelConfig
from albert.model.heads import SpanBeam
from albert.model.tokens import Tokens
from albert.pretrained.folder import load_vocabulary
from albert.tasks.catalogue import PUBLISHED_TASKS
from albert.tasks.models import predict_items
from albert.tasks.question_answering import (
    NO_SPAN,
    NUM_BEST,
    Answer,
    ContextTokens,
    EncodedQuestion,
    FoundSpan,
    QuestionAnsweringTask,
    QuestionWindow,
    SpanAnswer,
    SpanExample,
    SpanLabels,
    iter_encoded_questions,
    list_beam,
    merge_answers,
    search_spans,
)
from albert.tasks.sequences import Frame
from tests.conftest import WORDS

from .learning import finetune, load_for
from .questions import QUESTION, build_qa, write_questions

BOTH = pytest.mark.parametrize("has_impossible", [False, True], ids=["1.1", "2.0"])
CONTEXT = "The ship left the harbour in 1990. " * 30


def list_windows(encoded: EncodedQuestion) -> list[QuestionWindow]:
    return [QuestionWindow(encoded, window) for window in encoded.windows]


def encode(tokenizer, context: str, *answers: tuple[str, int], question: str = "Who?", **options):
    example = SpanExample("x", question, context, tuple(Answer(*answer) for answer in answers))
    options = {"max_length": 384, "stride": 128, "max_question": 64, **options}
    (encoded,) = iter_encoded_questions([example], tokenizer=tokenizer, **options)
    return encoded


def read_gold(encoded: EncodedQuestion) -> list[str]:
    """The gold answer as read from each window that has it."""
    spans = [window.find_characters(*window.answer) for window in list_windows(encoded) if window.answer]
    return [encoded.example.context[start:end] for start, end in spans]


@pytest.mark.parametrize(
    ("context", "answer"),
    [
        ("the ship left", "the ship left"),
        ("The café – the naïve one – was closed.", "naïve"),
        ("Ａ ﬁne ½ of №5 was left", "½"),  # characters that become several
        ("the\tship\t\tleft  the\u00a0\u00a0harbour", "ship\t\tleft  the\u00a0\u00a0harbour"),
        ("  \n the ship", "the"),
        ("``Well,'' said the captain", "``Well,''"),
        ("in 1990, and in 1985, it rose", "1985"),
        ("İstanbul and ΣΊΣΥΦΟΣ", "ΣΊΣΥΦΟΣ"),
        ("🚢 the ship", "🚢"),
    ],
)
def test_answers_are_read_back_as_they_are_written(tokenizer, context, answer):
    assert read_gold(encode(tokenizer, context, (answer, context.index(answer)))) == [answer]


def test_gold_is_the_first_answer_that_is_at_its_start(tokenizer, wordpiece):
    context = "the dog and the dog and the dog"
    (window,) = list_windows(encode(tokenizer, context, ("dog", 16)))
    assert window.find_characters(*window.answer) == (16, 19)
    # Of the last two, which are in the context, no token stands for any character.
    for answer in (("dog", 0), ("captain", 500), ("", 2), ("the", -3), (" ", 3), ("\ud800", 8)):
        encoded = encode(tokenizer, "the ship\ud800 left", answer)
        assert encoded.gold is None
        assert [window.answer for window in list_windows(encoded)] == [None]
    assert read_gold(encode(tokenizer, "the ship left", ("dog", 0), ("ship", 4))) == ["ship"]
    for answer in (("hi", 10), (" ship", 8)):  # inside a token, and with a space
        assert read_gold(encode(wordpiece, "left the ship in 1990", answer)) == ["ship"]


def test_long_questions_are_truncated_and_counted(tokenizer):
    question = "Nobody knew why " + "the ship " * 100
    tokens = tokenizer.encode_ids([question])[0]
    encoded = encode(tokenizer, "", question=question)
    (window,) = list_windows(encoded)
    assert window.context_start == window.context_end == 66
    assert window.sequence.ids == (tokenizer.cls_id, *tokens[:64], tokenizer.sep_id, tokenizer.sep_id)
    assert encoded.num_truncated == len(tokens) - 64
    assert encode(tokenizer, "the ship").num_truncated == 0
    with pytest.raises(InputError, match=r"60.* 68\b.*max_question"):
        encode(tokenizer, "the ship", max_length=60)


def test_windows_are_the_question_and_a_part_of_the_context(tokenizer):
    encoded = encode(tokenizer, CONTEXT, question="The dog?", max_length=60, stride=16, max_question=8)
    question, tokens = tokenizer.encode_ids(["The dog?", CONTEXT])
    for window in list_windows(encoded):
        part = tokens[window.window.first : window.window.end]
        head = (tokenizer.cls_id, *question, tokenizer.sep_id)
        assert window.sequence.ids == (*head, *part, tokenizer.sep_id)
        assert window.sequence.num_first == len(head)
        assert window.num_tokens == len(window.sequence.ids) <= 60
        assert window.context_start <= window.own_start <= window.own_end <= window.context_end
    assert sum(window.own_end - window.own_start for window in list_windows(encoded)) == len(tokens)


def test_an_answer_is_gold_only_in_windows_that_hold_all_of_it(tokenizer):
    num_held = Counter()
    for match in re.finditer("harbour in 1990. The ship", CONTEXT):
        answer = (match[0], match.start())
        encoded = encode(tokenizer, CONTEXT, answer, max_length=60, stride=16, max_question=8)
        for window in list_windows(encoded):
            start, end = window.find_characters(window.context_start, window.context_end - 1)
            holds = start <= match.start() and match.end() <= end
            num_held[holds] += 1
            assert (window.answer is not None) == holds
        assert set(read_gold(encoded)) == {match[0]}
    assert min(num_held[True], num_held[False]) > 29


contexts = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("  \t\n\u00a0éﬁ½`'´\u0301 thesip1,.🚢文"),
    min_size=1,
    max_size=60,
)


@settings(deadline=None)
@given(contexts, st.data())
def test_located_tokens_are_exactly_those_that_overlap_the_characters(tokenizer, context, data):
    start = data.draw(st.integers(0, len(context) - 1))
    end = data.draw(st.integers(start + 1, len(context)))
    encoding = tokenizer.encode(context)
    tokens = ContextTokens.of(encoding, frame=Frame.of(tokenizer))
    found = tokens.locate(Answer(context[start:end], start))
    overlapping = [i for i, (a, b) in enumerate(encoding.spans) if a < end and b > start and a < b]
    if found is None:
        assert not overlapping
        return
    first, last = found
    assert all(first <= index <= last for index in overlapping)
    for a, b in (encoding.spans[first], encoding.spans[last]):
        assert a < end
        assert b > start


# The answers of the other questions begin or end inside a token: numbers without % or $, Japan of Japanese.
EXPECTED = {
    "squad-1.1": {"questions": 781, "impossible": 0, "windows": 793, "answers": 2340, "exact": 2335},
    "squad-2.0": {"questions": 1597, "impossible": 816, "windows": 1620, "answers": 2340, "exact": 2335},
}


@pytest.mark.parametrize("name", EXPECTED)
def test_answers_of_real_squad_are_exact_unless_they_split_a_token(real_squad, published, name):
    found = PUBLISHED_TASKS[name].read_split(real_squad, "dev")
    assert found.problems == ()
    counts = dict.fromkeys(EXPECTED[name], 0)
    for encoded in iter_encoded_questions(
        found.examples, tokenizer=published, max_length=384, stride=128, max_question=64
    ):
        counts["questions"] += 1
        counts["impossible"] += encoded.example.is_impossible
        counts["windows"] += len(encoded.windows)
        for answer in encoded.example.answers:
            gold = encoded.context.locate(answer)
            assert gold is not None
            counts["answers"] += 1
            counts["exact"] += set(read_gold(replace(encoded, gold=gold))) == {answer.text}
    assert counts == EXPECTED[name]


@BOTH
def test_answers_in_windows_are_learned(tiny_folder, tmp_path, has_impossible):
    """A context of 50 tokens in five windows of 18, most of them without the answer."""
    share = 0.3 * has_impossible
    outcome, job = finetune(
        tiny_folder,
        tmp_path,
        build_qa(has_impossible=has_impossible, max_length=24),
        train=write_questions(200, seed=1, impossible_share=share, num_others=9),
        dev=write_questions(50, seed=2, impossible_share=share, num_others=9),
        num_steps=160,
    )
    assert len(job.dev) > 4 * len(job.dev_examples)
    scores = outcome.progress.figures
    assert scores["score"] == scores["f1"] >= scores["exact"] > 90, scores
    if has_impossible:
        assert scores["best_f1"] == pytest.approx(scores["f1"])
        assert min(scores["has_answer_exact"], scores["no_answer_exact"]) > 80


@BOTH
def test_predictions_do_not_depend_on_the_batch(tiny_folder, has_impossible):
    """Short and long contexts, one of them empty, together and one at a time."""
    task = build_qa(has_impossible=has_impossible, max_length=24)
    examples = [
        *write_questions(5, seed=1),
        SpanExample("empty", QUESTION, ""),
        SpanExample("a word", QUESTION, "dog"),
        *write_questions(5, seed=1, num_others=9),
    ]
    windows = task.encode(examples, load_vocabulary(tiny_folder))
    model = load_for(task, tiny_folder)
    alone, together = (predict_items(model, task, windows, max_tokens=size) for size in (1, 100_000))
    assert len(alone) == len(together) == len(examples)
    for one, other, example in zip(alone, together, examples, strict=True):
        assert [span.text for span in one.spans] == [span.text for span in other.spans]
        assert [span.score for span in one.spans] == pytest.approx(
            [span.score for span in other.spans], abs=1e-4
        )
        assert one.null_odds == pytest.approx(other.null_odds, abs=1e-4)
        assert all(example.context[span.start : span.end] == span.text for span in one.spans)
    assert together[5].spans == ()
    assert task.describe(together[5], examples[5])["answer"] == ""
    if not has_impossible:
        assert [span.text for span in together[6].spans] == ["dog"]


def test_only_known_answers_are_labels(tiny_folder):
    tokenizer = load_vocabulary(tiny_folder)

    def list_flags(has_impossible: bool, **labels: Any) -> list[bool]:
        task = build_qa(has_impossible=has_impossible, max_length=24)
        example = SpanExample("x", QUESTION, "he found the dog . " * 4, **labels)
        return [task.has_label(window) for window in task.encode([example], tokenizer)]

    for has_impossible in (False, True):
        assert list_flags(has_impossible) == [False, False]
        # One window has the answer; the other is trained to have none.
        assert list_flags(has_impossible, answers=(Answer("dog", 13),)) == [True, True]
        assert list_flags(has_impossible, answers=(Answer("dog", 14),)) == [False, False]
        assert list_flags(has_impossible, is_impossible=True) == [has_impossible] * 2


def build_small(task: QuestionAnsweringTask) -> AlbertModel:
    config = ModelConfig(
        vocab_size=len(WORDS), embedding_size=8, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=40, initializer_range=0.5,
    )  # fmt: skip
    return build_model(config, heads=task.heads, seed=3)


@BOTH
def test_a_batch_without_answers_has_gradients_for_all_weights(tiny_folder, has_impossible):
    task = build_qa(has_impossible=has_impossible)
    model = build_small(task).train()
    example = SpanExample("x", QUESTION, "", is_impossible=True)
    batch = task.build_batch(task.encode([example], load_vocabulary(tiny_folder)))
    total = torch.stack([total for total, _ in task.compute_losses(model, batch).values()]).sum()
    assert total.isfinite()
    total.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


LENGTHS = (30, 9, 5, 12)
# The third window has no context; the last owns one of its two tokens.
CONTEXTS = [(6, 29), (4, 8), (4, 4), (5, 7)]
OWNS = [(6, 20), (4, 8), (4, 4), (6, 7)]
TOKENS = Tokens.from_lists([[1] * length for length in LENGTHS])
CONTEXTS_B2, OWNS_B2 = (np.array(ranges, dtype=np.int64) for ranges in (CONTEXTS, OWNS))
LABELS = SpanLabels(np.zeros_like(CONTEXTS_B2), CONTEXTS_B2, OWNS_B2)


@pytest.mark.parametrize("max_answer", [1, 4, 100])
def test_the_search_is_exhaustive(max_answer):
    generator = torch.Generator().manual_seed(max_answer)
    start, end = (torch.randn(sum(LENGTHS), generator=generator) for _ in range(2))
    found = search_spans(start, end, TOKENS, labels=LABELS, max_answer=max_answer)
    rows = zip(start.split(LENGTHS), end.split(LENGTHS), CONTEXTS, OWNS, found, strict=True)
    for starts, ends, (_, context_end), (own_first, own_end), spans in rows:
        scores = {
            (first, last): (starts[first] + ends[last]).item()
            for first in range(own_first, own_end)
            for last in range(first, min(context_end, first + max_answer))
        }
        best = sorted(scores, key=lambda span: -scores[span])[:NUM_BEST]
        assert [(first, last) for first, last, _ in spans] == best
        assert [score for _, _, score in spans] == pytest.approx([scores[span] for span in best])


def test_invalid_spans_of_a_beam_are_dropped():
    """[CLS], an end before the start, a span that is too long, one of another window, an empty slot."""
    nothing = -torch.inf
    beam = SpanBeam(
        start_indices_BS=torch.tensor([[0, 8], [5, 0]]),
        start_log_probs_BS=torch.tensor([[-0.1, -0.2], [-0.5, nothing]]),
        end_indices_BSZ=torch.tensor([[[0, 9, 8], [7, 9, 8]], [[5, 6, 9], [5, 6, 0]]]),
        end_log_probs_BSZ=torch.tensor(
            [[[-0.1, -0.2, -0.3], [-0.1, -0.4, -0.3]], [[-1.0, -2.0, -0.5], [-1.0, -2.0, nothing]]]
        ),
        unanswerable_B=torch.zeros(2),
    )
    owns = np.array([[6, 9], [4, 6]])
    first, second = list_beam(beam, labels=SpanLabels(np.zeros_like(owns), owns, owns), max_answer=3)
    assert first == [(8, 8, pytest.approx(-0.5)), (8, 9, pytest.approx(-0.6))]
    assert second == [(5, 5, pytest.approx(-1.5)), (5, 6, pytest.approx(-2.5))]


def build_short_windows(tokenizer, *contexts: str) -> list[QuestionWindow]:
    examples = [SpanExample(str(index), "who ?", context) for index, context in enumerate(contexts)]
    task = build_qa(max_length=12, stride=2, max_question=3)
    return task.encode(examples, tokenizer)


def test_windows_are_aggregated_by_the_best_spans_and_the_lowest_null_odds(wordpiece):
    context = "the ship left the ship in 1990 the ship left"
    windows = build_short_windows(wordpiece, context, "", "the ship")
    num_long = sum(window.question.example.id == "0" for window in windows)
    assert num_long > 1
    last = context.rindex("ship")
    answers = [SpanAnswer((FoundSpan("ship", 4, 8, 1.0), FoundSpan("ship left", 4, 13, 0.5)), 3.0)]
    answers += [SpanAnswer((), 1.0 + number) for number in range(num_long - 2)]
    answers += [SpanAnswer((FoundSpan("ship", last, last + 4, 2.0),), -1.0)]
    answers += [SpanAnswer((), 0.5), SpanAnswer((FoundSpan("the", 0, 3, 0.0),), 0.25)]
    first, second, third = build_qa().aggregate(windows, answers)
    assert [(span.text, span.score) for span in first.spans] == [("ship", 2.0), ("ship left", 0.5)]
    assert (first.best.start, first.null_odds) == (last, -1.0)
    assert (second.spans, second.null_odds, second.best) == ((), 0.5, NO_SPAN)
    assert third == answers[-1]


@st.composite
def draw_answers(draw: st.DrawFn) -> SpanAnswer:
    texts = draw(st.lists(st.sampled_from(("dog", "man", "sea", "old ship")), unique=True))
    scores = sorted((draw(st.integers(-40, 40)) / 8 for _ in texts), reverse=True)
    starts = [draw(st.integers(0, 50)) for _ in texts]
    rows = zip(texts, starts, scores, strict=True)
    spans = (FoundSpan(text, start, start + len(text), score) for text, start, score in rows)
    return SpanAnswer(tuple(spans), draw(st.integers(-40, 40)) / 8)


@given(st.lists(draw_answers(), min_size=1, max_size=5))
def test_an_ensemble_averages_scores_and_null_odds(answers):
    merged = merge_answers(answers)
    assert merged.null_odds == pytest.approx(sum(each.null_odds for each in answers) / len(answers))
    assert {span.text for span in merged.spans} == {span.text for each in answers for span in each.spans}
    assert list(merged.spans) == sorted(merged.spans, key=lambda span: -span.score)
    for span in merged.spans:
        scores = [
            next((other.score for other in each.spans if other.text == span.text), each.spans[-1].score)
            for each in answers
            if each.spans
        ]
        assert span.score == pytest.approx(sum(scores) / len(scores))
    assert merge_answers(answers[:1]) == merge_answers([answers[0]] * 2)


def test_the_same_text_at_two_positions_counts_as_one():
    left = SpanAnswer((FoundSpan("dog", 4, 7, 5.0), FoundSpan("man", 16, 19, 4.0)))
    right = SpanAnswer((FoundSpan("dog", 26, 29, 6.0), FoundSpan("man", 16, 19, 4.0)))
    assert merge_answers([left, right]).best == FoundSpan("dog", 26, 29, 5.5)
    many = SpanAnswer(tuple(FoundSpan(str(n), n, n + 1, -n) for n in range(30)))
    assert len(merge_answers([many, many]).spans) == NUM_BEST


QUESTIONS = [
    SpanExample("dog", "Who?", "", (Answer("the old dog", 0),)),
    SpanExample("sea", "What?", "", (Answer("sea", 20), Answer("blue sea", 15))),
    SpanExample("none", "Why?", "", is_impossible=True),
    SpanExample("no", "How?", "", is_impossible=True),
]


def say(text: str, null_odds: float) -> SpanAnswer:
    return SpanAnswer((FoundSpan(text, 0, len(text), 1.0),) if text else (), null_odds)


ANSWERS = [say("dog", -2.0), say("sea", 0.5), say("a man", 0.0), say("a day", 3.0)]


def test_scores_of_squad_1_1():
    found = build_qa().score(ANSWERS[:2], QUESTIONS[:2])
    assert found == {"exact": 50.0, "f1": pytest.approx(100 * (2 / 3 + 1) / 2), "score": found["f1"]}
    assert build_qa().score([say("", 0.0)] * 2, QUESTIONS[:2]) == {"exact": 0.0, "f1": 0.0, "score": 0.0}


def test_scores_of_squad_2_0_at_a_threshold():
    found = build_qa(has_impossible=True, threshold=0.0).score(ANSWERS, QUESTIONS)
    assert found == {
        "exact": 25.0,  # "sea" is above the threshold, and "a man" is not
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


def test_without_a_threshold_the_best_is_used():
    found = build_qa(has_impossible=True).score(ANSWERS, QUESTIONS)
    assert found["threshold"] == -1.0  # only the dog is answered
    assert found["score"] == found["f1"] == pytest.approx(found["best_f1"])
    assert build_qa(has_impossible=True, threshold=-1.0).score(ANSWERS, QUESTIONS) == found


def test_questions_without_gold_answers_cannot_be_scored():
    with pytest.raises(InputError, match="'q7'.*is_impossible"):
        build_qa(has_impossible=True).score(ANSWERS[:1], [SpanExample("q7", "Who?", "")])
    with pytest.raises(InputError, match="'none'"):
        build_qa().score(ANSWERS[:1], QUESTIONS[2:3])


def test_a_described_answer_has_its_characters_and_respects_the_threshold():
    example = SpanExample("x", "Who?", "the old man and the sea")
    spans = (FoundSpan("old man", 4, 11, 2.0), FoundSpan("man", 8, 11, 2.0))
    described = build_qa().describe(SpanAnswer(spans), example)
    assert described == {
        "id": "x", "answer": "old man", "start": 4, "end": 11, "score": 2.0,
        "probability": pytest.approx(0.5),
    }  # fmt: skip
    task = build_qa(has_impossible=True, threshold=1.5)
    assert task.describe(SpanAnswer(spans, 1.5), example) == {**described, "null_odds": 1.5}
    assert task.describe(SpanAnswer(spans, 1.6), example) == {
        "id": "x", "answer": "", "start": None, "end": None, "score": None, "probability": None,
        "null_odds": 1.6,
    }  # fmt: skip
    no_threshold = build_qa(has_impossible=True)
    assert no_threshold.describe(SpanAnswer(spans, 9.0), example)["answer"] == "old man"
