"""The two blocks of a layer, attention and feed-forward, on a flat batch.

Sequences of equal length are one view of the flat tensors and one call of the fused attention kernel. This
was chosen by measurement (bench/attention.py, docs/benchmarks.md): on the CPU it is about as fast as a loop
over single sequences on long ragged batches, and nearly twice as fast on many short ones. A padded batch
takes up to five times as long, nested tensors far longer.

Shapes: T tokens, P selected tokens, B sequences, D hidden width, F feed-forward width, N heads, H width of a
head, R sequences in a run, L length of a run's sequences.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from albert.model.config import Activation, ModelConfig
from albert.model.linear import apply_linear
from albert.model.tokens import Layout, SelectedTokens, gather_rows, opaque

_SLOPE = 2 * math.sqrt(2 / math.pi)
_CUBE = _SLOPE * 0.044715
# Elements that fit into the caches of two cores together with their intermediate results.
_CHUNK = 1 << 18


def gelu_tanh(x: Tensor) -> Tensor:
    """Apply GELU with the tanh approximation: `gelu` in ALBERT's configs, `gelu_new` in Hugging Face's."""
    return F.gelu(x, approximate="tanh")


def gelu_tanh_in_place(x: Tensor) -> Tensor:
    """Replace x by x·σ(2√(2/π)(x + 0.044715·x³)), in parts that fit into the cache.

    On CPUs without gradients the feed-forward block is 6% faster than with torch's kernel (docs/log.md).
    """
    for part in x.view(-1).split(_CHUNK):
        gate = part * part
        gate.mul_(_CUBE).add_(_SLOPE).mul_(part).sigmoid_()
        part.mul_(gate)
    return x


ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "gelu_new": gelu_tanh,
    "gelu": F.gelu,
    "relu": F.relu,
}


class AttentionBlock(nn.Module):
    """Compute LN(x + dropout(attention(x))); the norm belongs to the block and is shared with it."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width = config.hidden_size
        # Three projections instead of one of 3·D: LAMB has a trust ratio per tensor, and a fused projection
        # was not faster on the CPU (docs/log.md).
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
        selected: SelectedTokens | None = None,
    ) -> Tensor:
        """Attend within each sequence, and append the attention probabilities to `probabilities`."""
        is_plain = type(self.key) is type(self.value) is nn.Linear  # not quantized
        if selected is not None and selected.is_first and probabilities is None and is_plain:
            return self._attend_first(x_TD, layout, selected.indices_P)
        heads = (x_TD.shape[0], self.num_heads, -1)
        q_TNH, k_TNH, v_TNH = (
            apply_linear(module, x_TD).view(heads) for module in (self.query, self.key, self.value)
        )
        dropout = self.probability_dropout if self.training else 0.0
        if probabilities is None:
            mixed_TNH = attend(q_TNH, k_TNH, v_TNH, layout=layout, dropout=dropout)
        else:
            mixed_TNH, found = attend_with_probabilities(q_TNH, k_TNH, v_TNH, layout=layout, dropout=dropout)
            probabilities.append(found)
        mixed_TD = mixed_TNH.reshape(x_TD.shape)
        if selected is not None:
            x_TD, mixed_TD = gather_rows(x_TD, selected.indices_P), gather_rows(mixed_TD, selected.indices_P)
        return self._add(x_TD, mixed_TD)

    def _attend_first(self, x_TD: Tensor, layout: Layout, first_B: Tensor) -> Tensor:
        """Compute the first token of each sequence only, in the order of `first_B`."""
        x_BD = gather_rows(x_TD, first_B)
        dropout = self.probability_dropout if self.training else 0.0
        # Runs of equal length are neighbors in the computed order.
        order_B = first_B.argsort()
        query_BNH = gather_rows(apply_linear(self.query, x_BD), order_B).view(
            len(first_B), self.num_heads, -1
        )
        mixed_BNH = attend_first(
            query_BNH, x_TD, key=self.key, value=self.value, layout=layout, dropout=dropout
        )
        return self._add(x_BD, gather_rows(mixed_BNH.reshape(x_BD.shape), order_B.argsort()))

    def _add(self, x_TD: Tensor, mixed_TD: Tensor) -> Tensor:
        result: Tensor = self.norm(
            x_TD + F.dropout(apply_linear(self.output, mixed_TD), self.dropout, self.training)
        )
        return result


class FeedForwardBlock(nn.Module):
    """Compute LN(x + dropout(W2·act(W1·x))); public implementations omit this dropout."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.inner = nn.Linear(config.hidden_size, config.intermediate_size)
        self.output = nn.Linear(config.intermediate_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.activation = ACTIVATIONS[config.hidden_act]
        self.dropout = config.hidden_dropout_prob

    def forward(self, x_TD: Tensor) -> Tensor:
        inner_TF = apply_linear(self.inner, x_TD)
        can_overwrite = (
            not inner_TF.requires_grad
            and inner_TF.device.type == "cpu"
            and inner_TF.dtype == torch.float32
            and not torch.compiler.is_compiling()
            and not self.inner._forward_hooks  # a hook may keep the output
        )
        is_fast = can_overwrite and self.activation is gelu_tanh
        activated_TF = gelu_tanh_in_place(inner_TF) if is_fast else self.activation(inner_TF)
        y_TD = apply_linear(self.output, activated_TF)
        result: Tensor = self.norm(x_TD + F.dropout(y_TD, self.dropout, self.training))
        return result


@opaque
def attend(
    query_TNH: Tensor, key_TNH: Tensor, value_TNH: Tensor, *, layout: Layout, dropout: float = 0.0
) -> Tensor:
    """Compute softmax attention within each sequence; `dropout` applies to the probabilities."""
    if dropout == 0.0 and query_TNH.is_cuda and _fits_varlen_kernel(query_TNH):
        return _attend_varlen(query_TNH, key_TNH, value_TNH, layout)
    if query_TNH.dtype == torch.bfloat16 and query_TNH.requires_grad and query_TNH.device.type == "cpu":
        # The backward pass of the fused kernel is 3 to 8 times as slow in bf16 as in float32.
        with torch.autocast("cpu", enabled=False):
            whole = (x_TNH.float() for x_TNH in (query_TNH, key_TNH, value_TNH))
            return attend(*whole, layout=layout, dropout=dropout)
    sizes = layout.run_sizes
    outputs = []
    for run, q, k, v in zip(
        layout.runs, query_TNH.split(sizes), key_TNH.split(sizes), value_TNH.split(sizes), strict=True
    ):
        shape = (run.count, run.length, *q.shape[1:])
        q_RNLH, k_RNLH, v_RNLH = (x.view(shape).transpose(1, 2) for x in (q, k, v))
        mixed_RNLH = F.scaled_dot_product_attention(q_RNLH, k_RNLH, v_RNLH, dropout_p=dropout)
        outputs.append(mixed_RNLH.transpose(1, 2).reshape(q.shape))
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


@opaque
def attend_first(
    query_BNH: Tensor, x_TD: Tensor, *, key: nn.Linear, value: nn.Linear, layout: Layout, dropout: float = 0.0
) -> Tensor:
    """Compute attention for one query per sequence, without the keys and values of all tokens.

    q·(W x + b) is (Wᵀq)·x + q·b, and a mean of W x + b is W applied to the mean: for a single query,
    projecting the query is cheaper than projecting every token. Sequences are in the computed order.
    """
    num_heads, width = query_BNH.shape[1:]
    scaled_BNH = query_BNH / math.sqrt(width)
    by_head = (num_heads, width, -1)
    mapped_BND = (scaled_BNH.transpose(0, 1) @ key.weight.view(by_head)).transpose(0, 1)
    offset_BN1 = (scaled_BNH * key.bias.view(num_heads, width)).sum(-1, keepdim=True)
    counts = [run.count for run in layout.runs]
    means, sums = [], []
    for run, q, offset, x in zip(
        layout.runs,
        mapped_BND.split(counts),
        offset_BN1.split(counts),
        x_TD.split(layout.run_sizes),
        strict=True,
    ):
        x_RLD = x.view(run.count, run.length, -1)
        p_RNL = torch.softmax(q @ x_RLD.transpose(1, 2) + offset, dim=-1)
        p_RNL = F.dropout(p_RNL, dropout, training=dropout > 0)
        means.append(p_RNL @ x_RLD)
        sums.append(p_RNL.sum(-1, keepdim=True))  # 1 without dropout
    mean_NBD = torch.cat(means).transpose(0, 1)
    mixed_NBH = mean_NBD @ value.weight.view(by_head).transpose(1, 2)
    return mixed_NBH.transpose(0, 1) + torch.cat(sums) * value.bias.view(num_heads, width)


@opaque
def attend_with_probabilities(
    query_TNH: Tensor, key_TNH: Tensor, value_TNH: Tensor, *, layout: Layout, dropout: float = 0.0
) -> tuple[Tensor, list[Tensor]]:
    """Compute `attend`, and also return the probabilities [N, L, L] of each sequence before dropout."""
    lengths = list(layout.lengths)
    scale = 1.0 / math.sqrt(query_TNH.shape[-1])
    outputs, probabilities = [], []
    for q, k, v in zip(
        query_TNH.split(lengths), key_TNH.split(lengths), value_TNH.split(lengths), strict=True
    ):
        q_NLH, k_NLH, v_NLH = (x.transpose(0, 1) for x in (q, k, v))
        p_NLL = torch.softmax(q_NLH @ k_NLH.transpose(1, 2) * scale, dim=-1)
        outputs.append((F.dropout(p_NLL, dropout, training=dropout > 0) @ v_NLH).transpose(0, 1))
        probabilities.append(p_NLL)
    return torch.cat(outputs), probabilities


def _fits_varlen_kernel(query_TNH: Tensor) -> bool:
    """Return whether flash attention over ragged sequences can be used (not yet tested on a GPU)."""
    width = query_TNH.shape[-1]
    is_half = query_TNH.dtype in (torch.float16, torch.bfloat16)
    is_ampere = torch.cuda.get_device_capability(query_TNH.device) >= (8, 0)
    return is_half and is_ampere and width % 8 == 0 and width <= 256


def _attend_varlen(query_TNH: Tensor, key_TNH: Tensor, value_TNH: Tensor, layout: Layout) -> Tensor:
    from torch.nn.attention.varlen import varlen_attn

    offsets, longest = layout.offsets, max(run.length for run in layout.runs)
    mixed = varlen_attn(query_TNH, key_TNH, value_TNH, offsets, offsets, longest, longest)
    assert isinstance(mixed, Tensor)
    return mixed
