"""Heads without a counterpart in `transformers`, and what all heads share."""

import pytest
import torch

from albert.errors import InputError
from albert.model.albert_model import build_model
from albert.model.config import build_preset
from albert.model.heads import pool_mean, pool_segments
from albert.model.initialization import init_sinusoidal
from albert.model.tokens import Tokens
from tests.conftest import rejects

SHAPE = build_preset("nano", overrides=["vocab_size=60", "num_hidden_layers=2"])
LENGTHS = (9, 4, 12)


@pytest.fixture(scope="module")
def tokens():
    generator = torch.Generator().manual_seed(4)
    return Tokens.from_lists([torch.randint(60, (n,), generator=generator).tolist() for n in LENGTHS])


@pytest.fixture(scope="module")
def model():
    return build_model(SHAPE, heads={"mlm": None, "beam_span": None})


@pytest.fixture(scope="module")
def allowed(tokens):
    """Answers are not in the first two tokens of a sequence and not in its last."""
    rows = [[False, False, *[True] * (n - 3), False] for n in LENGTHS]
    return torch.tensor([flag for row in rows for flag in row])


def compute_end(head, x, start):
    """The paper's formula for one sequence: linear([h; h_start]) → tanh → norm → linear."""
    pairs = torch.cat([x, x[start].expand_as(x)], dim=-1)
    return head.end(head.end_norm(torch.tanh(head.end_dense(pairs)))).squeeze(-1)


def compute_answer(head, x, start_logits):
    likely = torch.softmax(start_logits, 0) @ x
    return head.answer(torch.tanh(head.answer_dense(torch.cat([likely, x[0]])))).squeeze(-1)


def test_the_output_table_of_mlm_is_the_word_embedding():
    fresh = build_model(SHAPE, heads={"mlm": None})
    head = fresh.head("mlm")
    logits = head(torch.randn(2, SHAPE.hidden_size), fresh.encoder.embeddings.word.weight)
    logits.sum().backward()
    assert fresh.encoder.embeddings.word.weight.grad.abs().sum() > 0
    assert not any(parameter.shape == (60, 128) for parameter in head.parameters())


def test_beam_spans_in_training_follow_the_formula(model, tokens, allowed):
    head = model.head("beam_span")
    last = model(tokens).last_TD
    starts = torch.tensor([3, 2, 7])
    found = head(last, tokens, allowed_T=allowed, true_starts_B=starts)
    parts = zip(
        last.split(LENGTHS), allowed.split(LENGTHS), starts, found.start_T.split(LENGTHS),
        found.end_T.split(LENGTHS), found.unanswerable_B, strict=True,
    )  # fmt: skip
    for x, may, start, start_logits, end_logits, unanswerable in parts:
        assert torch.equal(torch.isfinite(start_logits), may)
        assert torch.equal(torch.isfinite(end_logits), may)
        torch.testing.assert_close(start_logits[may], head.start(x).squeeze(-1)[may])
        torch.testing.assert_close(end_logits[may], compute_end(head, x, start)[may], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(unanswerable, compute_answer(head, x, start_logits), atol=1e-5, rtol=1e-5)


def test_the_beam_is_that_of_an_exhaustive_search(model, tokens, allowed):
    head = model.head("beam_span")
    last = model(tokens).last_TD
    beam = head.search(last, tokens, allowed_T=allowed, num_starts=3, num_ends=2)
    for i, (x, may) in enumerate(zip(last.split(LENGTHS), allowed.split(LENGTHS), strict=True)):
        start_logits = head.start(x).squeeze(-1).masked_fill(~may, -torch.inf)
        log_probs = start_logits.log_softmax(0)
        best = log_probs.argsort(descending=True)[: min(3, int(may.sum()))]
        assert beam.start_indices_BS[i, : len(best)].tolist() == best.tolist()
        for s, start in enumerate(best):
            end_log_probs = compute_end(head, x, start).masked_fill(~may, -torch.inf).log_softmax(0)
            ends = end_log_probs.argsort(descending=True)[: min(2, int(may.sum()))]
            assert beam.end_indices_BSZ[i, s, : len(ends)].tolist() == ends.tolist()
            torch.testing.assert_close(
                beam.end_log_probs_BSZ[i, s, : len(ends)], end_log_probs[ends], atol=1e-5, rtol=1e-5
            )
    # The second sequence has one allowed token: its other slots are empty, and still inside it.
    assert beam.start_log_probs_BS[1].isinf().tolist() == [False, True, True]
    assert beam.start_indices_BS[1].max() < 4


def test_a_window_without_allowed_tokens_is_unanswerable(model, tokens):
    none_allowed = torch.zeros(sum(LENGTHS), dtype=torch.bool)
    beam = model.head("beam_span").search(model(tokens).last_TD, tokens, allowed_T=none_allowed)
    assert beam.start_log_probs_BS.isinf().all()
    assert beam.unanswerable_B.isfinite().all()


def test_segments_are_compared_by_the_means_of_their_texts():
    """A pair, a text, a pair without a second text, and a pair of one token each; [CLS] is 2, [SEP] is 3."""
    ids = [[2, 5, 6, 7, 3, 8, 9, 3], [2, 5, 3], [2, 5, 6, 3, 3], [2, 5, 3, 6, 3]]
    segments = [[0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0, 1, 1]]
    x = torch.randn(21, 4, requires_grad=True)
    found = pool_segments(x, Tokens.from_lists(ids, segments))
    rows = x.split([8, 3, 5, 5])
    texts = {0: (rows[0][1:4], rows[0][5:7]), 3: (rows[3][1:2], rows[3][3:4])}
    for i, row in enumerate(rows):
        u, v = (text.mean(0) for text in texts[i]) if i in texts else (torch.zeros(4), torch.zeros(4))
        torch.testing.assert_close(found[i], torch.cat([row.mean(0), (u - v).abs(), u * v]))
    torch.testing.assert_close(pool_mean(x, Tokens.from_lists(ids)), found[:, :4])
    found[:, 4:].sum().backward()
    has_gradient = [i for i in range(21) if x.grad[i].any()]
    assert has_gradient == [1, 2, 3, 5, 6, 17, 19]


def test_means_are_computed_in_float32(tokens):
    x = torch.randn(sum(LENGTHS), 4).bfloat16()
    torch.testing.assert_close(pool_mean(x, tokens), pool_mean(x.float(), tokens), atol=0, rtol=0)


def test_a_missing_head_or_pooler_is_named(tokens):
    bare = build_model(SHAPE, heads={"mlm": None})
    with rejects(InputError, "sop", "mlm"):
        bare.head("sop")
    with rejects(InputError, "pooler"):
        bare.pool(bare(tokens).last_TD, tokens)
    with rejects(InputError, "'mlmm'"):
        build_model(SHAPE, heads={"mlmm": None})
    with rejects(InputError, "labels"):
        build_model(SHAPE, heads={"classification": None})


@pytest.mark.parametrize("name", ["classification", "sop"])
def test_in_bf16_logits_are_not_rounded_to_eight_bits(tokens, name):
    """Values near 1,234 would be multiples of 8, and classes would tie."""
    model = build_model(SHAPE, heads={name: 2 if name == "classification" else None}).eval()
    head = model.head(name)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        head.linear.bias.fill_(1234.0)
        logits = head(model.pool(model(tokens).last_TD, tokens))
    assert logits.dtype == torch.float32
    assert (logits != logits.bfloat16()).all()


@pytest.mark.parametrize("shift", [-3, 1, 7])
def test_a_shift_of_sinusoidal_positions_is_a_linear_map(shift):
    weight = torch.empty(128, 32)
    init_sinusoidal(weight, std=0.02)
    assert float(weight.square().mean().sqrt()) == pytest.approx(0.02, rel=1e-2)
    here = torch.arange(10, 110)
    found = torch.linalg.lstsq(weight[here].double(), weight[here + shift].double()).solution
    assert torch.allclose(weight[here].double() @ found, weight[here + shift].double(), atol=1e-6)
    noise = torch.randn(128, 32, dtype=torch.float64) * 0.02
    found = torch.linalg.lstsq(noise[here], noise[here + shift]).solution
    assert (noise[here] @ found - noise[here + shift]).abs().mean() > 0.005
