"""Compare our model with `transformers` at the same shape and threads: forward, training step, memory.

`python -m bench.against_transformers SIDE` runs a single training step and prints its peak memory.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from albert.model.albert_model import AlbertModel, build_model
from albert.model.config import build_preset
from albert.study.step_costs import PeakMemory
from bench.batches import Batch, dense_batch, ragged_batch
from bench.timing import measure_peak_bytes, median_ratio, summarize, time_interleaved

THREADS = 2
BATCH_SIZES = (1, 2, 4, 8, 16)  # of `transformers` on texts sorted by length; the fastest counts
Step = Callable[[], Any]


def build_ours() -> AlbertModel:
    """Build albert-base-v2 with a classifier of two labels."""
    return build_model(build_preset("albert-base-v2"), heads={"classification": 2})


def build_theirs() -> Any:
    """Build the same shape in `transformers`."""
    import transformers

    config = transformers.AlbertConfig(hidden_size=768, num_attention_heads=12, intermediate_size=3072)
    return transformers.AlbertForSequenceClassification(config).eval()


def our_logits(model: AlbertModel, batch: Batch) -> Tensor:
    """Compute the logits of the flat batch."""
    last_TD = model(batch.tokens).last_TD
    logits: Tensor = model.head("classification")(model.pool(last_TD, batch.tokens))
    return logits


def their_logits(model: Any, batch: Batch) -> Tensor:
    """Compute the logits of the padded batch; without padding pass no mask, which is faster."""
    mask = None if batch.padding_factor == 1 else batch.mask_BL
    logits: Tensor = model(batch.ids_BL, attention_mask=mask).logits
    return logits


def forward_step(logits: Callable[[Any, Batch], Tensor], model: Any, batches: list[Batch]) -> Step:
    """Build a forward pass over all batches."""

    def step() -> None:
        with torch.inference_mode():
            for batch in batches:
                logits(model, batch)

    return step


def training_step(logits: Callable[[Any, Batch], Tensor], model: Any, batches: list[Batch]) -> Step:
    """Build a training step: forward, loss and backward over all batches, then a fused AdamW step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)

    def step() -> None:
        model.train()
        for batch in batches:
            target = torch.arange(len(batch.tokens.lengths)) % 2
            F.cross_entropy(logits(model, batch), target, reduction="sum").backward()
        optimizer.step()
        optimizer.zero_grad()
        model.eval()

    return step


def compare(
    make: Callable[..., Step], ours: Any, theirs: Any, batch: Batch, *, repeats: int
) -> dict[str, Any]:
    """Time both sides, `transformers` as it is usually run: one padded batch."""
    times = time_interleaved(
        {"ours": make(our_logits, ours, [batch]), "theirs": make(their_logits, theirs, [batch])},
        repeats=repeats,
    )
    return {
        "ours": str(summarize(times["ours"])),
        "theirs": str(summarize(times["theirs"])),
        "ratio": median_ratio(times["theirs"], times["ours"]),
    }


def compare_with_best(
    make: Callable[..., Step], ours: Any, theirs: Any, batch: Batch, *, repeats: int
) -> dict[str, Any]:
    """Time both sides, `transformers` sorted by length and with the fastest batch size."""
    steps = {"ours": make(our_logits, ours, [batch])}
    for size in BATCH_SIZES:
        steps[str(size)] = make(their_logits, theirs, batch.split(size))
    times = time_interleaved(steps, repeats=repeats)
    best = min(BATCH_SIZES, key=lambda size: summarize(times[str(size)]).seconds)
    return {"best_batch_size": best, "ratio": median_ratio(times[str(best)], times["ours"])}


def measure() -> dict[str, Any]:
    """Run all comparisons."""
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    ours, theirs = build_ours(), build_theirs()
    dense, ragged = dense_batch(), ragged_batch()
    results: dict[str, Any] = {
        "padding_factor": ragged.padding_factor,
        "real_tokens": int(ragged.mask_BL.sum()),
        "lengths": sorted(ragged.tokens.lengths),
    }
    for name, make, repeats in (("forward", forward_step, 9), ("training", training_step, 5)):
        _say(f"{name}: dense 8 × 128")
        results[f"dense_{name}"] = compare(make, ours, theirs, dense, repeats=repeats)
        _say(f"{name}: ragged, one padded batch")
        results[f"ragged_{name}"] = compare(make, ours, theirs, ragged, repeats=max(3, repeats // 2))
        _say(f"{name}: ragged, transformers sorted by length")
        results[f"best_{name}"] = compare_with_best(make, ours, theirs, ragged, repeats=3)
    _say("memory of a training step, in fresh processes")
    results["peak_bytes"] = {
        side: measure_peak_bytes("bench.against_transformers", side)
        for side in ("ours", "theirs", "checkpointed")
    }
    return results


def measure_step_memory(side: str) -> int:
    """Measure the peak memory of a training step on the ragged batch, above the memory before it."""
    torch.set_num_threads(THREADS)
    model = build_theirs() if side == "theirs" else build_ours()
    if side == "checkpointed":
        model.encoder.gradient_checkpointing = True
    batch = ragged_batch()
    step = training_step(their_logits if side == "theirs" else our_logits, model, [batch])
    # A small first step allocates threads, gradients and workspaces, which are not counted.
    training_step(their_logits if side == "theirs" else our_logits, model, [dense_batch(1, 8)])()
    with PeakMemory() as memory:
        step()
    return memory.peak_bytes


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    print(json.dumps({"peak_bytes": measure_step_memory(sys.argv[1])}))
