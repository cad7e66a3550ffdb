"""`python -m albert.study.steps.step_child`: a line of JSON comes in as a request, one goes out as answer.

It measures once and ends; it also ends when its input does, since then nobody is left to hear the answer.
"""

import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict

import torch

from albert.examples.batches import PretrainingBatch, cut_batch
from albert.model.albert_model import AlbertModel, build_model
from albert.model.config import ModelConfig
from albert.settings import build_settings
from albert.study.steps.machine import PeakMemory, limit_memory
from albert.study.steps.random_steps import HEADS, PAIR_HEAD, build_random_batch, build_step_taker
from albert.study.steps.step_process import Footprint, StepRequest
from albert.training.losses import PretrainLosses, build_tokens
from albert.training.optimizers import build_optimizer
from albert.training.settings import OptimizerSettings
from albert.training.world import World

_LEARNING_RATE = 1e-6
# Threads, the allocator's pools and kernels' workspaces come with the first step, and belong to no model.
_TOY = ModelConfig(
    vocab_size=64,
    embedding_size=8,
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=16,
)


def measure_request(request: StepRequest) -> Footprint:
    """Take the steps, and the forward passes if any are asked for; memory is that of the steps."""
    config = build_settings(ModelConfig, values=request.config, source="request")
    is_checkpointed = request.gradient_checkpointing
    toy = build_model(_TOY, heads=HEADS, gradient_checkpointing=is_checkpointed)
    _take_steps(toy, request, _build_shares(_TOY, request, length=8), num_steps=1)
    if request.max_bytes is not None:
        limit_memory(request.max_bytes)
    with PeakMemory() as memory:
        model = build_model(config, heads=HEADS, gradient_checkpointing=is_checkpointed)
        shares = _build_shares(config, request, length=request.length)
        times = _take_steps(model, request, shares, num_steps=1 + request.num_steps)[1:]
    return Footprint(
        peak_bytes=memory.peak_bytes,
        model_seconds=statistics.median(model_seconds for model_seconds, _ in times),
        optimizer_seconds=statistics.median(optimizer_seconds for _, optimizer_seconds in times),
        num_tokens=sum(len(share.ids_T) for share in shares),
        num_parameters=sum(parameter.numel() for parameter in model.parameters()),
        inference_seconds=_time_passes(model, shares, num_passes=request.num_passes),
        memory_source=memory.source,
    )


def _build_shares(config: ModelConfig, request: StepRequest, *, length: int) -> list[PretrainingBatch]:
    batch = build_random_batch(config, num_sequences=request.batch_size, length=length)
    return cut_batch(batch, max_tokens=request.micro_batch_tokens or len(batch.ids_T))


def _take_steps(
    model: AlbertModel, request: StepRequest, shares: list[PretrainingBatch], *, num_steps: int
) -> list[tuple[float, float]]:
    """Seconds in the model and in the optimiser, of each step."""
    settings = build_settings(OptimizerSettings, values={"name": request.optimizer}, source="request")
    network = PretrainLosses(model.train(), pair_head=PAIR_HEAD)
    taker = build_step_taker(network, build_optimizer(model, settings), world=World())
    plan = taker.plan(shares)
    reports = [
        taker.take(step, shares, plan, learning_rate=_LEARNING_RATE, options={}) for step in range(num_steps)
    ]
    return [(report.model_seconds, report.optimizer_seconds) for report in reports]


@torch.inference_mode()
def _time_passes(model: AlbertModel, shares: list[PretrainingBatch], *, num_passes: int) -> float | None:
    """The median of forward passes over the same pieces, without heads."""
    if not num_passes:
        return None
    model.eval()
    inputs = [build_tokens(share) for share in shares]

    def run() -> None:
        for tokens in inputs:
            model(tokens)

    run()
    return statistics.median(_time(run) for _ in range(num_passes))


def _time(function: Callable[[], None]) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def _end_with_input() -> None:
    """Wait for the end of standard input, which is the end of whoever asked."""
    while os.read(0, 1024):
        pass
    os._exit(1)


def main() -> None:
    """Answer one request."""
    # What a library prints must not pass for the answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    request = StepRequest(**json.loads(sys.stdin.readline()))
    threading.Thread(target=_end_with_input, daemon=True).start()
    if request.num_threads is not None:
        torch.set_num_threads(request.num_threads)
    try:
        answer = asdict(measure_request(request))
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "allocate memory" not in str(error):
            raise
        answer = {"does_not_fit": "its steps need more memory than there is"}
    print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
