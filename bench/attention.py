"""Compare implementations of attention over a flat batch, forward and with gradients.

Shapes: T tokens, N heads, H width of a head, R sequences padded together, L the longest of them.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from albert.model.blocks import attend
from albert.model.tokens import build_layout
from bench.batches import ragged_batch
from bench.timing import summarize, time_interleaved

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def attend_in_runs(lengths: Sequence[int]) -> Attend:
    """Attend as the model does: one rectangle for each run of sequences of equal length."""
    layout = build_layout(tuple(lengths))
    return lambda q, k, v: attend(q, k, v, layout=layout)


def attend_one_by_one(lengths: Sequence[int]) -> Attend:
    """Loop over the sequences, with the views of `split`."""
    sizes = list(lengths)

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        parts = zip(q.split(sizes), k.split(sizes), v.split(sizes), strict=True)
        return torch.cat([_attend_alone(*part) for part in parts])

    return run


def attend_sliced(lengths: Sequence[int]) -> Attend:
    """Loop over the sequences with slices, whose gradients are padded with zeros and summed."""
    ends = torch.tensor(lengths).cumsum(0).tolist()

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        borders = zip([0, *ends], ends, strict=False)
        return torch.cat([_attend_alone(q[a:b], k[a:b], v[a:b]) for a, b in borders])

    return run


def _attend_alone(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q_RNLH, k_RNLH, v_RNLH = (x.transpose(0, 1)[None] for x in (q, k, v))
    return F.scaled_dot_product_attention(q_RNLH, k_RNLH, v_RNLH)[0].transpose(0, 1)


def attend_padded(lengths: Sequence[int], max_padding: float) -> Attend:
    """Pad consecutive sequences together while padded ÷ real tokens is at most `max_padding`."""
    groups = list(_group(lengths, max_padding))

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        outputs = []
        for gather, mask, scatter, count in groups:
            q_RNLH, k_RNLH, v_RNLH = (
                x.index_select(0, gather).view(count, -1, *x.shape[1:]).transpose(1, 2) for x in (q, k, v)
            )
            mixed = F.scaled_dot_product_attention(q_RNLH, k_RNLH, v_RNLH, attn_mask=mask)
            outputs.append(mixed.transpose(1, 2).reshape(-1, *q.shape[1:]).index_select(0, scatter))
        return torch.cat(outputs)

    return run


def _group(lengths: Sequence[int], max_padding: float) -> Any:
    """Yield (indices to gather, mask, indices to scatter back, number of sequences) of each group."""
    start = offset = 0
    while start < len(lengths):
        end = start + 1
        while end < len(lengths) and _padding(lengths[start : end + 1]) <= max_padding:
            end += 1
        group = lengths[start:end]
        longest = max(group)
        starts = [offset + sum(group[:i]) for i in range(len(group))]
        gather = [a + min(j, n - 1) for a, n in zip(starts, group, strict=True) for j in range(longest)]
        scatter = [i * longest + j for i, n in enumerate(group) for j in range(n)]
        mask = torch.zeros(len(group), 1, 1, longest)
        for i, n in enumerate(group):
            mask[i, :, :, n:] = -torch.inf
        yield torch.tensor(gather), mask if mask.any() else None, torch.tensor(scatter), len(group)
        offset += sum(group)
        start = end


def _padding(lengths: Sequence[int]) -> float:
    return max(lengths) * len(lengths) / sum(lengths)


def attend_nested(lengths: Sequence[int]) -> Attend:
    """Attend with torch's nested jagged tensors."""
    offsets = torch.tensor([0, *lengths]).cumsum(0)

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (torch.nested.nested_tensor_from_jagged(x, offsets).transpose(1, 2) for x in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).values()

    return run


METHODS: dict[str, Callable[[Sequence[int]], Attend]] = {
    "runs of equal length (ours)": attend_in_runs,
    "one sequence at a time, `split` views": attend_one_by_one,
    "one sequence at a time, slices": attend_sliced,
    "groups padded by at most 10%": lambda lengths: attend_padded(lengths, 1.1),
    "groups padded by at most 25%": lambda lengths: attend_padded(lengths, 1.25),
    "the whole batch padded": lambda lengths: attend_padded(lengths, float("inf")),
    "nested jagged tensors": attend_nested,
}


def batches() -> dict[str, list[int]]:
    """List the lengths of each batch, sorted as in the model."""
    draw = random.Random(0)
    return {
        "32 real sentences and paragraphs": sorted(ragged_batch().tokens.lengths),
        "32 paragraphs of 20–300": sorted(draw.randint(20, 300) for _ in range(32)),
        "128 phrases of 4–20": sorted(draw.randint(4, 20) for _ in range(128)),
        "pretraining, 28 × 128 and 4 short": sorted([128] * 28 + [draw.randint(5, 128) for _ in range(4)]),
    }


def measure() -> list[dict[str, Any]]:
    """Time every method on every batch and number of heads; return a row each."""
    torch.set_num_threads(2)
    rows = []
    for batch, lengths in batches().items():
        for heads, width in ((12, 64), (4, 64)):
            q, k, v = (torch.randn(sum(lengths), heads, width, requires_grad=True) for _ in range(3))
            methods = {name: build(lengths) for name, build in METHODS.items()}
            forward, training = (
                time_interleaved({name: step(run, q, k, v) for name, run in methods.items()}, repeats=repeats)
                for step, repeats in ((_forward, 7), (_backward, 5))
            )
            rows += [
                {
                    "batch": batch,
                    "heads": heads,
                    "method": name,
                    "forward_ms": 1e3 * summarize(forward[name]).seconds,
                    "training_ms": 1e3 * summarize(training[name]).seconds,
                }
                for name in methods
            ]
    return rows


def _forward(run: Attend, q: Tensor, k: Tensor, v: Tensor) -> Callable[[], None]:
    def step() -> None:
        with torch.no_grad():
            run(q, k, v)

    return step


def _backward(run: Attend, q: Tensor, k: Tensor, v: Tensor) -> Callable[[], None]:
    def step() -> None:
        torch.autograd.grad(run(q, k, v).sum(), (q, k, v))

    return step
