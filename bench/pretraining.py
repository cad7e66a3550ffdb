"""Compare a pretraining step with that of a plain loop, each side in its own process, interleaved.

`python -m bench.pretraining SIDE PRESET LENGTH BATCH CORPUS` runs one side (`ours`, or the micro-batch size
of the plain loop): each line on standard input is a step, answered with its seconds and real tokens.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from albert.examples.batches import PretrainingBatch, build_source, cut_batch
from albert.examples.settings import ExampleSettings
from albert.model.albert_model import build_model
from albert.model.config import build_preset
from albert.study.step_costs import HEADS, PAIR_HEAD, PeakMemory, build_train_step
from albert.training.distributed import DistributedContext
from albert.training.losses import PretrainLosses
from albert.training.optimizers import build_optimizer
from albert.training.pretrain import open_data, pretrain
from albert.training.run_folder import list_records
from albert.training.settings import HeldOutSettings, OptimizerSettings
from bench.plain_loop import PlainLoop, pad_batches
from bench.timing import median_ratio

MICRO_TOKENS = 2048
Step = Callable[[list[PretrainingBatch]], Any]


@dataclass(frozen=True)
class Case:
    """A model, and the sequence length and batch size of a step."""

    preset: str
    length: int
    batch_size: int
    rounds: int
    target: float


CASES = (
    Case("nano", 128, 32, rounds=11, target=1.5),
    Case("nano", 128, 128, rounds=5, target=1.5),
    Case("small", 128, 32, rounds=5, target=1.5),
    Case("small", 512, 8, rounds=5, target=1.5),
    Case("albert-base-v2", 128, 16, rounds=5, target=1.15),
    Case("albert-base-v2", 512, 4, rounds=5, target=1.15),
)
# Micro-batch sizes of the plain loop; the fastest counts.
MICRO_BATCH_SIZES = (4, 8, 16)


def fold(batch: PretrainingBatch, vocab_size: int) -> PretrainingBatch:
    """Map the ids into a smaller vocabulary; speed depends on the lengths only."""

    def into(ids: Any) -> Any:
        return np.where(ids < 5, ids, 5 + (ids - 5) % (vocab_size - 5))

    return replace(batch, ids_T=into(batch.ids_T), targets_M=into(batch.targets_M))


def build_our_step(preset: str, *, max_tokens: int) -> Step:
    """Build the step of `albert pretrain`: micro-batches, both losses, clipping, fused AdamW."""
    model = build_model(build_preset(preset), heads=HEADS).train()
    network = PretrainLosses(model, pair_head=PAIR_HEAD)
    # Both sides use AdamW, so that only the step is compared.
    optimizer = build_optimizer(model, OptimizerSettings(name="adamw"))
    train_step = build_train_step(network, optimizer, context=DistributedContext())

    def step(batches: list[PretrainingBatch]) -> None:
        parts = [part for batch in batches for part in cut_batch(batch, max_tokens=max_tokens)]
        train_step.run(parts, train_step.plan(parts), learning_rate=1e-5, options={})

    return step


def build_plain_step(preset: str, *, micro_batch_size: int) -> Step:
    """Build the step of the plain loop: padded micro-batches, both losses, clipping, fused AdamW."""
    loop = PlainLoop(build_preset(preset), learning_rate=1e-5)

    def step(batches: list[PretrainingBatch]) -> None:
        rows = [(batch, np.arange(len(batch.lengths))) for batch in batches]
        parts = [
            batch.select(all_B[i : i + micro_batch_size])
            for batch, all_B in rows
            for i in range(0, len(all_B), micro_batch_size)
        ]
        loop.step(*(pad_batches([part]) for part in parts))

    return step


def serve(side: str, preset: str, length: int, batch_size: int, corpus: Path) -> None:
    """Run one side: a step for each line of standard input."""
    torch.set_num_threads(2)
    data = open_data(corpus, HeldOutSettings())
    source = build_source(data.train, data.tokenizer, settings=ExampleSettings(max_length=length))
    if side == "ours":
        step = build_our_step(preset, max_tokens=MICRO_TOKENS)
    else:
        step = build_plain_step(preset, micro_batch_size=int(side))
    vocab_size = build_preset(preset).vocab_size
    with PeakMemory() as memory:
        for number, _ in enumerate(sys.stdin):
            batches = [fold(b, vocab_size) for b in source.build_step(number, batch_size=batch_size)]
            began = time.perf_counter()
            step(batches)
            answer = {
                "seconds": time.perf_counter() - began,
                "tokens": sum(len(batch.ids_T) for batch in batches),
                "padding": pad_batches(batches).padding_factor,
            }
            print(json.dumps(answer), flush=True)
    print(json.dumps({"peak_bytes": memory.peak_bytes}), flush=True)


def compare(case: Case, corpus: Path) -> dict[str, Any]:
    """Time a step of every side per round; the first round is a warm-up."""
    sizes = [size for size in MICRO_BATCH_SIZES if size < case.batch_size]
    names = {"ours": "ours", "plain": str(case.batch_size)} | {f"of {size}": str(size) for size in sizes}
    sides = {side: _start(name, case, corpus) for side, name in names.items()}
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
        timed = answers[side][1:]
        found[f"{side}_seconds"] = [answer["seconds"] for answer in timed]
        found[f"{side}_speed"] = float(np.median([answer["tokens"] / answer["seconds"] for answer in timed]))
    found["padding"] = float(np.mean([answer["padding"] for answer in answers["plain"]]))
    found["ratio"] = median_ratio(found["plain_seconds"], found["ours_seconds"])
    by_size = {size: median_ratio(found[f"of {size}_seconds"], found["ours_seconds"]) for size in sizes}
    by_size[case.batch_size] = found["ratio"]
    found["best_size"] = min(by_size, key=lambda size: by_size[size])
    found["best_ratio"] = by_size[found["best_size"]]
    return found


def _start(side: str, case: Case, corpus: Path) -> "subprocess.Popen[str]":
    words = [side, case.preset, str(case.length), str(case.batch_size), str(corpus)]
    return subprocess.Popen(
        [sys.executable, "-m", "bench.pretraining", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def measure_time_shares(corpus: Path, *, num_steps: int = 150) -> dict[str, float]:
    """Measure the shares of model, optimizer and waiting in the time of `albert pretrain nano`."""
    with tempfile.TemporaryDirectory() as name:
        overrides = [f"num_steps={num_steps}", "num_evaluations=1", "held_out.num_examples=64"]
        run = pretrain("nano", data=corpus, out=Path(name) / "run", overrides=overrides)
        records = list_records(run.run_dir, "train")
    total = sum(record["seconds"] for record in records)
    parts = ("model_seconds", "optimizer_seconds", "waited_seconds")
    return {part.removesuffix("_seconds"): sum(record[part] for record in records) / total for part in parts}


def _list(sizes: tuple[int, ...]) -> str:
    return ", ".join(map(str, sizes[:-1])) + f" or {sizes[-1]}"


def format_results(rows: list[dict[str, Any]], shares: dict[str, float]) -> str:
    """Format the section of docs/benchmarks.md."""
    lines = [
        "A whole step: forward, both losses, backward, clipping, fused AdamW; no dropout; the same examples",
        "from novels (10% of them short, as published); two threads; each side in its own process,",
        "interleaved. *Plain* is a loop around `AlbertForPreTraining` with dynamic padding. *At its best*:",
        f"the fastest of that and gradient accumulation over micro-batches of {_list(MICRO_BATCH_SIZES)}",
        f"sequences (size in brackets). Ours uses micro-batches of about {MICRO_TOKENS} tokens. Speeds are",
        "real tokens per second, medians.",
        "",
        "| | ours | plain | ratio | target | at its best | padded ÷ real | peak memory, ours ÷ plain |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        case, memory = row["case"], row["ours_peak"] / row["plain_peak"]
        lines.append(
            f"| {case.preset}, {case.batch_size} × {case.length} | {row['ours_speed']:,.0f} | "
            f"{row['plain_speed']:,.0f} | **{row['ratio']:.2f}×** | {case.target} | "
            f"{row['best_ratio']:.2f}× ({row['best_size']}) | "
            f"{row['padding']:.2f} | {row['ours_peak'] / 2**20:.0f} ÷ {row['plain_peak'] / 2**20:.0f} MiB = "
            f"**{memory:.2f}** |"
        )
    lines += [
        "",
        f"`albert pretrain nano` spends {shares['model']:.1%} of its time in the model and",
        f"{shares['optimizer']:.1%} in the optimizer, together",
        f"**{shares['model'] + shares['optimizer']:.1%}** (target 90%), and {shares['waited']:.1%} waiting",
        "for examples.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
