"""Optimizers: LAMB as published with ALBERT, AdamW, and Muon."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import ParamsT

from albert.model.encoder import Embeddings
from albert.training.settings import OptimizerSettings

MOMENTUM = 0.95
NUM_ITERATIONS = 5
# Keller Jordan's quintic: steep at 0, it moves all but tiny singular values to between 0.7 and 1.2.
QUINTIC = (3.4445, -4.7750, 2.0315)
# An orthogonal A × B matrix has entries of about 1 / √max(A, B); AdamW changes each by about 0.2 lr.
UPDATE_RMS = 0.2
MIN_MATRIX_SIZE = 32


def build_optimizer(model: nn.Module, settings: OptimizerSettings) -> torch.optim.Optimizer:
    """Build the optimizer of all trainable weights of a model."""
    betas = settings.beta1, settings.beta2
    options: dict[str, Any] = {"lr": settings.learning_rate, "betas": betas, "eps": settings.eps}
    if settings.name == "muon":
        return Muon(model, weight_decay=settings.weight_decay, **options)
    groups = group_parameters(model, weight_decay=settings.weight_decay)
    if settings.name == "lamb":
        return Lamb(groups, **options)
    return torch.optim.AdamW(groups, fused=True, **options)


def group_parameters(model: nn.Module, *, weight_decay: float) -> list[dict[str, Any]]:
    """Group weights: matrices decay and are adapted by layer, vectors (biases and LayerNorms) are not."""
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    matrices = [weight for weight in trained if weight.ndim > 1]
    vectors = [weight for weight in trained if weight.ndim <= 1]
    return [
        {"params": matrices, "weight_decay": weight_decay, "is_adapted": True},
        {"params": vectors, "weight_decay": 0.0, "is_adapted": False},
    ]


class Lamb(torch.optim.Optimizer):
    """LAMB as ALBERT was trained with it (You et al., 2019, and the published code).

    Each matrix moves by lr · ‖w‖ / ‖update‖ · update, where update = m / (√v + eps) + decay · w; there is
    no bias correction. Where a norm is 0, and for the weights that do not decay, the ratio is 1.
    """

    def __init__(
        self, params: ParamsT, *, lr: float, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-6
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.01, "is_adapted": True}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        assert closure is None, "closures are not supported"
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if weights:
                self._update(weights, group)

    def _update(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        # One kernel launch for a list of tensors.
        grads = [weight.grad for weight in weights if weight.grad is not None]
        for weight in weights:
            if not self.state[weight]:
                for name in ("exp_avg", "exp_avg_sq"):
                    self.state[weight][name] = torch.zeros_like(weight)
        means = [self.state[weight]["exp_avg"] for weight in weights]
        squares = [self.state[weight]["exp_avg_sq"] for weight in weights]
        beta1, beta2 = group["betas"]
        torch._foreach_lerp_(means, grads, 1.0 - beta1)
        torch._foreach_mul_(squares, beta2)
        torch._foreach_addcmul_(squares, grads, grads, 1.0 - beta2)
        updates = list(torch._foreach_sqrt(squares))
        torch._foreach_add_(updates, group["eps"])
        torch._foreach_reciprocal_(updates)
        torch._foreach_mul_(updates, means)
        if group["weight_decay"]:
            torch._foreach_add_(updates, weights, alpha=group["weight_decay"])
        if group["is_adapted"]:
            sizes = torch.stack(torch._foreach_norm(weights))
            steps = torch.stack(torch._foreach_norm(updates))
            ratios = torch.where((sizes > 0) & (steps > 0), sizes / steps, torch.ones_like(sizes))
            torch._foreach_mul_(updates, list(ratios.unbind()))
        torch._foreach_add_(weights, updates, alpha=-group["lr"])


class Muon(torch.optim.AdamW):
    """Muon (Jordan et al., 2024) for the matrices of linear layers, AdamW for all other weights.

    The running mean of a matrix's gradients is replaced by the nearest orthogonal matrix, so that all
    directions are learned equally fast; it is scaled to the size of AdamW's updates, so that AdamW's learning
    rates fit. torch's own Muon supports only matrices and computes in bf16, which is slow on many CPUs.
    """

    def __init__(
        self, model: nn.Module, *, lr: float, betas: tuple[float, float], eps: float, weight_decay: float
    ) -> None:
        # Without heads that have few outputs.
        linears = (module for module in model.modules() if isinstance(module, nn.Linear))
        matrices = {id(each.weight) for each in linears if min(each.weight.shape) >= MIN_MATRIX_SIZE}
        # Positions that a length schedule has not reached yet would decay before they are first used.
        undecayed = {id(part.position.weight) for part in model.modules() if isinstance(part, Embeddings)}
        trained = [weight for weight in model.parameters() if weight.requires_grad]
        vectors = [weight for weight in trained if weight.ndim <= 1 or id(weight) in undecayed]
        others = [weight for weight in trained if weight.ndim > 1 and id(weight) not in matrices | undecayed]
        groups: list[dict[str, Any]] = [
            {"params": others, "weight_decay": weight_decay},
            {"params": vectors, "weight_decay": 0.0},
            {"params": [each for each in trained if id(each) in matrices], "weight_decay": weight_decay},
        ]
        super().__init__(groups, lr=lr, betas=betas, eps=eps, fused=True)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        assert closure is None, "closures are not supported"
        *others, matrices = self.param_groups
        self.param_groups = others
        try:
            super().step()
        finally:
            self.param_groups = [*others, matrices]
        lr = matrices["lr"]
        for weight in matrices["params"]:
            if weight.grad is not None:
                state = self.state[weight]
                if not state:
                    state["momentum_buffer"] = torch.zeros_like(weight)
                mean = state["momentum_buffer"].lerp_(weight.grad, 1.0 - MOMENTUM)
                update = orthogonalize(weight.grad.lerp(mean, MOMENTUM))  # Nesterov momentum
                weight.mul_(1.0 - lr * matrices["weight_decay"])
                weight.add_(update, alpha=-lr * UPDATE_RMS * max(weight.shape) ** 0.5)


def orthogonalize(matrix: Tensor) -> Tensor:
    """Approximate U Vᵀ of a matrix U S Vᵀ by Newton-Schulz iterations, which need matrix products only."""
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if is_tall else matrix
    x = x / x.norm().clamp(min=1e-7)
    linear, cubic, quintic = QUINTIC
    if x.shape[1] >= 2 * x.shape[0]:
        with torch.autocast(x.device.type, enabled=False):  # a product of factors diverges in bf16
            x = _iterate_on_square(x)
    else:
        for _ in range(NUM_ITERATIONS):
            gram = x @ x.T
            factor = torch.addmm(gram, gram, gram, beta=cubic, alpha=quintic)
            x = torch.addmm(x, factor, x, beta=linear)
    return x.T if is_tall else x


def _iterate_on_square(x: Tensor) -> Tensor:
    """Iterate on the square of a wide matrix and multiply the factors, which takes 0.6 of the time."""
    linear, cubic, quintic = QUINTIC
    gram = x @ x.T
    factors = torch.eye(len(x), dtype=x.dtype, device=x.device)
    for _ in range(NUM_ITERATIONS):
        factor = torch.addmm(gram, gram, gram, beta=cubic, alpha=quintic)
        factor.diagonal().add_(linear)
        factors = factor @ factors
        gram = factor @ gram @ factor
    return factors @ x
