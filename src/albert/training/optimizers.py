"""Optimisers: a model and settings come in, LAMB, AdamW or Muon over its weights goes out."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from albert.training.loop_settings import OptimizerSettings
from albert.training.muon import Muon


def group_parameters(model: nn.Module, *, weight_decay: float) -> list[dict[str, Any]]:
    """Matrices decay; biases and LayerNorms, which are vectors, do not. A shared weight is in there once.

    What has no decay has no layer adaptation either.
    """
    decayed: list[Tensor] = []
    others: list[Tensor] = []
    for parameter in model.parameters():
        if parameter.requires_grad:
            (decayed if parameter.ndim > 1 else others).append(parameter)
    return [
        {"params": decayed, "weight_decay": weight_decay, "is_adapted": True},
        {"params": others, "weight_decay": 0.0, "is_adapted": False},
    ]


def build_optimizer(model: nn.Module, settings: OptimizerSettings) -> torch.optim.Optimizer:
    """The optimiser of the settings over all trainable weights of the model."""
    betas = (settings.beta1, settings.beta2)
    if settings.name == "muon":
        return Muon(
            model,
            lr=settings.learning_rate,
            betas=betas,
            eps=settings.eps,
            weight_decay=settings.weight_decay,
        )
    groups = group_parameters(model, weight_decay=settings.weight_decay)
    if settings.name == "lamb":
        return Lamb(groups, lr=settings.learning_rate, betas=betas, eps=settings.eps)
    return torch.optim.AdamW(groups, lr=settings.learning_rate, betas=betas, eps=settings.eps, fused=True)


class Lamb(torch.optim.Optimizer):
    """LAMB as ALBERT was trained with it (You et al., 2019, and the published code).

    Each matrix moves by lr · ‖w‖ / ‖update‖ · update, where update = m / (√v + eps) + decay · w; there is
    no bias correction. Where a norm is 0, and for the weights that do not decay, the ratio is 1.
    """

    def __init__(
        self,
        params: Iterable[Any],
        *,
        lr: float = 0.00176,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "is_adapted": True}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update every weight that has a gradient."""
        assert closure is None, "a loss that is computed again is for line searches"
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if weights:
                self._update(weights, group)

    def _update(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        # Lists of tensors at once: one kernel launch for many small ones.
        grads = [weight.grad for weight in weights if weight.grad is not None]
        means, squares = self._moments(weights)
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
            torch._foreach_mul_(updates, _find_trust_ratios(weights, updates))
        torch._foreach_add_(weights, updates, alpha=-group["lr"])

    def _moments(self, weights: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        for weight in weights:
            if not self.state[weight]:
                self.state[weight] = {
                    "exp_avg": torch.zeros_like(weight),
                    "exp_avg_sq": torch.zeros_like(weight),
                }
        states = [self.state[weight] for weight in weights]
        return [state["exp_avg"] for state in states], [state["exp_avg_sq"] for state in states]


def _find_trust_ratios(weights: list[Tensor], updates: list[Tensor]) -> list[Tensor]:
    """‖w‖ / ‖update‖ of each pair, and 1 where either is 0."""
    sizes = torch.stack(torch._foreach_norm(weights))
    steps = torch.stack(torch._foreach_norm(updates))
    ratios = torch.where((sizes > 0) & (steps > 0), sizes / steps, torch.ones_like(sizes))
    return list(ratios.unbind())
