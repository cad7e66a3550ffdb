"""Exact parameter counts from a config. No torch."""

from collections.abc import Iterable
from dataclasses import dataclass

from albert.model.config import ModelConfig, count_blocks

PRETRAINING_HEADS = ("mlm", "sop")


@dataclass(frozen=True)
class ParameterCount:
    """Distinct scalars by part; tied and shared tensors count once."""

    embeddings: int
    embedding_map: int
    attention: int
    ffn: int
    pooler: int
    heads: int

    @property
    def encoder(self) -> int:
        """Everything up to the last hidden state."""
        return self.embeddings + self.embedding_map + self.attention + self.ffn

    @property
    def backbone(self) -> int:
        """The encoder with its pooler: what the paper's tables count."""
        return self.encoder + self.pooler

    @property
    def total(self) -> int:
        return self.backbone + self.heads


def count_parameters(config: ModelConfig, *, heads: Iterable[str] = PRETRAINING_HEADS) -> ParameterCount:
    """Count the model of `config` with a pooler and the given pretraining heads (mlm, sop, nsp)."""
    vocab, e, h, f = config.vocab_size, config.embedding_size, config.hidden_size, config.intermediate_size
    blocks = count_blocks(config)
    head_sizes = {
        "mlm": _linear(h, e) + _norm(e) + vocab,  # the word table itself is tied to the embeddings
        "sop": _linear(h, 2),
        "nsp": _linear(h, 2),
    }
    return ParameterCount(
        embeddings=(vocab + config.max_position_embeddings + config.type_vocab_size) * e + _norm(e),
        embedding_map=_linear(e, h) if config.maps_embeddings else 0,
        attention=blocks.attention * (4 * _linear(h, h) + _norm(h)),
        ffn=blocks.ffn * (_linear(h, f) + _linear(f, h) + _norm(h)),
        pooler=_linear(h, h),
        heads=sum(head_sizes[head] for head in heads),
    )


def _linear(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs


def _norm(width: int) -> int:
    return 2 * width
