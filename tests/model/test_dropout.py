"""Dropout is applied in training mode at the positions of the paper, and nowhere else."""

import pytest
import torch
from torch import nn

from albert.model.albert_model import build_model
from albert.model.blocks import AttentionBlock, FeedForwardBlock, attend_with_probabilities
from albert.model.config import build_preset
from albert.model.encoder import Embeddings
from albert.model.heads import ClassificationHead
from albert.model.tokens import build_layout

RATE = 0.25
RATES = (f"hidden_dropout_prob={RATE}", f"classifier_dropout_prob={RATE}", "attention_probs_dropout_prob=0")
DROPPED = build_preset("nano", overrides=RATES)
TOKENS, WIDTH = 400, DROPPED.hidden_size


def assert_dropped(x: torch.Tensor) -> None:
    """Of ones, a share near RATE is zero and the rest is scaled to keep the mean."""
    assert x.unique().tolist() == [0.0, pytest.approx(1 / (1 - RATE))]
    share = (x == 0).float().mean().item()
    # Five deviations of a binomial.
    assert abs(share - RATE) < 5 * (RATE * (1 - RATE) / x.numel()) ** 0.5


def ones_from(linear: nn.Linear) -> None:
    """Make the output of a linear map one."""
    nn.init.zeros_(linear.weight)
    nn.init.ones_(linear.bias)


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def test_on_the_embeddings_after_their_norm():
    part = Embeddings(DROPPED).train()
    nn.init.zeros_(part.norm.weight)
    nn.init.ones_(part.norm.bias)
    part.map = None
    zeros = torch.zeros(TOKENS, dtype=torch.long)
    assert_dropped(part(zeros, zeros, zeros))
    assert torch.equal(part.eval()(zeros, zeros, zeros), torch.ones(TOKENS, 128))


@pytest.mark.parametrize("block_class", [AttentionBlock, FeedForwardBlock])
def test_on_the_output_of_a_block_before_the_residual(block_class):
    block = block_class(DROPPED).train()
    block.norm = nn.Identity()
    ones_from(block.output)
    x = torch.zeros(TOKENS, WIDTH)
    inputs = (x, build_layout((TOKENS,))) if block_class is AttentionBlock else (x,)
    assert_dropped(block(*inputs))
    assert torch.equal(block.eval()(*inputs), torch.ones_like(x))


@pytest.mark.parametrize("is_visible", [False, True])
def test_on_the_attention_probabilities(is_visible):
    """With equal keys each of L tokens has probability 1/L, so a mean of ones counts the kept ones."""
    shape = build_preset("nano", overrides=[f"attention_probs_dropout_prob={RATE}"])
    block = AttentionBlock(shape).train()
    block.norm = nn.Identity()
    for part in (block.query, block.key):
        nn.init.zeros_(part.weight)
    ones_from(block.value)
    nn.init.eye_(block.output.weight)
    nn.init.zeros_(block.output.bias)
    length = 20
    layout = build_layout((length,) * 20)
    mixed = block(torch.zeros(400, WIDTH), layout, [] if is_visible else None)
    per_head = mixed.view(400, 4, -1)[:, :, 0]  # the columns of a head are equal
    kept = per_head * (1 - RATE) * length
    torch.testing.assert_close(kept, kept.round(), atol=1e-4, rtol=0)
    assert len(kept.round().unique()) > 5
    assert kept.mean().item() == pytest.approx(length * (1 - RATE), rel=0.02)
    block.eval()
    torch.testing.assert_close(block(torch.zeros(400, WIDTH), layout), torch.ones(400, WIDTH))


def test_visible_probabilities_are_those_before_dropout():
    q = torch.randn(6, 2, 4)
    _, probabilities = attend_with_probabilities(q, q, q, layout=build_layout((6,)), dropout=0.5)
    torch.testing.assert_close(probabilities[0].sum(-1), torch.ones(2, 6))


def test_before_a_classifier_and_not_before_sentence_order():
    head = ClassificationHead(DROPPED, num_labels=WIDTH).train()
    nn.init.eye_(head.linear.weight)
    nn.init.zeros_(head.linear.bias)
    assert_dropped(head(torch.ones(TOKENS, WIDTH)))
    assert torch.equal(head.eval()(torch.ones(2, WIDTH)), torch.ones(2, WIDTH))
    sop = build_model(DROPPED, heads={"sop": None}).head("sop").train()
    x = torch.randn(5, WIDTH)
    assert torch.equal(sop(x), sop.eval()(x))
