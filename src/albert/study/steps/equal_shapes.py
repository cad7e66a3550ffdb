"""ALBERT and BERT of one shape: a shape's name comes in, both configurations, their sizes and work go out.

The difference is one of settings: nothing shared, E = H and the exact GELU make a BERT of it. No torch.
"""

from collections.abc import Mapping
from typing import Any, Literal

from albert.errors import InputError
from albert.model.config import ModelConfig
from albert.model.parameters import ParameterCount, count_parameters
from albert.model.presets import PRESETS
from albert.settings import build_settings

Family = Literal["ALBERT", "BERT"]
FAMILIES: tuple[Family, ...] = ("ALBERT", "BERT")
Shape = Literal["nano", "small", "base", "large", "xlarge", "xxlarge"]
# The second versions, which have no dropout: it would be the only work that the paper's pairs do not share.
PRESET_OF: dict[str, str] = {
    "nano": "nano",
    "small": "small",
    "base": "albert-base-v2",
    "large": "albert-large-v2",
    "xlarge": "albert-xlarge-v2",
    "xxlarge": "albert-xxlarge-v2",
}
MASKED_SHARE = 0.15


def build_pair(shape: str, *, changes: Mapping[str, Any] | None = None) -> dict[Family, ModelConfig]:
    """ALBERT and BERT of one shape; `changes` are other values than the preset's, for both of them."""
    if shape not in PRESET_OF:
        raise InputError(f"unknown shape {shape!r}; there are {', '.join(PRESET_OF)}")
    source, values = f"shape {shape}", {**PRESETS[PRESET_OF[shape]], **(changes or {})}
    albert = build_settings(ModelConfig, values=values, source=source)
    apart = {
        "sharing": "none",
        "num_hidden_groups": 1,
        "embedding_size": albert.hidden_size,
        "has_embedding_map": None,
        "hidden_act": "gelu",
    }
    bert = build_settings(ModelConfig, values={**albert.model_dump(mode="json"), **apart}, source=source)
    return {"ALBERT": albert, "BERT": bert}


def count_pair(shape: str) -> dict[Family, ParameterCount]:
    """Their weights, with both pretraining heads."""
    return {family: count_parameters(config) for family, config in build_pair(shape).items()}


def count_operations(config: ModelConfig, *, length: int) -> float:
    """Floating-point operations of a training step for each token: 6 for each weight that it meets."""
    h, f, e = config.hidden_size, config.intermediate_size, config.embedding_size
    layer = 4 * h * h + 2 * h * f + 2 * length * h  # the last: queries by keys, probabilities by values
    words = MASKED_SHARE * (h * e + config.vocab_size * e)
    return 6 * (config.num_hidden_layers * layer + words)
