"""The non-linearities by their names in config.json."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from albert.model.config import Activation

_SLOPE = 2 * math.sqrt(2 / math.pi)
_CUBE = _SLOPE * 0.044715
# Numbers that fit into two cores' caches with what is computed from them.
_CHUNK = 1 << 18


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU by the tanh approximation: `gelu` in ALBERT's own configs, `gelu_new` in Hugging Face's."""
    return F.gelu(x, approximate="tanh")


def gelu_tanh_in_place(x: Tensor) -> Tensor:
    """The same as x·σ(2√(2/π)(x + 0.044715·x³)), over x itself and piece by piece in the cache.

    For CPUs, without gradients: most have no fast tanh, and this and the saved copy make the feed-forward
    block 6% faster. With gradients torch's own kernel was the faster one (docs/log.md).
    """
    for part in x.view(-1).split(_CHUNK):
        gate = part * part
        gate.mul_(_CUBE).add_(_SLOPE).mul_(part).sigmoid_()
        part.mul_(gate)
    return x


def can_overwrite(x: Tensor) -> bool:
    """Whether `gelu_tanh_in_place` is right and worth it for this tensor."""
    return (
        not x.requires_grad
        and x.device.type == "cpu"
        and x.dtype == torch.float32
        and not torch.compiler.is_compiling()
    )


ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "gelu_new": gelu_tanh,
    "gelu": F.gelu,
    "relu": F.relu,
}
