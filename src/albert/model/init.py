"""Fresh weights: a module and a seeded generator come in, the module leaves with the published start."""

import math

import torch
from torch import Tensor, nn

# The share of a normal distribution below −2 deviations.
_TAIL = (1 + math.erf(-2 / math.sqrt(2))) / 2


@torch.no_grad()
def init_weights(module: nn.Module, *, std: float, generator: torch.Generator | None = None) -> None:
    """Truncated normal, cut at two standard deviations; biases zero; norms the identity.

    Tensors are drawn in the order of the modules, so one seed gives one model.
    """
    for part in module.modules():
        if isinstance(part, nn.LayerNorm):
            nn.init.ones_(part.weight)
        elif isinstance(part, nn.Linear | nn.Embedding):
            _draw_truncated_normal(part.weight, std, generator)
        bias = getattr(part, "bias", None)
        if isinstance(bias, Tensor):
            nn.init.zeros_(bias)


def _draw_truncated_normal(tensor: Tensor, std: float, generator: torch.Generator | None) -> None:
    """By the inverse of the distribution: torch's own draws and rejects, which took twenty times as long."""
    tensor.uniform_(2 * _TAIL - 1, 1 - 2 * _TAIL, generator=generator)
    tensor.erfinv_().mul_(std * math.sqrt(2)).clamp_(-2 * std, 2 * std)
