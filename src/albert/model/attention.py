"""Attention inside each sequence of a flat batch.

Shapes: T tokens, N heads, H width of a head, R sequences in a run, L length of a run's sequences,
B sequences in all, D hidden width.

Chosen by measurement (bench/attention.py, docs/benchmarks.md): sequences of equal length are one view of the
flat tensors and one call of the fused kernel. On the CPU it is about as fast as a loop over single sequences
on long ragged batches and nearly twice as fast on many short ones; padding the batch costs up to five times
as much, nested tensors far more.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from albert.model.layout import Layout, opaque


@opaque
def attend(
    query_TNH: Tensor, key_TNH: Tensor, value_TNH: Tensor, *, layout: Layout, dropout: float = 0.0
) -> Tensor:
    """Softmax attention of every token over its own sequence; `dropout` acts on the probabilities."""
    if dropout == 0.0 and query_TNH.is_cuda and _fits_varlen_kernel(query_TNH):
        return _attend_varlen(query_TNH, key_TNH, value_TNH, layout)
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
    """The same for one query a sequence, without its keys and values; sequences are in the computed order.

    q·(W x + b) is (Wᵀq)·x + q·b, and a mean of W x + b is W applied to the mean: with a single query it is
    cheaper to map that one than every token.
    """
    num_heads, width = query_BNH.shape[1:]
    scaled_BNH = query_BNH / math.sqrt(width)
    by_head = (num_heads, width, -1)
    asked_BND = (scaled_BNH.transpose(0, 1) @ key.weight.view(by_head)).transpose(0, 1)
    offset_BN1 = (scaled_BNH * key.bias.view(num_heads, width)).sum(-1, keepdim=True)
    counts = [run.count for run in layout.runs]
    means, sums = [], []
    for run, asked, offset, x in zip(
        layout.runs,
        asked_BND.split(counts),
        offset_BN1.split(counts),
        x_TD.split(layout.run_sizes),
        strict=True,
    ):
        x_RLD = x.view(run.count, run.length, -1)
        p_RNL = torch.softmax(asked @ x_RLD.transpose(1, 2) + offset, dim=-1)
        p_RNL = F.dropout(p_RNL, dropout, training=dropout > 0)
        means.append(p_RNL @ x_RLD)
        sums.append(p_RNL.sum(-1, keepdim=True))  # 1, but for what dropout left
    mean_NBD = torch.cat(means).transpose(0, 1)
    mixed_NBH = mean_NBD @ value.weight.view(by_head).transpose(1, 2)
    return mixed_NBH.transpose(0, 1) + torch.cat(sums) * value.bias.view(num_heads, width)


@opaque
def attend_visibly(
    query_TNH: Tensor, key_TNH: Tensor, value_TNH: Tensor, *, layout: Layout, dropout: float = 0.0
) -> tuple[Tensor, list[Tensor]]:
    """The same, spelled out, with the probabilities of each sequence as one tensor [N, L, L] (undropped)."""
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
    """Flash attention over ragged sequences: half precision, from Ampere on, widths in eights up to 256.

    Never run on a GPU here; its gradients are not the same from run to run.
    """
    width = query_TNH.shape[-1]
    return (
        query_TNH.dtype in (torch.float16, torch.bfloat16)
        and width % 8 == 0
        and width <= 256
        and torch.cuda.get_device_capability(query_TNH.device) >= (8, 0)
    )


def _attend_varlen(query_TNH: Tensor, key_TNH: Tensor, value_TNH: Tensor, layout: Layout) -> Tensor:
    from torch.nn.attention.varlen import varlen_attn

    borders, longest = layout.borders, max(run.length for run in layout.runs)
    mixed = varlen_attn(query_TNH, key_TNH, value_TNH, borders, borders, longest, longest)
    assert isinstance(mixed, Tensor)
    return mixed
