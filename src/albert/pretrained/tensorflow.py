"""The original TensorFlow checkpoints: a folder as published comes in, configuration and tensors go out."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from albert.errors import FileFormatError
from albert.files import read_json
from albert.model.config import ModelConfig
from albert.pretrained.huggingface import FolderConfig
from albert.pretrained.tensor_bundle import read_tensor_bundle
from albert.settings import build_settings

# Published archives keep everything in one folder; TF-Hub modules keep it in these two.
_WEIGHT_PATTERNS = ("*.index", "variables/*.index")
_CONFIG_PATTERNS = ("albert_config*.json", "assets/albert_config*.json")
_VOCABULARY_PATTERNS = ("*.model", "assets/*.model", "vocab*.txt", "assets/vocab*.txt")
_HUB_PREFIX = "module/"
_OPTIMIZER_ENDINGS = ("/adam_m", "/adam_v")

_KEYS = (
    "vocab_size", "embedding_size", "hidden_size", "num_hidden_layers", "num_hidden_groups",
    "inner_group_num", "num_attention_heads", "intermediate_size", "hidden_dropout_prob",
    "attention_probs_dropout_prob", "max_position_embeddings", "type_vocab_size", "initializer_range",
)  # fmt: skip
# What ALBERT's own configs call gelu is the tanh approximation.
_ACTIVATIONS = {"gelu": "gelu_new", "relu": "relu"}


def is_tensorflow_dir(folder: Path) -> bool:
    """Whether a folder holds an original checkpoint and no config.json of Hugging Face's."""
    return not (folder / "config.json").exists() and _find(folder, _WEIGHT_PATTERNS) is not None


def read_tensorflow_config(folder: Path) -> FolderConfig:
    """The configuration beside an original checkpoint."""
    path = _find(folder, _CONFIG_PATTERNS)
    if path is None:
        raise FileFormatError(f"{folder}: no albert_config.json beside the checkpoint; copy it there")
    values: dict[str, Any] = read_json(path)
    missing = [key for key in ("vocab_size", "hidden_size", "num_hidden_layers") if key not in values]
    if missing:
        raise FileFormatError(f"{path}: lacks {', '.join(missing)}; is it an albert_config.json?")
    activation = values.get("hidden_act", "gelu")
    if activation not in _ACTIVATIONS:
        raise FileFormatError(f"{path}: hidden_act is {activation!r}; there are {', '.join(_ACTIVATIONS)}")
    ours = {key: values[key] for key in _KEYS if key in values}
    ours["hidden_act"] = _ACTIVATIONS[activation]
    return FolderConfig(model=build_settings(ModelConfig, values=ours, source=str(path)), layout="tensorflow")


def read_tensorflow_weights(folder: Path) -> dict[str, Tensor]:
    """Every variable of the model under its own name; the optimiser's and the step counter stay behind."""
    index = _find(folder, _WEIGHT_PATTERNS)
    if index is None:
        raise FileFormatError(
            f"{folder}: no checkpoint (a file that ends in .index); is it the right folder?"
        )
    arrays = read_tensor_bundle(index.with_suffix(""), wanted=_is_weight)
    return {name.removeprefix(_HUB_PREFIX): torch.from_numpy(array) for name, array in arrays.items()}


def find_tensorflow_vocabulary(folder: Path) -> Path | None:
    """The SentencePiece model or vocab.txt that came with the checkpoint."""
    return _find(folder, _VOCABULARY_PATTERNS)


def _is_weight(name: str) -> bool:
    return name.rpartition("/")[2] != "global_step" and not name.endswith(_OPTIMIZER_ENDINGS)


def _find(folder: Path, patterns: tuple[str, ...]) -> Path | None:
    """The one file that matches; of several, the first by name."""
    for pattern in patterns:
        found = sorted(folder.glob(pattern))
        if found:
            return found[0]
    return None
