"""Question answering: encoding, losses, search of spans and prediction."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from albert.tasks.answering import ask_items
from albert.tasks.encoding.windows import Window
from albert.tasks.examples import Answer, SpanExample
from albert.tasks.kinds.span_answers import FoundSpan, PlacedSpan, SpanAnswer, WindowSpans
from albert.tasks.kinds.spans import SpanKind, SpanPlaces, list_beam, mark_allowed, search_spans
from albert.tasks.readers.published import read_split
from albert.tasks.task_facts import TaskConfig
from albert.tasks.task_facts import build_kind as build_from_facts
from torch import Tensor

from albert.errors import InputError
from albert.model.albert_model import AlbertModel, build_model
from albert.model.config import ModelConfig
from albert.model.heads import SpanBeam
from albert.model.tokens import Tokens
from albert.pretrained.folder import load_vocabulary
from albert.tasks.catalogue import find_task
from tests.conftest import WORDS

from .learning import finetune, load_for
from .questions import QUESTION, build_kind, write_questions

BOTH = pytest.mark.parametrize("has_impossible", [False, True], ids=["1.1", "2.0"])


@BOTH
def test_answers_are_learned(tiny_folder, tmp_path, has_impossible):
    share = 0.4 * has_impossible
    outcome, _ = finetune(
        tiny_folder,
        tmp_path,
        build_kind(has_impossible=has_impossible),
        train=write_questions(400, seed=1, impossible_share=share),
        dev=write_questions(100, seed=2, impossible_share=share),
        num_steps=160,
    )
    figures = outcome.progress.figures
    assert figures["exact"] > 90, figures
    assert figures["score"] == figures["f1"] >= figures["exact"]
    if has_impossible:
        assert figures["best_f1"] == pytest.approx(figures["f1"])
        assert min(figures["has_answer_exact"], figures["no_answer_exact"]) > 80


@BOTH
def test_long_contexts_are_read_in_windows(tiny_folder, tmp_path, has_impossible):
    """A context of 50 pieces in five windows of 18: the most of them have no answer, and say so."""
    share = 0.3 * has_impossible
    outcome, job = finetune(
        tiny_folder,
        tmp_path,
        build_kind(has_impossible=has_impossible, max_length=24),
        train=write_questions(200, seed=1, impossible_share=share, num_others=9),
        dev=write_questions(50, seed=2, impossible_share=share, num_others=9),
        num_steps=160,
    )
    assert len(job.dev) > 4 * len(job.dev_examples)
    assert outcome.progress.figures["exact"] > 90, outcome.progress.figures


def answer_gold(windows: list[Window]) -> list[WindowSpans]:
    """What a model that knows the answers would say of each window."""
    return [
        WindowSpans((PlacedSpan(*window.answer, score=1.0),) if window.answer else (), -1.0)
        if window.question.gold
        else WindowSpans((PlacedSpan(window.context_start, window.context_start, 1.0),), 1.0)
        for window in windows
    ]


@BOTH
def test_gold_answers_score_100(tiny_folder, has_impossible):
    kind = build_kind(has_impossible=has_impossible, max_length=24)
    examples = write_questions(50, seed=1, impossible_share=0.4 * has_impossible, num_others=9)
    windows = kind.encode(examples, load_vocabulary(tiny_folder))
    figures = kind.score(kind.conclude(windows, answer_gold(windows)), examples)
    assert {value for name, value in figures.items() if name != "threshold"} == {100.0}


@pytest.mark.parametrize("name", ["squad-1.1", "squad-2.0"])
def test_gold_answers_of_the_real_data_score_100(real_squad, published, name):
    task = find_task(name)
    examples = read_split(task, real_squad, split="dev").examples
    kind = SpanKind(task.has_impossible, max_length=task.max_length)
    windows = kind.encode(examples, published)
    assert all(map(kind.teaches, windows))
    figures = kind.score(kind.conclude(windows, answer_gold(windows)), examples)
    assert {value for name, value in figures.items() if name != "threshold"} == {100.0}


@BOTH
def test_answers_do_not_depend_on_the_batch(tiny_folder, has_impossible):
    """Short and long contexts, one of them empty, together and each by itself."""
    kind = build_kind(has_impossible=has_impossible, max_length=24)
    examples = [
        *write_questions(5, seed=1),
        SpanExample("nothing", QUESTION, ""),
        SpanExample("a word", QUESTION, "dog"),
        *write_questions(5, seed=1, num_others=9),
    ]
    windows = kind.encode(examples, load_vocabulary(tiny_folder))
    model = load_for(kind, tiny_folder)
    alone, together = (ask_items(model, kind, windows, max_tokens=size) for size in (1, 100_000))
    assert len(alone) == len(together) == len(examples)
    for one, other, example in zip(alone, together, examples, strict=True):
        assert [span.text for span in one.spans] == [span.text for span in other.spans]
        assert [span.score for span in one.spans] == pytest.approx(
            [span.score for span in other.spans], abs=1e-4
        )
        assert one.null_odds == pytest.approx(other.null_odds, abs=1e-4)
        assert all(example.context[span.start : span.end] == span.text for span in one.spans)
    assert together[5].spans == ()
    assert kind.describe(together[5], examples[5])["answer"] == ""
    if not has_impossible:  # where there must be an answer, every word is one
        assert [span.text for span in together[6].spans] == ["dog"]


@BOTH
def test_no_two_windows_propose_the_same_span(tiny_folder, has_impossible):
    kind = replace(build_kind(has_impossible=has_impossible, max_length=24), max_answer=4)
    windows = kind.encode(write_questions(5, seed=1, num_others=12), load_vocabulary(tiny_folder))
    outputs = kind.predict(load_for(kind, tiny_folder), kind.build_batch(windows))
    seen = set()
    for window, output in zip(windows, outputs, strict=True):
        assert len(output.spans) <= kind.num_best
        assert list(output.spans) == sorted(output.spans, key=lambda span: -span.score)
        for span in output.spans:
            assert window.own_start <= span.first < window.own_end
            assert span.first <= span.last < min(window.context_end, span.first + 4)
            seen.add((window.question.example.id, window.span(span.first, span.last)))
    assert len(seen) == sum(len(output.spans) for output in outputs) > 0


@BOTH
def test_in_bf16_scores_are_still_told_apart(tiny_folder, has_impossible):
    kind = build_kind(has_impossible=has_impossible)
    batch = kind.build_batch(kind.encode(write_questions(5, seed=1), load_vocabulary(tiny_folder)))
    model = load_for(kind, tiny_folder)
    with torch.inference_mode():
        whole = kind.predict(model, batch)
        with torch.autocast("cpu", torch.bfloat16):
            rounded = kind.predict(model, batch)
    best = torch.tensor([[output.spans[0].score for output in found] for found in (whole, rounded)])
    assert (best[0] - best[1]).abs().max() < 0.2
    assert (best[1] != best[1].bfloat16()).any()


def test_what_is_not_known_teaches_nothing(tiny_folder):
    tokenizer = load_vocabulary(tiny_folder)
    context = "he found the dog . " * 4

    def teach(has_impossible: bool, **facts: object) -> list[bool]:
        kind = build_kind(has_impossible=has_impossible, max_length=24)
        example = SpanExample("x", QUESTION, context, **facts)  # type: ignore[arg-type]
        return [kind.teaches(window) for window in kind.encode([example], tokenizer)]

    for has_impossible in (False, True):
        assert teach(has_impossible) == [False, False]
        # One window holds it; the other learns that it does not.
        assert teach(has_impossible, answers=(Answer("dog", 13),)) == [True, True]
        assert teach(has_impossible, answers=(Answer("dog", 14),)) == [False, False]
    assert teach(True, is_impossible=True) == [True, True]
    assert teach(False, is_impossible=True) == [False, False]


def build_small(kind: SpanKind) -> AlbertModel:
    config = ModelConfig(
        vocab_size=len(WORDS), embedding_size=8, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=40, initializer_range=0.5,
    )  # fmt: skip
    return build_model(config, heads=kind.heads, seed=3)


def mask_padded(windows: list[Window], last_BLD: Tensor) -> Tensor:
    """`p_mask` of the published code: what is neither the context nor [CLS]."""
    mask_BL = torch.ones(last_BLD.shape[:2])
    for row, window in zip(mask_BL, windows, strict=True):
        row[window.context_start : window.context_end] = 0
        row[0] = 0
    return mask_BL


def log_likelihood(logits_BL: Tensor, places_B: Tensor) -> Tensor:
    return (F.one_hot(places_B, logits_BL.shape[1]) * logits_BL.log_softmax(-1)).sum(-1).mean()


def compute_published(model: AlbertModel, kind: SpanKind, windows: list[Window]) -> float:
    """The loss as the published code writes it out, on padded states; means over the windows."""
    tokens = kind.build_batch(windows).build_tokens()
    states = model(tokens).last_TD.split(tokens.lengths)
    last_BLD = torch.nn.utils.rnn.pad_sequence(list(states), batch_first=True)
    answers = torch.tensor([window.answer or (0, 0) for window in windows])
    starts_B, ends_B = answers.unbind(1)
    head: Any = model.head(next(iter(kind.heads)))
    if not kind.has_impossible:
        is_padding = torch.tensor(
            [[place >= n for place in range(last_BLD.shape[1])] for n in tokens.lengths]
        )
        logits = head.linear(last_BLD).masked_fill(is_padding.unsqueeze(2), -1e30)
        return -(log_likelihood(logits[..., 0], starts_B) + log_likelihood(logits[..., 1], ends_B)).item() / 2
    mask_BL = mask_padded(windows, last_BLD)
    start_BL = head.start(last_BLD).squeeze(-1) * (1 - mask_BL) - 1e30 * mask_BL
    chosen_BLD = last_BLD[torch.arange(len(windows)), starts_B].unsqueeze(1).expand_as(last_BLD)
    both_BLD = torch.tanh(head.end_dense(torch.cat([last_BLD, chosen_BLD], -1)))
    end_BL = head.end(head.end_norm(both_BLD)).squeeze(-1) * (1 - mask_BL) - 1e30 * mask_BL
    likely_BD = torch.einsum("bld,bl->bd", last_BLD, start_BL.softmax(-1))
    summary_BD = torch.tanh(head.answer_dense(torch.cat([likely_BD, last_BLD[:, 0]], -1)))
    logits_B = head.answer(summary_BD).squeeze(-1)
    missing_B = torch.tensor([float(window.answer is None) for window in windows])
    span = -(log_likelihood(start_BL, starts_B) + log_likelihood(end_BL, ends_B)) / 2
    return (span + F.binary_cross_entropy_with_logits(logits_B, missing_B) / 2).item()


@BOTH
def test_the_loss_is_the_published_one(tiny_folder, has_impossible):
    """Windows of several lengths, with and without their answers; the terms' means add up to it."""
    kind = build_kind(has_impossible=has_impossible, max_length=24)
    examples = write_questions(4, seed=1) + write_questions(
        4, seed=2, num_others=5, impossible_share=0.5 * has_impossible
    )
    windows = kind.encode(examples, load_vocabulary(tiny_folder))
    model = build_small(kind)
    batch = kind.build_batch(windows)
    terms, counts = kind.compute_terms(model, batch), kind.count(batch)
    assert tuple(terms) == tuple(counts) == kind.names
    ours = sum(total.item() / counts[name] for name, (total, _) in terms.items())
    assert ours == pytest.approx(compute_published(model, kind, windows), rel=1e-5)


@BOTH
def test_batches_without_any_answer_reach_every_weight(tiny_folder, has_impossible):
    """Of many processes each waits for every gradient; and an empty context has a finite loss."""
    kind = build_kind(has_impossible=has_impossible)
    model = build_small(kind).train()
    example = SpanExample("x", QUESTION, "", is_impossible=True)
    batch = kind.build_batch(kind.encode([example], load_vocabulary(tiny_folder)))
    total = torch.stack([total for total, _ in kind.compute_terms(model, batch).values()]).sum()
    assert total.isfinite()
    total.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


def test_hits_are_windows_with_both_ends_right(tiny_folder):
    """The model's own favourites as answers; then one of its two ends is moved, in two windows."""
    kind = build_kind(has_impossible=False)
    batch = kind.build_batch(kind.encode(write_questions(6, seed=1), load_vocabulary(tiny_folder)))
    model = build_small(kind)
    tokens = batch.build_tokens()
    ends = model.head("span")(model(tokens).last_TD)
    rows = [[part.argmax().item() for part in logits.split(tokens.lengths)] for logits in ends]
    answers_B2 = np.array(rows).T.copy()
    for num_wrong, (row, end) in enumerate([(0, 0), (0, 0), (4, 1)]):
        answers_B2[row, end] += num_wrong > 0
        moved = replace(batch, answers=replace(batch.answers, answers_B2=answers_B2))
        assert int(kind.compute_terms(model, moved)["span"][1]) == 6 - num_wrong


def test_an_answer_is_described_for_a_person():
    example = SpanExample("x", "Who?", "the old man and the sea")
    spans = (FoundSpan("old man", 4, 11, 2.0), FoundSpan("man", 8, 11, 2.0))
    described = SpanKind().describe(SpanAnswer(spans), example)
    assert described == {
        "id": "x", "answer": "old man", "start": 4, "end": 11, "score": 2.0,
        "probability": pytest.approx(0.5),
    }  # fmt: skip
    kind = SpanKind(has_impossible=True, threshold=1.5)
    assert kind.describe(SpanAnswer(spans, 1.5), example) == {**described, "null_odds": 1.5}
    assert kind.describe(SpanAnswer(spans, 1.6), example) == {
        "id": "x", "answer": "", "start": None, "end": None, "score": None, "probability": None,
        "null_odds": 1.6,
    }  # fmt: skip
    assert replace(kind, threshold=None).describe(SpanAnswer(spans, 9.0), example)["answer"] == "old man"


def test_the_facts_of_a_folder_make_the_kind(tiny_folder):
    facts = TaskConfig(
        task="squad-2.0", kind="spans", max_length=40, stride=7, max_question=9, max_answer=3,
        has_impossible=True, threshold=-0.5,
    )  # fmt: skip
    assert build_from_facts(facts) == SpanKind(True, 40, 7, 9, 3, -0.5)
    too_short = build_from_facts(facts.model_copy(update={"max_length": 12}))
    with pytest.raises(InputError, match="max_length is 12, and at least 13"):
        too_short.encode(write_questions(1, seed=1), load_vocabulary(tiny_folder))


def test_a_question_that_is_too_long_is_cut_and_counted_once(tiny_folder):
    tokenizer = load_vocabulary(tiny_folder)
    context = "he found the dog . " * 20
    examples = [SpanExample("long", QUESTION * 9, context), SpanExample("short", QUESTION, context)]
    kind = build_kind(has_impossible=False)
    windows = kind.encode(examples, tokenizer)
    assert sum(window.question.example.id == "long" for window in windows) > 2
    assert [window.question.example.id for window in windows if kind.is_cut(window)] == ["long"]


LENGTHS = (30, 9, 5, 12)
# The third window has no context, and the last has one piece that is better in another window, and one not.
CONTEXTS = [(6, 29), (4, 8), (4, 4), (5, 7)]
OWNS = [(6, 20), (4, 8), (4, 4), (6, 7)]
TOKENS = Tokens.from_lists([[1] * length for length in LENGTHS])


def build_places() -> SpanPlaces:
    contexts, owns = (np.array(ranges, dtype=np.int64) for ranges in (CONTEXTS, OWNS))
    return SpanPlaces(np.zeros_like(contexts), contexts, owns)


@pytest.mark.parametrize("max_answer", [1, 4, 100])
def test_every_span_is_looked_at(max_answer):
    generator = torch.Generator().manual_seed(max_answer)
    start, end = (torch.randn(sum(LENGTHS), generator=generator) for _ in range(2))
    found = search_spans(start, end, TOKENS, places=build_places(), max_answer=max_answer, num_best=20)
    rows = zip(start.split(LENGTHS), end.split(LENGTHS), CONTEXTS, OWNS, found, strict=True)
    for starts, ends, (_, context_end), (own_first, own_end), spans in rows:
        every = {
            (first, last): (starts[first] + ends[last]).item()
            for first in range(own_first, own_end)
            for last in range(first, min(context_end, first + max_answer))
        }
        best = sorted(every, key=lambda place: -every[place])[:20]
        assert [(span.first, span.last) for span in spans] == best
        assert [span.score for span in spans] == pytest.approx([every[place] for place in best])


def test_a_beam_loses_what_is_no_answer():
    """No answer at all, the wrong way round, too long, better in another window, an empty slot."""
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
    places = SpanPlaces(np.zeros_like(owns), owns, owns)
    first, second = list_beam(beam, places=places, max_answer=3, num_best=20)
    assert first == (PlacedSpan(8, 8, pytest.approx(-0.5)), PlacedSpan(8, 9, pytest.approx(-0.6)))
    assert second == (PlacedSpan(5, 5, pytest.approx(-1.5)), PlacedSpan(5, 6, pytest.approx(-2.5)))
    (only, *_), _ = list_beam(beam, places=places, max_answer=3, num_best=1)
    assert only == first[0]


def test_the_question_and_separators_are_no_place_for_an_answer():
    allowed = mark_allowed(TOKENS, build_places()).split(LENGTHS)
    for flags, (first, end) in zip(allowed, CONTEXTS, strict=True):
        assert flags.nonzero().flatten().tolist() == [0, *range(first, end)]
