"""LAMB, AdamW and Muon against their definitions, and which weights decay."""

import pytest
import torch
from torch import nn

from albert.errors import SettingsError
from albert.model.albert_model import build_model
from albert.model.config import ModelConfig, build_preset
from albert.model.tokens import Tokens
from albert.settings import build_settings
from albert.training.optimizers import (
    NUM_ITERATIONS,
    QUINTIC,
    Lamb,
    Muon,
    build_optimizer,
    group_parameters,
    orthogonalize,
)
from albert.training.settings import LoopSettings, OptimizerSettings


def compute_lamb(weight, grads, *, lr, decay, is_adapted, beta1=0.9, beta2=0.999, eps=1e-6):
    """The update of the paper's code for one tensor, in double precision."""
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


@pytest.mark.parametrize("shape", [(7, 5), (300, 64)])
def test_lamb_matches_its_definition(shape):
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
    expected = compute_lamb(before[0], [w for w, _ in grads], lr=0.02, decay=0.01, is_adapted=True)
    assert (weight.double() - expected).abs().max() < 1e-6 * max(1.0, float(expected.abs().max()))
    expected = compute_lamb(before[1], [b for _, b in grads], lr=0.02, decay=0.0, is_adapted=False)
    assert (bias.double() - expected).abs().max() < 1e-6 * max(1.0, float(expected.abs().max()))


def test_trust_ratio_is_one_for_zero_norms():
    zero = nn.Parameter(torch.zeros(3, 3))
    still = nn.Parameter(torch.ones(3, 3))
    optimizer = Lamb([{"params": [zero, still], "weight_decay": 0.0}], lr=0.5)
    zero.grad, still.grad = torch.ones(3, 3), torch.zeros(3, 3)
    optimizer.step()
    expected = -0.5 * 0.1 / (0.001**0.5 + 1e-6)  # lr · m / (√v + eps), no bias correction
    assert torch.allclose(zero, torch.full((3, 3), expected))
    assert torch.equal(still, torch.ones(3, 3))


def test_matrices_decay_and_vectors_do_not():
    model = build_model(build_preset("nano"), heads={"mlm": None, "sop": None})
    decayed, others = group_parameters(model, weight_decay=0.01)
    names = {id(weight): name for name, weight in model.named_parameters()}
    assert all("norm" not in names[id(w)] and "bias" not in names[id(w)] for w in decayed["params"])
    assert all("norm" in names[id(w)] or "bias" in names[id(w)] for w in others["params"])
    assert (decayed["weight_decay"], others["weight_decay"]) == (0.01, 0.0)
    count = sum(w.numel() for group in (decayed, others) for w in group["params"])
    assert count == sum(w.numel() for w in model.parameters())  # shared weights once


class Small(nn.Module):
    """An embedding, a map, vectors and a head with two outputs."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(50, 64)
        self.map = nn.Linear(64, 48)
        self.answer = nn.Linear(48, 2)

    def forward(self, ids):
        return self.answer(torch.tanh(self.map(self.table(ids))))


def build(**changes):
    return Muon(Small(), **{"lr": 0.01, "betas": (0.9, 0.98), "eps": 1e-6, "weight_decay": 0.1, **changes})


@pytest.mark.parametrize("shape", [(64, 64), (32, 128), (128, 32)])
def test_orthogonalize_equalizes_singular_values(shape):
    torch.manual_seed(1)
    left, _, right = torch.linalg.svd(torch.randn(shape), full_matrices=False)
    uneven = left @ torch.diag(torch.logspace(0, -1.5, min(shape))) @ right  # 30 to 1
    found = orthogonalize(uneven)
    sizes = torch.linalg.svdvals(found)
    assert sizes.min() > 0.6
    assert sizes.max() < 1.3
    assert torch.dist(found, left @ right) < 0.3 * torch.linalg.norm(left @ right)


def test_orthogonalize_stays_bounded_in_bf16():
    generator = torch.Generator().manual_seed(0)
    low_rank = torch.randn(384, 4, generator=generator) @ torch.randn(4, 128, generator=generator)
    with torch.autocast("cpu", torch.bfloat16):
        found = orthogonalize(low_rank + 1e-4 * torch.randn(384, 128, generator=generator))
    assert torch.linalg.matrix_norm(found.float(), 2) < 1.3


@pytest.mark.parametrize(("smallest", "is_tall"), [(-1.0, False), (-4.0, True)])
def test_wide_matrices_match_the_plain_iteration(smallest, is_tall):
    torch.manual_seed(4)
    left, _, right = torch.linalg.svd(torch.randn(64, 256), full_matrices=False)
    wide = left @ torch.diag(torch.logspace(0, smallest, 64)) @ right
    expected = wide.double() / wide.double().norm()
    for _ in range(NUM_ITERATIONS):
        gram = expected @ expected.T
        expected = QUINTIC[0] * expected + (QUINTIC[1] * gram + QUINTIC[2] * gram @ gram) @ expected
    found = orthogonalize(wide.T).T if is_tall else orthogonalize(wide)
    torch.testing.assert_close(found.double(), expected, atol=1e-4, rtol=1e-3)


def test_muon_step_of_a_map():
    optimizer = build()
    weight = optimizer.param_groups[-1]["params"][0]
    before, mean = weight.detach().clone(), torch.zeros_like(weight)
    for seed in range(3):
        grad = torch.randn(weight.shape, generator=torch.Generator().manual_seed(seed))
        weight.grad = grad.clone()
        optimizer.step()
        mean = 0.95 * mean + 0.05 * grad
        found = orthogonalize(0.05 * grad + 0.95 * mean)
        before = before * (1 - 0.01 * 0.1) - 0.01 * 0.2 * 64**0.5 * found
    torch.testing.assert_close(weight.detach(), before, atol=1e-6, rtol=1e-5)


def test_muon_groups():
    optimizer = build()
    tables, vectors, maps = (group["params"] for group in optimizer.param_groups)
    assert [tuple(weight.shape) for weight in maps] == [(48, 64)]
    assert [tuple(weight.shape) for weight in tables] == [(50, 64), (2, 48)]
    assert all(weight.ndim == 1 for weight in vectors)
    assert optimizer.param_groups[1]["weight_decay"] == 0.0


def test_other_weights_of_muon_follow_adamw():
    torch.manual_seed(2)
    models = [Small(), Small()]
    ids = torch.randint(50, (16,))
    settings = OptimizerSettings(name="adamw", learning_rate=0.01, weight_decay=0.1, beta2=0.98)
    optimizers = [
        build_optimizer(models[0], settings),
        build_optimizer(models[1], settings.model_copy(update={"name": "muon"})),
    ]
    for model, optimizer in zip(models, optimizers, strict=True):
        model(ids).square().sum().backward()
        optimizer.step()
    plain, muon = models
    assert torch.equal(plain.table.weight, muon.table.weight)
    assert torch.equal(plain.answer.weight, muon.answer.weight)
    assert torch.equal(plain.map.bias, muon.map.bias)
    assert not torch.equal(plain.map.weight, muon.map.weight)


def test_muon_rejects_fsdp():
    with pytest.raises(SettingsError, match="muon.*fsdp"):
        build_settings(
            LoopSettings, values={"strategy": "fsdp", "optimizer": {"name": "muon"}}, source="recipe"
        )


def test_unused_positions_do_not_decay():
    config = ModelConfig(
        vocab_size=50, embedding_size=32, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=64,
    )  # fmt: skip
    model = build_model(config, heads={}, seed=0)
    optimizer = Muon(model, lr=0.01, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.1)
    tables = model.encoder.embeddings
    positions, words = tables.position.weight.detach().clone(), tables.word.weight.detach().clone()
    for _ in range(3):
        optimizer.zero_grad()
        model.encoder(Tokens.from_lists([[2, 7, 8, 3]], [[0] * 4])).last_TD[:, :8].square().sum().backward()
        optimizer.step()
    assert torch.equal(tables.position.weight[4:], positions[4:])
    assert not torch.equal(tables.position.weight[:4], positions[:4])
    assert (tables.word.weight[20:].abs() < words[20:].abs()).all()
