"""The named shapes: the paper's, the published second versions, BERT's, and two for CPUs."""

from collections.abc import Iterable
from typing import Any

from albert.errors import InputError, suggest
from albert.model.config import ModelConfig
from albert.settings import build_settings

_DROPOUT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}


def _albert(layers: int, hidden: int, heads: int) -> dict[str, Any]:
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "intermediate_size": 4 * hidden,
    }


def _bert(layers: int, hidden: int) -> dict[str, Any]:
    # V is the paper's 30,000, so that the comparison is one of architectures.
    shape = _albert(layers, hidden, hidden // 64)
    return {**shape, **_DROPOUT, "embedding_size": hidden, "sharing": "none", "hidden_act": "gelu"}


# xlarge has the 16 heads of its published config; the paper's rule, H/64, would give 32.
_BASE, _LARGE = _albert(12, 768, 12), _albert(24, 1024, 16)
_XLARGE, _XXLARGE = _albert(24, 2048, 16), _albert(12, 4096, 64)

PRESETS: dict[str, dict[str, Any]] = {
    "albert-base-v1": {**_BASE, **_DROPOUT},
    "albert-large-v1": {**_LARGE, **_DROPOUT},
    "albert-xlarge-v1": {**_XLARGE, **_DROPOUT},
    "albert-xxlarge-v1": _XXLARGE,
    "albert-base-v2": _BASE,
    "albert-large-v2": _LARGE,
    "albert-xlarge-v2": _XLARGE,
    "albert-xxlarge-v2": _XXLARGE,
    "bert-base": _bert(12, 768),
    "bert-large": _bert(24, 1024),
    "bert-xlarge": _bert(24, 2048),
    "small": {**_albert(12, 512, 8), "vocab_size": 16_000},
    "nano": {**_albert(6, 256, 4), "vocab_size": 8_000},
}
# The paper's own names mean its own models: those with dropout.
ALIASES: dict[str, str] = {
    "albert-base": "albert-base-v1",
    "albert-large": "albert-large-v1",
    "albert-xlarge": "albert-xlarge-v1",
    "albert-xxlarge": "albert-xxlarge-v1",
}


def build_preset(name: str, *, overrides: Iterable[str] = ()) -> ModelConfig:
    """Build the config of a preset, changed by `key=value` overrides."""
    known = {**PRESETS, **ALIASES}
    if name not in known:
        raise InputError(f"unknown preset {name!r}; {suggest(name, known)}")
    return build_settings(
        ModelConfig,
        values=PRESETS[ALIASES.get(name, name)],
        overrides=overrides,
        source=f"preset {name}",
    )
