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


@torch.no_grad()
def spread_positions(weight_LE: Tensor, *, std: float) -> None:
    """Start position embeddings as waves of many lengths rather than at random.

    A shift is then one linear map wherever it happens, so that looking at a neighbour, which is what takes a
    model off the plateau, is learned once and not anew for each position. They are trained like any others.
    """
    length, width = weight_LE.shape
    place_L1 = torch.arange(length, dtype=torch.float64)[:, None]
    rate_H = torch.exp(torch.arange(width // 2, dtype=torch.float64) * (-math.log(10_000.0) / (width / 2)))
    angle_LH = place_L1 * rate_H
    wave_LE = torch.cat([angle_LH.sin(), angle_LH.cos()], dim=1) * (std * math.sqrt(2.0))
    weight_LE[:, : wave_LE.shape[1]] = wave_LE.to(weight_LE)
