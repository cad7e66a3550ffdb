"""The two blocks of a layer, attention and feed-forward, and the activations.

Shapes: T tokens, B sequences, D hidden width, F feed-forward width, N heads, H width of a head.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from albert.model.attention import attend, attend_first, attend_visibly
from albert.model.config import Activation, ModelConfig
from albert.model.layout import Layout, Wanted, gather_rows

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


class AttentionBlock(nn.Module):
    """LN(x + drop(attention(x))); the norm belongs to the block before it, so it is shared with it."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width = config.hidden_size
        # Three maps rather than one of 3·D: LAMB's trust ratio is taken for each tensor, and fusing them
        # gained nothing on the CPU (docs/log.md).
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.num_heads = config.num_attention_heads
        self.probability_dropout = config.attention_probs_dropout_prob
        self.dropout = config.hidden_dropout_prob

    def forward(
        self,
        x_TD: Tensor,
        layout: Layout,
        probabilities: list[list[Tensor]] | None = None,
        wanted: Wanted | None = None,
    ) -> Tensor:
        """Mix each sequence; where a list is given, the probabilities of this layer are added to it.

        Every token is looked at, but where some are `wanted` only those go on.
        """
        if wanted is not None and wanted.is_first and probabilities is None and self._has_plain_maps:
            return self._mix_first(x_TD, layout, wanted.places_P)
        heads = (x_TD.shape[0], self.num_heads, -1)
        q_TNH, k_TNH, v_TNH = (part(x_TD).view(heads) for part in (self.query, self.key, self.value))
        dropout = self.probability_dropout if self.training else 0.0
        if probabilities is None:
            mixed_TNH = attend(q_TNH, k_TNH, v_TNH, layout=layout, dropout=dropout)
        else:
            mixed_TNH, seen = attend_visibly(q_TNH, k_TNH, v_TNH, layout=layout, dropout=dropout)
            probabilities.append(seen)
        mixed_TD = mixed_TNH.reshape(x_TD.shape)
        if wanted is not None:
            x_TD, mixed_TD = gather_rows(x_TD, wanted.places_P), gather_rows(mixed_TD, wanted.places_P)
        return self._add(x_TD, mixed_TD)

    @property
    def _has_plain_maps(self) -> bool:
        """Whether keys and values are made by weights alone: an adapter in their place has to be called."""
        return type(self.key) is nn.Linear and type(self.value) is nn.Linear

    def _mix_first(self, x_TD: Tensor, layout: Layout, first_B: Tensor) -> Tensor:
        """The first token of each sequence, in the order of `first_B`: no other is mapped."""
        x_BD = gather_rows(x_TD, first_B)
        dropout = self.probability_dropout if self.training else 0.0
        # Runs of equal length are neighbours in the computed order.
        order_B = first_B.argsort()
        query_BNH = gather_rows(self.query(x_BD), order_B).view(len(first_B), self.num_heads, -1)
        mixed_BNH = attend_first(
            query_BNH, x_TD, key=self.key, value=self.value, layout=layout, dropout=dropout
        )
        return self._add(x_BD, gather_rows(mixed_BNH.reshape(x_BD.shape), order_B.argsort()))

    def _add(self, x_TD: Tensor, mixed_TD: Tensor) -> Tensor:
        result: Tensor = self.norm(x_TD + F.dropout(self.output(mixed_TD), self.dropout, self.training))
        return result


class FeedForwardBlock(nn.Module):
    """LN(x + drop(W2·act(W1·x))); its dropout is the one that public implementations leave out."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.inner = nn.Linear(config.hidden_size, config.intermediate_size)
        self.output = nn.Linear(config.intermediate_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.activation = ACTIVATIONS[config.hidden_act]
        self.dropout = config.hidden_dropout_prob

    def forward(self, x_TD: Tensor) -> Tensor:
        y_TD = self.output(self._activate(self.inner(x_TD)))
        result: Tensor = self.norm(x_TD + F.dropout(y_TD, self.dropout, self.training))
        return result

    def _activate(self, inner_TF: Tensor) -> Tensor:
        # A hook may have kept what the linear map gave: only where nobody looks is it overwritten.
        if self.activation is gelu_tanh and can_overwrite(inner_TF) and not self.inner._forward_hooks:
            return gelu_tanh_in_place(inner_TF)
        return self.activation(inner_TF)
