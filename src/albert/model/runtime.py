"""The device and the precision of a model."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from albert.errors import InputError
from albert.settings import Settings, build_settings

if TYPE_CHECKING:
    import torch

Precision = Literal["float32", "bf16", "int8"]


class RuntimeSettings(Settings):
    """Device (auto, cpu, cuda, cuda:N or mps) and precision.

    bf16 means autocast, and weights stay float32; int8 is for prediction on the CPU (model/int8.py).
    """

    device: str = "auto"
    precision: Precision = "float32"


def build_runtime(device: str, precision: str, *, source: str) -> RuntimeSettings:
    """Build the settings; errors name `source` as the origin of the values."""
    return build_settings(RuntimeSettings, values={"device": device, "precision": precision}, source=source)


def select_device(name: str = "auto") -> "torch.device":
    """Return the torch device of this name; `auto` prefers CUDA, then MPS, then the CPU."""
    import torch

    has_mps = torch.backends.mps.is_available()
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if has_mps else "cpu"
    if not re.fullmatch(r"(cpu|mps|cuda)(:\d+)?", name):
        raise InputError(f"unknown device {name!r}; use auto, cpu, cuda, cuda:N or mps")
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InputError(
            f"device {name!r} is not available: torch {torch.__version__} sees {torch.cuda.device_count()} "
            "CUDA devices; use device=cpu, or install a CUDA build of torch"
        )
    if device.type == "mps" and not has_mps:
        raise InputError("device 'mps' is not available: it needs macOS on Apple silicon; use device=cpu")
    return device


def autocast(device: "torch.device", precision: Precision = "float32") -> AbstractContextManager[Any]:
    """Return an autocast context; raise an InputError if the device does not support the precision."""
    import torch

    if precision == "int8" and device.type != "cpu":
        raise InputError(f"precision is int8, which runs on the CPU only, not on {device}; use device=cpu")
    if precision != "bf16":
        return nullcontext()
    if not _has_bf16(device):
        raise InputError(
            f"precision is bf16, but this {device.type} hardware only emulates it, which is slower; use "
            "precision=float32"
        )
    return torch.autocast(device.type, dtype=torch.bfloat16)


def build_autocast(runtime: RuntimeSettings) -> Callable[[], AbstractContextManager[Any]]:
    """Return a function that creates autocast contexts for training; raise the errors of `autocast` now."""
    if runtime.precision == "int8":
        raise InputError("runtime.precision is int8, which cannot be trained; use float32 or bf16")
    device = select_device(runtime.device)
    autocast(device, runtime.precision)
    return partial(autocast, device, runtime.precision)


def _has_bf16(device: "torch.device") -> bool:
    import torch

    if device.type == "cuda":
        with torch.cuda.device(device):
            return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "mps":
        return bool(torch.backends.mps.is_macos_or_newer(14, 0))
    if hasattr(torch.cpu, "get_capabilities"):
        found = torch.cpu.get_capabilities()
        return any(found.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16"))
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
