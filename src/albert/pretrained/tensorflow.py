"""Original TensorFlow checkpoints: config, weights and vocabulary of a folder as published."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from albert.errors import FileFormatError
from albert.files import read_json
from albert.model.config import ModelConfig
from albert.pretrained.huggingface import CONFIG_NAME, FolderConfig
from albert.pretrained.tensor_bundle import read_tensor_bundle
from albert.settings import build_settings

# Published archives keep everything in one folder; TF-Hub modules keep it in these two.
_WEIGHT_PATTERNS = ("*.index", "variables/*.index")
_CONFIG_PATTERNS = ("albert_config*.json", "assets/albert_config*.json")
_VOCABULARY_PATTERNS = ("*.model", "assets/*.model", "vocab*.txt", "assets/vocab*.txt")
_INDEX = ".index"
_HUB_PREFIX = "module/"
_OPTIMIZER_ENDINGS = ("/adam_m", "/adam_v")

_REQUIRED = (
    "vocab_size", "embedding_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
    "intermediate_size",
)  # fmt: skip
_KEYS = (
    *_REQUIRED, "num_hidden_groups", "inner_group_num", "hidden_dropout_prob",
    "attention_probs_dropout_prob", "max_position_embeddings", "type_vocab_size", "initializer_range",
)  # fmt: skip
# What ALBERT's own configs call gelu is the tanh approximation.
_ACTIVATIONS = {"gelu": "gelu_new", "relu": "relu"}


def is_tensorflow_source(path: Path) -> bool:
    """Whether this is an original checkpoint: its .index file, or a folder with one and no config.json."""
    if path.suffix == _INDEX:
        return True
    return path.is_dir() and not (path / CONFIG_NAME).exists() and bool(_list(path, _WEIGHT_PATTERNS))


def read_tensorflow_config(path: Path) -> FolderConfig:
    """Read the config beside an original checkpoint."""
    found = [file for folder in _folders(path) for file in _list(folder, _CONFIG_PATTERNS)]
    if not found:
        raise FileFormatError(f"{path}: no albert_config.json beside the checkpoint; copy it there")
    config_path = found[0]
    values: Any = read_json(config_path)
    if not isinstance(values, dict):
        raise FileFormatError(f"{config_path}: holds no object of keys; is it an albert_config.json?")
    missing = [key for key in _REQUIRED if values.get(key) is None]
    if missing:
        raise FileFormatError(f"{config_path}: lacks {', '.join(missing)}; is it an albert_config.json?")
    activation = values.get("hidden_act", "gelu")
    if not isinstance(activation, str) or activation not in _ACTIVATIONS:
        raise FileFormatError(
            f"{config_path}: hidden_act is {activation!r}; there are {', '.join(_ACTIVATIONS)}"
        )
    ours = {key: values[key] for key in _KEYS if key in values}
    ours["hidden_act"] = _ACTIVATIONS[activation]
    model = build_settings(ModelConfig, values=ours, source=str(config_path))
    return FolderConfig(model=model, layout="tensorflow")


def read_tensorflow_weights(path: Path) -> dict[str, Tensor]:
    """Read the variables of the model, without the optimizer's and the step counter."""
    found = [path] if path.suffix == _INDEX else _list(path, _WEIGHT_PATTERNS)
    if not found:
        raise FileFormatError(f"{path}: no checkpoint (a file that ends in .index); is it the right folder?")
    if len(found) > 1:
        names = ", ".join(file.name for file in found[:5])
        raise FileFormatError(
            f"{path}: holds {len(found)} checkpoints ({names}); name the .index file you mean"
        )
    arrays = read_tensor_bundle(found[0].with_suffix(""), wanted=_is_weight)
    return {name.removeprefix(_HUB_PREFIX): torch.from_numpy(array) for name, array in arrays.items()}


def find_tensorflow_vocabulary(path: Path) -> Path | None:
    """The SentencePiece model or vocab.txt that came with the checkpoint."""
    found = [file for folder in _folders(path) for file in _list(folder, _VOCABULARY_PATTERNS)]
    return found[0] if found else None


def _is_weight(name: str) -> bool:
    return name.rpartition("/")[2] != "global_step" and not name.endswith(_OPTIMIZER_ENDINGS)


def _folders(path: Path) -> list[Path]:
    """Where the other files of a checkpoint are: its folder, and the one around a TF-Hub `variables`."""
    return [path] if path.is_dir() else [path.parent, path.parent.parent]


def _list(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    """The files that match the first pattern that any file matches, in the order of their names."""
    for pattern in patterns:
        found = sorted(folder.glob(pattern))
        if found:
            return found
    return []
