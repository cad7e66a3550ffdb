"""Linear maps by oneDNN where it is faster than torch's own products.

On CPUs torch multiplies float32 matrices with MKL, which uses AVX-512 on Intel's processors only. On AMD's
with AVX-512 (Zen 4 and later) oneDNN, which torch also contains, takes half the time (docs/log.md).

Shapes: T tokens, D width of the input, F width of the output.
"""

from functools import cache
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

# For fewer tokens the call itself takes longer than what it saves.
_MIN_TOKENS = 8
_CPUINFO = Path("/proc/cpuinfo")


def apply_linear(module: nn.Module, x_TD: Tensor) -> Tensor:
    """Call the module; if it is a plain linear layer in float32 on such a CPU, by oneDNN."""
    if (
        type(module) is not nn.Linear
        or not prefers_onednn()
        or x_TD.shape[0] < _MIN_TOKENS
        or x_TD.dtype != torch.float32
        or x_TD.device.type != "cpu"
        or module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or torch.is_autocast_enabled("cpu")
        or torch.compiler.is_compiling()
    ):
        return cast(Tensor, module(x_TD))
    weight_FD, bias_F = module.weight, module.bias
    if type(weight_FD) is not nn.Parameter or weight_FD.dtype != torch.float32:  # sharded
        return cast(Tensor, module(x_TD))
    if not torch.is_grad_enabled():
        return _multiply(x_TD, weight_FD, bias_F)
    result: Tensor = _Linear.apply(x_TD, weight_FD, bias_F)  # type: ignore[no-untyped-call]
    return result


@cache
def prefers_onednn() -> bool:
    """Whether this is a processor of AMD with AVX-512, on Linux."""
    is_supported = (
        torch.backends.cpu.get_cpu_capability() == "AVX512" and torch.backends.mkldnn.is_available()
    )
    return is_supported and _CPUINFO.exists() and "AuthenticAMD" in _CPUINFO.read_text(encoding="utf-8")


def _multiply(x_TD: Tensor, weight_FD: Tensor, bias_F: Tensor | None = None) -> Tensor:
    result: Tensor = torch.ops.mkldnn._linear_pointwise(x_TD, weight_FD, bias_F, "none", [], "")
    return result


class _Linear(torch.autograd.Function):
    """The same products in the backward pass; the operator has no gradient of its own."""

    @staticmethod
    def forward(ctx: Any, x_TD: Tensor, weight_FD: Tensor, bias_F: Tensor | None) -> Tensor:
        ctx.save_for_backward(x_TD if ctx.needs_input_grad[1] else None, weight_FD)
        return _multiply(x_TD, weight_FD, bias_F)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_TF: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x_TD, weight_FD = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        return (
            _multiply(grad_TF, weight_FD.t()) if needs_x else None,
            _multiply(grad_TF.t(), x_TD.t()) if needs_weight else None,
            grad_TF.sum(0) if needs_bias else None,
        )
