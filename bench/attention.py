"""Ways to attend over a flat batch, in one run: which is fastest, forward and with gradients.

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
from bench.timing import summarise, time_in_turns

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def attend_in_runs(lengths: Sequence[int]) -> Attend:
    """What the model does: neighbours of equal length as one rectangle."""
    layout = build_layout(tuple(lengths))
    return lambda q, k, v: attend(q, k, v, layout=layout)


def attend_one_by_one(lengths: Sequence[int]) -> Attend:
    """A loop over the sequences, by views that `split` makes."""
    sizes = list(lengths)

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        parts = zip(q.split(sizes), k.split(sizes), v.split(sizes), strict=True)
        return torch.cat([_attend_alone(*part) for part in parts])

    return run


def attend_sliced(lengths: Sequence[int]) -> Attend:
    """The same loop with slices by hand, whose gradients are padded with zeros and added up."""
    ends = torch.tensor(lengths).cumsum(0).tolist()

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        borders = zip([0, *ends], ends, strict=False)
        return torch.cat([_attend_alone(q[a:b], k[a:b], v[a:b]) for a, b in borders])

    return run


def _attend_alone(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q_RNLH, k_RNLH, v_RNLH = (x.transpose(0, 1)[None] for x in (q, k, v))
    return F.scaled_dot_product_attention(q_RNLH, k_RNLH, v_RNLH)[0].transpose(0, 1)


def attend_padded(lengths: Sequence[int], most_padding: float) -> Attend:
    """Neighbouring lengths padded together while padded ÷ real tokens stays within `most_padding`."""
    groups = list(_group(lengths, most_padding))

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


def _group(lengths: Sequence[int], most_padding: float) -> Any:
    """(places to gather, mask, places to scatter back, sequences) of each group of neighbours."""
    start = offset = 0
    while start < len(lengths):
        end = start + 1
        while end < len(lengths) and _padding(lengths[start : end + 1]) <= most_padding:
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
    """torch's own ragged tensors."""
    offsets = torch.tensor([0, *lengths]).cumsum(0)

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (torch.nested.nested_tensor_from_jagged(x, offsets).transpose(1, 2) for x in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).values()

    return run


WAYS: dict[str, Callable[[Sequence[int]], Attend]] = {
    "runs of equal length (ours)": attend_in_runs,
    "one by one, `split` views": attend_one_by_one,
    "one by one, sliced": attend_sliced,
    "padded locally, ≤ 10%": lambda lengths: attend_padded(lengths, 1.1),
    "padded locally, ≤ 25%": lambda lengths: attend_padded(lengths, 1.25),
    "the batch padded": lambda lengths: attend_padded(lengths, float("inf")),
    "nested jagged tensors": attend_nested,
}


def batches() -> dict[str, list[int]]:
    """Lengths, sorted as the model computes them."""
    draw = random.Random(0)
    return {
        "32 real sentences and paragraphs": sorted(ragged_batch().tokens.lengths),
        "32 paragraphs of 20–300": sorted(draw.randint(20, 300) for _ in range(32)),
        "128 phrases of 4–20": sorted(draw.randint(4, 20) for _ in range(128)),
        "pretraining, 28 × 128 and 4 short": sorted([128] * 28 + [draw.randint(5, 128) for _ in range(4)]),
    }


def measure() -> list[dict[str, Any]]:
    """One row for each batch, number of heads and way."""
    torch.set_num_threads(2)
    rows = []
    for name, lengths in batches().items():
        for heads, width in ((12, 64), (4, 64)):
            q, k, v = (torch.randn(sum(lengths), heads, width, requires_grad=True) for _ in range(3))
            ways = {way: build(lengths) for way, build in WAYS.items()}
            forward = time_in_turns({way: _forward(run, q, k, v) for way, run in ways.items()}, repeats=7)
            trained = time_in_turns({way: _backward(run, q, k, v) for way, run in ways.items()}, repeats=5)
            rows += [
                {
                    "batch": name,
                    "heads": heads,
                    "way": way,
                    "forward_ms": 1e3 * summarise(forward[way]).seconds,
                    "training_ms": 1e3 * summarise(trained[way]).seconds,
                }
                for way in ways
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
