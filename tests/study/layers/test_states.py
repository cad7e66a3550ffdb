"""Distances between a layer's input and output, on states and blocks that a hand can follow."""

import numpy as np
import pytest
import torch
from torch import nn

from albert.model.albert_model import build_model
from albert.model.config import ModelConfig
from albert.model.tokens import Tokens
from albert.study.layers.states import compare_states, draw_curve, sum_distances
from albert.text.tokenizer import InputSequence

CONFIG = ModelConfig(
    vocab_size=20,
    embedding_size=6,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=16,
    initializer_range=0.5,
)
SEQUENCES = [
    InputSequence(ids=ids, segments=(0,) * len(ids), spans=((0, 0),) * len(ids))
    for ids in ((2, 7, 8, 9, 3), (2, 11, 3), (2, 5, 6, 13, 14, 15, 3))
]


@pytest.mark.parametrize(
    ("before", "after", "l2", "cosine", "angle"),
    [
        ([3.0, 0.0], [0.0, 4.0], 5.0, 0.0, 90.0),
        ([1.0, 0.0], [3.0, 0.0], 2.0, 1.0, 0.0),
        ([1.0, 2.0], [-2.0, -4.0], 45**0.5, -1.0, 180.0),
        ([1.0, 0.0], [1.0, 3**0.5], 3**0.5, 0.5, 60.0),
        ([2.0, 1.0], [2.0, 1.0], 0.0, 1.0, 0.0),
    ],
)
def test_by_hand(before, after, l2, cosine, angle):
    found = compare_states(torch.tensor([before]), torch.tensor([after]))
    assert [float(found[name]) for name in ("l2", "cosine", "angle")] == pytest.approx(
        [l2, cosine, angle], abs=1e-5
    )


def build_bare_model(*, sign):
    """Blocks that add nothing: a layer is its norms alone, the last of which may turn everything round."""
    model = build_model(CONFIG, heads={})
    for blocks in (model.encoder.attention, model.encoder.ffn):
        for module in blocks.modules():
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.weight)
                nn.init.zeros_(module.bias)
    norms = [module for module in model.encoder.ffn.modules() if isinstance(module, nn.LayerNorm)]
    nn.init.constant_(norms[-1].weight, sign)
    return model


def normalise(rows):
    centred = rows - rows.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True))


def test_a_layer_that_only_normalises_has_its_equilibrium_after_one_step():
    model = build_bare_model(sign=1.0)
    found = sum_distances(model, SEQUENCES, depth=9)
    tokens = Tokens.from_lists([sequence.ids for sequence in SEQUENCES])
    with torch.no_grad():  # what the first layer reads: three tables, a norm, and the map from E to H
        embedded = model.encoder.embeddings(tokens.ids_T, tokens.segments_T, tokens.positions_T).numpy()
    assert embedded.shape == (15, 8)
    moved = np.linalg.norm(normalise(embedded) - embedded, axis=-1)
    expected = [part.sum() for part in np.split(moved, np.cumsum(tokens.lengths)[:-1])]
    assert found["l2"][:, 0] == pytest.approx(expected, rel=1e-4)
    assert found["l2"][:, 1:] == pytest.approx(0.0, abs=1e-4)
    counts = np.array(tokens.lengths, np.float64)
    assert draw_curve(found["l2"], counts).course == "settles"


def test_a_layer_that_turns_everything_round_never_settles():
    found = sum_distances(build_bare_model(sign=-1.0), SEQUENCES, depth=9)
    counts = np.array([len(sequence.ids) for sequence in SEQUENCES], np.float64)
    curves = {name: draw_curve(sums, counts) for name, sums in found.items()}
    # A normalised state of 8 numbers has length √8, and goes to its opposite.
    assert curves["l2"].means[1:] == pytest.approx([2 * 8**0.5] * 8, rel=1e-4)
    assert curves["angle"].means[1:] == pytest.approx([180.0] * 8, abs=0.1)
    assert curves["cosine"].means[1:] == pytest.approx([-1.0] * 8)
    assert curves["l2"].course == curves["angle"].course == "keeps a level"


def test_a_mean_is_over_tokens_and_its_interval_over_sequences():
    # Ten tokens at distance 1 and thirty at 3: the mean is 2.5, and with either sequence alone 1 or 3.
    curve = draw_curve(np.array([[10.0], [90.0]]), np.array([10.0, 30.0]))
    assert curve.means == (2.5,)
    assert (curve.lows, curve.highs) == ((1.0,), (3.0,))
    assert (curve.roughness, curve.change, curve.course) == (None, None, "too short to tell")
    alike = draw_curve(np.full((5, 6), 4.0), np.full(5, 2.0))
    assert alike.lows == alike.means == alike.highs == (2.0,) * 6


def test_the_first_layer_can_be_left_out_of_the_roughness():
    curve = draw_curve(np.tile([9.0, 2.0, 1.0, 2.0], (3, 1)), np.ones(3))
    assert curve.roughness.value == pytest.approx((6.0 + 2.0) / 2 / 3.5)
    assert curve.inner_roughness.value == pytest.approx(2.0 / (5 / 3))
