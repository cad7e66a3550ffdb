"""LAMB against its definition written out, and which weights decay."""

import pytest
import torch
from torch import nn

from albert.model.albert_model import build_model
from albert.model.presets import build_preset
from albert.training.optimizers import Lamb, build_optimizer, group_parameters
from albert.training.settings import OptimizerSettings


def lamb_by_hand(weight, grads, *, lr, decay, is_adapted, beta1=0.9, beta2=0.999, eps=1e-6):
    """The update as the paper's code has it, one tensor, in double precision."""
    w = weight.double()
    m, v = torch.zeros_like(w), torch.zeros_like(w)
    for grad in grads:
        g = grad.double()
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        update = m / (v.sqrt() + eps) + decay * w
        ratio = 1.0
        if is_adapted and w.norm() > 0 and update.norm() > 0:
            ratio = w.norm() / update.norm()
        w = w - lr * ratio * update
    return w


@pytest.mark.parametrize("shape", [(7, 5), (300, 64), (1, 1)])
def test_lamb_is_its_definition(shape):
    torch.manual_seed(1)
    weight, bias = nn.Parameter(torch.randn(shape)), nn.Parameter(torch.randn(shape[0]))
    before = weight.detach().clone(), bias.detach().clone()
    optimizer = Lamb(
        [
            {"params": [weight], "weight_decay": 0.01, "is_adapted": True},
            {"params": [bias], "weight_decay": 0.0, "is_adapted": False},
        ],
        lr=0.02,
    )
    grads = [(torch.randn(shape), torch.randn(shape[0])) for _ in range(20)]
    for weight_grad, bias_grad in grads:
        weight.grad, bias.grad = weight_grad.clone(), bias_grad.clone()
        optimizer.step()
    wanted = lamb_by_hand(before[0], [w for w, _ in grads], lr=0.02, decay=0.01, is_adapted=True)
    assert (weight.double() - wanted).abs().max() < 1e-6 * max(1.0, float(wanted.abs().max()))
    wanted = lamb_by_hand(before[1], [b for _, b in grads], lr=0.02, decay=0.0, is_adapted=False)
    assert (bias.double() - wanted).abs().max() < 1e-6 * max(1.0, float(wanted.abs().max()))


def test_a_weight_or_an_update_of_zero_has_the_ratio_one():
    zero = nn.Parameter(torch.zeros(3, 3))
    still = nn.Parameter(torch.ones(3, 3))
    optimizer = Lamb([zero, still], lr=0.5, weight_decay=0.0)
    zero.grad, still.grad = torch.ones(3, 3), torch.zeros(3, 3)
    optimizer.step()
    wanted = -0.5 * 0.1 / (0.001**0.5 + 1e-6)  # lr · m / (√v + eps), no bias correction
    assert torch.allclose(zero, torch.full((3, 3), wanted))
    assert torch.equal(still, torch.ones(3, 3))


def test_lamb_moves_a_matrix_by_a_share_of_its_size():
    weight = nn.Parameter(torch.randn(40, 40))
    before = weight.detach().clone()
    optimizer = Lamb([weight], lr=0.01)
    weight.grad = torch.randn(40, 40) * 1e-3
    optimizer.step()
    assert float((weight.detach() - before).norm() / before.norm()) == pytest.approx(0.01, rel=1e-4)


def test_matrices_decay_and_vectors_do_not():
    model = build_model(build_preset("nano"), heads={"mlm": None, "sop": None})
    decayed, others = group_parameters(model, weight_decay=0.01)
    names = {id(weight): name for name, weight in model.named_parameters()}
    assert all("norm" not in names[id(w)] and "bias" not in names[id(w)] for w in decayed["params"])
    assert all("norm" in names[id(w)] or "bias" in names[id(w)] for w in others["params"])
    assert (decayed["weight_decay"], others["weight_decay"]) == (0.01, 0.0)
    count = sum(w.numel() for group in (decayed, others) for w in group["params"])
    assert count == sum(w.numel() for w in model.parameters())  # shared weights once


def test_adamw_is_torchs_with_the_published_constants():
    model = build_model(build_preset("nano"), heads={"mlm": None})
    optimizer = build_optimizer(model, OptimizerSettings(name="adamw", learning_rate=0.001))
    assert isinstance(optimizer, torch.optim.AdamW)
    group = optimizer.param_groups[0]
    assert (group["betas"], group["eps"], group["fused"]) == ((0.9, 0.999), 1e-6, True)
