"""`albert.load_encoder`: a torch module from lists of ids to hidden states."""

import numpy as np
import pytest
import torch

import albert
from albert.errors import InputError
from albert.inference.sequence_encoder import SequenceEncoder
from tests.conftest import rejects

IDS = [[2, 8, 9, 3], [2, 3], [2, 30, 31, 32, 33, 3], [2, 40, 41, 3]]


@pytest.fixture
def encoder(tiny_folder) -> SequenceEncoder:
    return albert.load_encoder(tiny_folder)


def test_hidden_states_do_not_depend_on_the_other_sequences(encoder):
    with torch.no_grad():
        for ids, together in zip(IDS, encoder(IDS), strict=True):
            (alone,) = encoder([ids])
            assert alone.shape == (len(ids), 32)
            assert (alone - together).abs().max() <= 1e-6 * together.abs().max()


def test_states_depend_on_segments_and_depth(encoder):
    with torch.no_grad():
        (plain,) = encoder(IDS[:1])
        (second,) = encoder(IDS[:1], segments=[[0, 0, 1, 1]])
        (shallow,) = encoder(IDS[:1], depth=1)
        (deep,) = encoder(IDS[:1], depth=9)
    for other in (second, shallow, deep):
        assert (plain - other).abs().max() > 0.01


def test_it_can_be_trained(encoder):
    assert not encoder.training
    assert len(encoder.model.heads) == 0
    encoder.train()
    weights = dict(encoder.model.encoder.named_parameters())
    before = {name: weight.detach().clone() for name, weight in weights.items()}
    losses = []
    for _ in range(5):
        loss = sum((state.mean(0) - 0.5).square().sum() for state in encoder(IDS))
        gradients = torch.autograd.grad(loss, list(weights.values()))
        with torch.no_grad():
            for weight, gradient in zip(weights.values(), gradients, strict=True):
                weight -= 1e-4 * gradient
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert [name for name, weight in weights.items() if torch.equal(weight, before[name])] == []


@pytest.mark.parametrize(
    ("ids", "segments", "values"),
    [
        ([[2, 3], [2, 999, 3]], None, ("sequence 2", "999")),
        ([[2, -1, 3]], None, ("sequence 1", "-1")),
        ([[2, 3.5]], None, ("ids", "item 1")),
        ([2, 3], None, ("item 1", "2")),
        ([[2, 3]], [[0, 2]], ("segments", "sequence 1", "2")),
        ([[2, 3]], [[0]], ("segments",)),
        ([], None, ()),
        ([[2, 3], []], None, ()),
        ([[2] * 41], None, ("41 tokens",)),
    ],
)
def test_wrong_ids_are_rejected(ids, segments, values, encoder):
    with rejects(InputError, *values):
        encoder(ids, segments=segments)


def test_tensors_and_arrays_of_ids_are_accepted(encoder):
    rows = [[2, 7, 3], [2, 9, 3]]
    expected = encoder(rows)
    numbers = [list(np.array(row)) for row in rows]
    for same in (torch.tensor(rows), np.array(rows), [torch.tensor(row) for row in rows], numbers):
        for one, other in zip(expected, encoder(same), strict=True):
            assert torch.equal(one, other)
