"""Fresh weights: a module and a seeded generator come in, the module leaves with the published start."""

import torch
from torch import nn


def init_weights(module: nn.Module, *, std: float, generator: torch.Generator | None = None) -> None:
    """Truncated normal, cut at two standard deviations; biases zero; norms the identity.

    Tensors are drawn in the order of their names, so one seed gives one model.
    """
    for part in module.modules():
        if isinstance(part, nn.LayerNorm):
            nn.init.ones_(part.weight)
            nn.init.zeros_(part.bias)
        elif isinstance(part, nn.Linear | nn.Embedding):
            nn.init.trunc_normal_(part.weight, std=std, a=-2 * std, b=2 * std, generator=generator)
            if isinstance(part, nn.Linear) and part.bias is not None:
                nn.init.zeros_(part.bias)
        elif "bias" in part._parameters:  # the word head's own bias
            nn.init.zeros_(part._parameters["bias"])  # type: ignore[arg-type]
