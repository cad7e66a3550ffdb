"""Waves instead of random position embeddings: a shift is one linear map, wherever it happens."""

import pytest
import torch

from albert.model.albert_model import spread_positions


@pytest.mark.parametrize("shift", [-3, 1, 7])
def test_a_shift_of_positions_is_one_linear_map(shift):
    weight = torch.empty(128, 32)
    spread_positions(weight, std=0.02)
    here = torch.arange(10, 110)
    found = torch.linalg.lstsq(weight[here].double(), weight[here + shift].double()).solution
    assert torch.allclose(weight[here].double() @ found, weight[here + shift].double(), atol=1e-6)
    noise = torch.randn(128, 32, dtype=torch.float64) * 0.02
    found = torch.linalg.lstsq(noise[here], noise[here + shift]).solution
    assert (noise[here] @ found - noise[here + shift]).abs().mean() > 0.005


def test_waves_are_as_large_as_random_weights_and_near_positions_are_alike():
    weight = torch.empty(512, 128)
    spread_positions(weight, std=0.05)
    assert float(weight.square().mean().sqrt()) == pytest.approx(0.05, rel=1e-3)
    norms = weight / weight.norm(dim=1, keepdim=True)
    likeness = [float((norms[:-d] * norms[d:]).sum(1).mean()) for d in (1, 4, 16)]
    assert likeness[0] > likeness[1] > likeness[2]
    assert likeness[0] > 0.9


def test_an_odd_width_leaves_one_column_as_it_was():
    weight = torch.full((4, 5), 7.0)
    spread_positions(weight, std=0.02)
    assert (weight[:, 4] == 7.0).all()
