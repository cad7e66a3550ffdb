"""`albert.load_encoder`: lists of ids in, hidden states out, as an ordinary torch module."""

import numpy as np
import pytest
import torch

import albert
from albert.errors import InputError
from albert.inference.sequence_encoder import SequenceEncoder

IDS = [[2, 8, 9, 3], [2, 3], [2, 30, 31, 32, 33, 3], [2, 40, 41, 3]]


@pytest.fixture
def encoder(tiny_folder) -> SequenceEncoder:
    return albert.load_encoder(tiny_folder)


def test_each_sequence_gets_its_hidden_states(encoder):
    states = encoder(IDS)
    assert [tuple(state.shape) for state in states] == [(4, 32), (2, 32), (6, 32), (4, 32)]


def test_the_company_of_a_sequence_does_not_matter(encoder):
    with torch.no_grad():
        for ids, together in zip(IDS, encoder(IDS), strict=True):
            (alone,) = encoder([ids])
            assert (alone - together).abs().max() <= 1e-6 * together.abs().max()


def test_it_is_the_model_that_predicts(encoder, tiny_folder):
    predictor = albert.load(tiny_folder)
    ids = predictor.tokenizer.build_sequence(predictor.tokenizer.encode("the old ship")).ids
    with torch.no_grad():
        expected = encoder([ids])[0].mean(0)
    assert torch.allclose(torch.from_numpy(predictor.embed(["the old ship"])[0]), expected, atol=1e-6)


def test_segments_and_depth_count(encoder):
    with torch.no_grad():
        (plain,) = encoder(IDS[:1])
        (second,) = encoder(IDS[:1], segments=[[0, 0, 1, 1]])
        (shallow,) = encoder(IDS[:1], depth=1)
        (deep,) = encoder(IDS[:1], depth=9)
    for other in (second, shallow, deep):
        assert (plain - other).abs().max() > 0.01


def test_it_comes_without_heads_and_in_evaluation_mode(encoder):
    assert not encoder.training
    assert len(encoder.model.heads) == 0


def test_it_trains(encoder):
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


def test_its_weights_move_like_those_of_any_module(encoder, tiny_folder):
    other = albert.load_encoder(tiny_folder)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    other.load_state_dict(encoder.state_dict())
    with torch.no_grad():
        assert torch.equal(other(IDS)[2], encoder(IDS)[2])


@pytest.mark.parametrize(
    ("ids", "segments", "said"),
    [
        ([[2, 3], [2, 999, 3]], None, "sequence 2 has 999"),
        ([[2, -1, 3]], None, "sequence 1 has -1"),
        ([[2, 3.5]], None, "ids: expected a list of lists of integers, but item 1"),
        ([[2, 3]], [[0, 2]], "segments must be from 0 to 1; sequence 1 has 2"),
        ([[2, 3]], [[0]], "ids and segments have different lengths"),
        ([], None, "at least one"),
        ([[2, 3], []], None, "at least one"),
        ([[2] * 41], None, "a sequence has 41 tokens"),
    ],
)
def test_ids_that_it_cannot_read_are_rejected(ids, segments, said, encoder):
    with pytest.raises(InputError) as caught:
        encoder(ids, segments=segments)
    assert said in str(caught.value)


def test_tensors_and_arrays_of_ids_are_taken_too(tiny_folder):
    encoder = albert.load_encoder(tiny_folder)
    rows = [[2, 7, 3], [2, 9, 3]]
    expected = encoder(rows)
    numbers = [list(np.array(row)) for row in rows]
    for same in (torch.tensor(rows), np.array(rows), [torch.tensor(row) for row in rows], numbers):
        for one, other in zip(expected, encoder(same), strict=True):
            assert torch.equal(one, other)
    with pytest.raises(InputError, match="item 1 is 2"):
        encoder([2, 3])
