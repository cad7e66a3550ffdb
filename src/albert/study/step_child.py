"""Measure training steps in this process, which `step_costs.py` starts as a child.

It reads one request as a line of JSON, prints one answer and exits. It also exits when its standard input is
closed, since then the parent is gone.

Shapes: T tokens, B sequences, M masked positions.
"""

import contextlib
import gc
import json
import os
import statistics
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from torch import nn

from albert.examples.batches import PretrainingBatch, cut_batch
from albert.examples.masking import NO_SPANS
from albert.model.albert_model import AlbertModel, build_model
from albert.model.config import ModelConfig
from albert.model.runtime import autocast
from albert.settings import build_settings
from albert.study.step_costs import MASKED_SHARE, Footprint, StepRequest
from albert.training.distributed import DistributedContext
from albert.training.losses import PretrainLosses, build_tokens, count_terms
from albert.training.optimizers import build_optimizer
from albert.training.run_folder import STATUS_PATH, read_amounts
from albert.training.settings import LossSpikeSettings, OptimizerSettings
from albert.training.step import LossSpikeFilter, Objective, TrainStep

PAIR_HEAD = "sop"
HEADS = {"mlm": None, PAIR_HEAD: None}
_FIRST_TOKEN = 5  # after [PAD], [UNK], [CLS], [SEP] and [MASK]
_LEARNING_RATE = 1e-6
# Threads, the allocator's pools and kernel workspaces come with the first step and belong to no model.
_WARM_UP = ModelConfig(
    vocab_size=64,
    embedding_size=8,
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=16,
)


def main() -> None:
    """Answer one request."""
    # Text that a library prints must not be mistaken for the answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    request = StepRequest(**json.loads(sys.stdin.readline()))
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    if request.num_threads is not None:
        torch.set_num_threads(request.num_threads)
    try:
        answer = asdict(measure_request(request))
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "allocate memory" not in str(error):
            raise
        answer = {"does_not_fit": "its steps need more memory than is available"}
    print(json.dumps(answer), file=answers, flush=True)


def _exit_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os._exit(1)


def measure_request(request: StepRequest) -> Footprint:
    """Run the requested steps and forward passes; the memory is that of the steps."""
    config = build_settings(ModelConfig, values=request.config, source="request")
    is_checkpointed = request.gradient_checkpointing
    warm_up = build_model(_WARM_UP, heads=HEADS, gradient_checkpointing=is_checkpointed)
    _run_steps(warm_up, request, _build_micro_batches(_WARM_UP, request, length=8), num_steps=1)
    if request.max_bytes is not None:
        limit_memory(request.max_bytes)
    with PeakMemory() as memory:
        model = build_model(config, heads=HEADS, gradient_checkpointing=is_checkpointed)
        batches = _build_micro_batches(config, request, length=request.length)
        times = _run_steps(model, request, batches, num_steps=1 + request.num_steps)[1:]
    return Footprint(
        peak_bytes=memory.peak_bytes,
        model_seconds=statistics.median(model_seconds for model_seconds, _ in times),
        optimizer_seconds=statistics.median(optimizer_seconds for _, optimizer_seconds in times),
        num_tokens=sum(len(batch.ids_T) for batch in batches),
        num_parameters=sum(parameter.numel() for parameter in model.parameters()),
        inference_seconds=_time_inference(model, batches, num_passes=request.num_passes),
        memory_source=memory.source,
    )


def _build_micro_batches(config: ModelConfig, request: StepRequest, *, length: int) -> list[PretrainingBatch]:
    batch = build_random_batch(config, num_sequences=request.batch_size, length=length)
    return cut_batch(batch, max_tokens=request.micro_batch_tokens or len(batch.ids_T))


def _run_steps(
    model: AlbertModel, request: StepRequest, batches: list[PretrainingBatch], *, num_steps: int
) -> list[tuple[float, float]]:
    """Return the seconds in the model and in the optimizer, for each step."""
    settings = build_settings(OptimizerSettings, values={"name": request.optimizer}, source="request")
    network = PretrainLosses(model.train(), pair_head=PAIR_HEAD)
    train_step = build_train_step(network, build_optimizer(model, settings), context=DistributedContext())
    plan = train_step.plan(batches)
    reports = [
        train_step.run(batches, plan, learning_rate=_LEARNING_RATE, options={}) for _ in range(num_steps)
    ]
    return [(report.model_seconds, report.optimizer_seconds) for report in reports]


@torch.inference_mode()
def _time_inference(model: AlbertModel, batches: list[PretrainingBatch], *, num_passes: int) -> float | None:
    """Return the median time of a forward pass over the same tokens, without heads."""
    if not num_passes:
        return None
    model.eval()
    inputs = [build_tokens(batch) for batch in batches]
    times = []
    for _ in range(1 + num_passes):
        start = time.perf_counter()
        for tokens in inputs:
            model(tokens)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def build_random_batch(config: ModelConfig, *, num_sequences: int, length: int) -> PretrainingBatch:
    """Build sequences of random tokens, all of one length."""
    draw = np.random.default_rng(0)
    shape = (num_sequences, length)
    ids = draw.integers(_FIRST_TOKEN, config.vocab_size, shape)
    num_masked = max(1, round(MASKED_SHARE * length))
    masked = np.stack([1 + draw.permutation(length - 1)[:num_masked] for _ in range(num_sequences)])
    masked += length * np.arange(num_sequences)[:, None]
    return PretrainingBatch(
        ids_T=ids.ravel(),
        positions_T=np.broadcast_to(np.arange(length), shape).ravel(),
        segments_T=np.broadcast_to((np.arange(length) >= length // 2).astype(np.int64), shape).ravel(),
        lengths=np.full(num_sequences, length),
        places_M=masked.ravel(),
        targets_M=draw.integers(_FIRST_TOKEN, config.vocab_size, masked.size),
        labels_B=draw.integers(0, 2, num_sequences),
        has_labels=True,
        spans=NO_SPANS,
    )


def build_train_step(
    network: nn.Module, optimizer: torch.optim.Optimizer, *, context: DistributedContext
) -> TrainStep[PretrainingBatch]:
    """Build the training step of `albert pretrain`: both losses, clipping and update; no step is skipped."""

    def build_empty_batch() -> PretrainingBatch:
        raise AssertionError("all processes have the same number of batches")

    return TrainStep(
        network,
        optimizer,
        Objective(tuple(HEADS), lambda batch: count_terms(batch, pair_head=PAIR_HEAD), build_empty_batch),
        LossSpikeFilter(LossSpikeSettings(spike_factor=0.0)),
        1.0,
        lambda: autocast(torch.device("cpu")),
        context,
    )


class PeakMemory:
    """Measure the peak of resident memory inside the block, above the memory held at its start.

    On Linux this is the kernel's high-water mark, reset at the start. Elsewhere it is the peak of the whole
    process, which misses what stays below an earlier peak. `source` names the one used.
    """

    source = "VmHWM"

    def __enter__(self) -> "PeakMemory":
        gc.collect()
        if STATUS_PATH.exists():
            with contextlib.suppress(OSError):  # not permitted: peaks above all earlier ones are still seen
                Path("/proc/self/clear_refs").write_text("5")
            self.start = read_amounts(STATUS_PATH)["VmRSS"]
        else:
            self.source = "getrusage"
            self.start = _read_process_peak()
        return self

    def __exit__(self, *_: object) -> None:
        end = read_amounts(STATUS_PATH)["VmHWM"] if self.source == "VmHWM" else _read_process_peak()
        self.peak_bytes = end - self.start


def _read_process_peak() -> int:
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * unit


def limit_memory(num_bytes: int) -> None:
    """Limit the further memory of this process on Linux, so that it fails instead of another process."""
    if not STATUS_PATH.exists():
        return
    import resource

    limit = read_amounts(STATUS_PATH)["VmData"] + num_bytes
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(
        resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard)
    )
    with contextlib.suppress(
        OSError
    ):  # if the system runs out of memory all the same, end this process first
        Path("/proc/self/oom_score_adj").write_text("1000")


if __name__ == "__main__":
    main()
