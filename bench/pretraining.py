"""A pretraining step, ours and the plain loop's: each side in a process of its own, asked in turns.

`python -m bench.pretraining SIDE PRESET LENGTH BATCH CORPUS` is one side: a line on standard input is a step,
the answer is its seconds and its real tokens.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from albert.examples.batches import PretrainingBatch, cut_batch
from albert.examples.settings import ExampleSettings
from albert.model.albert_model import build_model
from albert.model.presets import build_preset
from albert.model.runtime import autocast
from albert.training.guard import Guard
from albert.training.losses import compute_pretraining_losses, count_terms
from albert.training.optimizers import build_optimizer
from albert.training.pretrain_data import open_data
from albert.training.recipes import read_recipe
from albert.training.step import Objective, StepTaker
from bench.plain_loop import PlainLoop, pad_batches
from bench.timing import PeakMemory, ratio

Step = Callable[[list[PretrainingBatch]], Any]


@dataclass(frozen=True)
class Case:
    """A model and what it reads: the length and batch size of its recipe."""

    preset: str
    length: int
    batch_size: int
    rounds: int
    needed: float


CASES = (
    Case("nano", 128, 32, rounds=15, needed=1.5),
    Case("nano", 128, 128, rounds=7, needed=1.5),
    Case("small", 128, 32, rounds=7, needed=1.5),
    Case("small", 512, 16, rounds=5, needed=1.5),
    Case("albert-base-v2", 128, 16, rounds=7, needed=1.15),
    Case("albert-base-v2", 512, 8, rounds=5, needed=1.15),
)


def fold(batch: PretrainingBatch, vocab_size: int) -> PretrainingBatch:
    """The same batch in a smaller vocabulary: speed depends on lengths, not on which piece it is."""

    def into(ids: Any) -> Any:
        return np.where(ids < 5, ids, 5 + (ids - 5) % (vocab_size - 5))

    return replace(batch, ids_T=into(batch.ids_T), targets_M=into(batch.targets_M))


def build_our_step(preset: str, *, max_tokens: int) -> Step:
    """The step of `albert pretrain`: micro-batches, both losses, clipping, fused AdamW."""
    model = build_model(build_preset(preset), heads={"mlm": None, "sop": None}).train()
    settings = read_recipe("nano")
    taker: StepTaker[PretrainingBatch] = StepTaker(
        model,
        build_optimizer(model, settings.optimizer),
        Objective(
            lambda batch: count_terms(batch, pair_head="sop"),
            lambda batch, step: compute_pretraining_losses(model, batch, pair_head="sop"),
        ),
        Guard(settings.guard),
        1.0,
        lambda: autocast(torch.device("cpu")),
    )

    def step(batches: list[PretrainingBatch]) -> None:
        shares = [share for batch in batches for share in cut_batch(batch, max_tokens=max_tokens)]
        taker.take(0, shares, learning_rate=1e-5)

    return step


def build_plain_step(preset: str) -> Step:
    """The plain loop's: pad, forward, backward, clip, fused AdamW."""
    loop = PlainLoop(build_preset(preset), learning_rate=1e-5)
    return lambda batches: loop.step(pad_batches(batches))


def serve(side: str, preset: str, length: int, batch_size: int, corpus: Path) -> None:
    """One side: a step for each line of standard input."""
    torch.set_num_threads(2)
    data = open_data(corpus, read_recipe("nano").held_out)
    from albert.examples.source import build_source

    source = build_source(data.train, data.tokenizer, settings=ExampleSettings(max_length=length))
    max_tokens = int(os.environ.get("MICRO", "2048"))
    step = build_our_step(preset, max_tokens=max_tokens) if side == "ours" else build_plain_step(preset)
    vocab_size = build_preset(preset).vocab_size
    with PeakMemory() as memory:
        for number, _ in enumerate(sys.stdin):
            batches = [fold(b, vocab_size) for b in source.build_step(number, batch_size=batch_size)]
            began = time.perf_counter()
            step(batches)
            seconds = time.perf_counter() - began
            answer = {
                "seconds": seconds,
                "tokens": sum(len(batch.ids_T) for batch in batches),
                "padding": pad_batches(batches).padding_factor,
            }
            print(json.dumps(answer), flush=True)
    print(json.dumps({"peak_bytes": memory.peak_bytes}), flush=True)


def compare(case: Case, corpus: Path) -> dict[str, Any]:
    """Both sides in turns, a step each a round; the first round warms up."""
    sides = {side: _start(side, case, corpus) for side in ("ours", "plain")}
    answers: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for _ in range(case.rounds + 1):
        for side, process in sides.items():
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("step\n")
            process.stdin.flush()
            answers[side].append(json.loads(process.stdout.readline()))
    found: dict[str, Any] = {"case": case}
    for side, process in sides.items():
        rest, _ = process.communicate()
        found[f"{side}_peak"] = json.loads(rest.splitlines()[-1])["peak_bytes"]
        found[f"{side}_seconds"] = [answer["seconds"] for answer in answers[side][1:]]
        found[f"{side}_speed"] = float(
            np.median([answer["tokens"] / answer["seconds"] for answer in answers[side][1:]])
        )
    found["padding"] = float(np.mean([answer["padding"] for answer in answers["plain"]]))
    found["ratio"] = ratio(found["plain_seconds"], found["ours_seconds"])
    return found


def _start(side: str, case: Case, corpus: Path) -> "subprocess.Popen[str]":
    words = [side, case.preset, str(case.length), str(case.batch_size), str(corpus)]
    return subprocess.Popen(
        [sys.executable, "-m", "bench.pretraining", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
