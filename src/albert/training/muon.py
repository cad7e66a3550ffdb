"""Muon: a model and rates come in; an optimiser that turns each map equally in all directions goes out."""

from typing import Any

import torch
from torch import Tensor, nn

from albert.model.embeddings import Embeddings

MOMENTUM = 0.95
NUM_ITERATIONS = 5
# Keller Jordan's quintic: steep at 0, and all that is not tiny lands between 0.7 and 1.2.
QUINTIC = (3.4445, -4.7750, 2.0315)
# An orthogonal A × B matrix has entries of about 1 / √max(A, B); AdamW moves each by about 0.2 of its rate.
ADAM_SIZE = 0.2
SMALLEST_MAP = 32


class Muon(torch.optim.AdamW):
    """Muon (Jordan et al., 2024) for the maps between hidden states, AdamW for all other weights.

    The running mean of a map's gradients is replaced by the nearest orthogonal matrix, so that no direction
    is learned sooner than another; it is scaled to the size of AdamW's steps, so that its learning rates fit.
    torch's own Muon knows nothing but maps and computes in bf16, which a CPU without bf16 emulates slowly.
    """

    def __init__(
        self, model: nn.Module, *, lr: float, betas: tuple[float, float], eps: float, weight_decay: float
    ) -> None:
        maps = {id(weight) for weight in _iter_maps(model)}
        # Places that a curriculum of lengths has not come to yet would fade before they are first used.
        kept = {id(part.position.weight) for part in model.modules() if isinstance(part, Embeddings)}
        trained = [weight for weight in model.parameters() if weight.requires_grad]
        vectors = [weight for weight in trained if weight.ndim <= 1 or id(weight) in kept]
        tables = [weight for weight in trained if weight.ndim > 1 and id(weight) not in maps | kept]
        groups: list[dict[str, Any]] = [
            {"params": tables, "weight_decay": weight_decay},
            {"params": vectors, "weight_decay": 0.0},
            {"params": [weight for weight in trained if id(weight) in maps], "weight_decay": weight_decay},
        ]
        super().__init__(groups, lr=lr, betas=betas, eps=eps, fused=True)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update every weight that has a gradient."""
        assert closure is None, "a loss that is computed again is for line searches"
        *others, maps = self.param_groups
        self.param_groups = others
        try:
            super().step()
        finally:
            self.param_groups = [*others, maps]
        for weight in maps["params"]:
            if weight.grad is not None:
                self._turn(weight, weight.grad, maps["lr"], maps["weight_decay"])

    def _turn(self, weight: Tensor, grad: Tensor, lr: float, weight_decay: float) -> None:
        state = self.state[weight]
        if not state:
            state["momentum_buffer"] = torch.zeros_like(weight)
        mean = state["momentum_buffer"].lerp_(grad, 1.0 - MOMENTUM)
        turned = orthogonalize(grad.lerp(mean, MOMENTUM))  # Nesterov: looks one step ahead
        weight.mul_(1.0 - lr * weight_decay)
        weight.add_(turned, alpha=-lr * ADAM_SIZE * max(weight.shape) ** 0.5)


def orthogonalize(matrix: Tensor) -> Tensor:
    """About U Vᵀ of a matrix U S Vᵀ, by Newton-Schulz iterations: products only, no decomposition."""
    is_tall = matrix.shape[0] > matrix.shape[1]
    near = matrix.T if is_tall else matrix
    near = near / near.norm().clamp(min=1e-7)
    near = _iterate_on_square(near) if near.shape[1] >= 2 * near.shape[0] else _iterate(near)
    return near.T if is_tall else near


def _iterate(near: Tensor) -> Tensor:
    linear, cubic, quintic = QUINTIC
    for _ in range(NUM_ITERATIONS):
        gram = near @ near.T
        near = torch.addmm(near, torch.addmm(gram, gram, gram, beta=cubic, alpha=quintic), near, beta=linear)
    return near


def _iterate_on_square(near: Tensor) -> Tensor:
    """The same for a wide matrix in 0.6 of the time: only its square is iterated on, all factors gathered."""
    linear, cubic, quintic = QUINTIC
    gram = near @ near.T
    factors = torch.eye(len(near), dtype=near.dtype, device=near.device)
    for _ in range(NUM_ITERATIONS):
        factor = torch.addmm(gram, gram, gram, beta=cubic, alpha=quintic)
        factor.diagonal().add_(linear)
        factors = factor @ factors
        gram = factor @ gram @ factor
    return factors @ near


def _iter_maps(model: nn.Module) -> Any:
    """Weights that lead from states to states; an answer of a few numbers is not such a map."""
    for module in model.modules():
        if isinstance(module, nn.Linear) and min(module.weight.shape) >= SMALLEST_MAP:
            yield module.weight
