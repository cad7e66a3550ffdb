"""Folders with int8 weights: `model.int8.safetensors`, and `int8.json` with how they were made.

Each rounded tensor has a tensor of scales beside it, one for each row. Loading multiplies them: the model is
in float, and rounding it again gives the same integers, or 7 bits where the kernel of the CPU needs that.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from albert.errors import FileFormatError
from albert.files import read_json
from albert.model.albert_model import AlbertModel
from albert.model.int8 import quantize_model
from albert.model.runtime import RuntimeSettings

INT8_NAME = "model.int8.safetensors"  # not model.safetensors, which other libraries would misread
INT8_CONFIG_NAME = "int8.json"
_SCALE = ".scale"


@dataclass(frozen=True)
class Int8Config:
    """The modules in float, and whether the int8 weights have 7 bits on every CPU."""

    float_modules: tuple[str, ...] = ()
    reduce_range: bool = False


def read_int8_config(folder: Path) -> Int8Config | None:
    """Read how the int8 weights of a folder were made; return None for a folder without."""
    path = folder / INT8_CONFIG_NAME
    if not path.is_file():
        return None
    values = read_json(path)
    try:
        return Int8Config(tuple(values["float_modules"]), values["reduce_range"])
    except (KeyError, TypeError) as error:
        raise FileFormatError(
            f"{path}: lacks float_modules or reduce_range; export the model again"
        ) from error


def join_scales(tensors: Mapping[str, tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
    """Name rounded tensors and their scales for a file."""
    return {
        key: value
        for name, (integers, scale) in tensors.items()
        for key, value in ((name, integers), (name + _SCALE, scale))
    }


def apply_scales(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Multiply the rounded tensors of a file by their scales; others are returned as they are."""
    return {
        name: tensor * tensors[name + _SCALE][:, None] if name + _SCALE in tensors else tensor
        for name, tensor in tensors.items()
        if not name.endswith(_SCALE)
    }


def apply_runtime(model: AlbertModel, config: Int8Config | None, runtime: RuntimeSettings) -> RuntimeSettings:
    """Round a loaded model if its folder or the settings are int8; return the settings it then has."""
    if config is None and runtime.precision != "int8":
        return runtime
    config = config or Int8Config()
    quantize_model(model, float_modules=config.float_modules, reduce_range=config.reduce_range or None)
    return RuntimeSettings(device="cpu" if runtime.device == "auto" else runtime.device, precision="int8")
