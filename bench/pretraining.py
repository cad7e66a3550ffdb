"""A pretraining step, ours and the plain loop's: each side in a process of its own, asked in turns.

`python -m bench.pretraining SIDE PRESET LENGTH BATCH CORPUS` is one side (`ours`, or how many sequences the plain
loop takes at once): a line on standard input is a step, the answer is its seconds and its real tokens.
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
from bench.timing import ratio

MICRO_TOKENS = 2048
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
    Case("nano", 128, 32, rounds=11, needed=1.5),
    Case("nano", 128, 128, rounds=5, needed=1.5),
    Case("small", 128, 32, rounds=5, needed=1.5),
    Case("small", 512, 8, rounds=5, needed=1.5),
    Case("albert-base-v2", 128, 16, rounds=5, needed=1.15),
    Case("albert-base-v2", 512, 4, rounds=5, needed=1.15),
)
# The plain loop at its best: the same step, its gradient gathered from shares of so many sequences.
SHARE_SIZES = (4, 8, 16)


def fold(batch: PretrainingBatch, vocab_size: int) -> PretrainingBatch:
    """The same batch in a smaller vocabulary: speed depends on lengths, not on which piece it is."""

    def into(ids: Any) -> Any:
        return np.where(ids < 5, ids, 5 + (ids - 5) % (vocab_size - 5))

    return replace(batch, ids_T=into(batch.ids_T), targets_M=into(batch.targets_M))


def build_our_step(preset: str, *, max_tokens: int) -> Step:
    """The step of `albert pretrain`: micro-batches, both losses, clipping, fused AdamW."""
    model = build_model(build_preset(preset), heads=HEADS).train()
    network = PretrainLosses(model, pair_head=PAIR_HEAD)
    # The plain loop's optimiser, whatever a recipe prefers: what is compared is the step.
    optimizer = build_optimizer(model, OptimizerSettings(name="adamw"))
    train_step = build_train_step(network, optimizer, context=DistributedContext())

    def step(batches: list[PretrainingBatch]) -> None:
        shares = [share for batch in batches for share in cut_batch(batch, max_tokens=max_tokens)]
        train_step.run(shares, train_step.plan(shares), learning_rate=1e-5, options={})

    return step


def build_plain_step(preset: str, *, share_size: int) -> Step:
    """The plain loop's: pad, forward and backward for each share of the step; clip, fused AdamW."""
    loop = PlainLoop(build_preset(preset), learning_rate=1e-5)

    def step(batches: list[PretrainingBatch]) -> None:
        rows = [(batch, np.arange(len(batch.lengths))) for batch in batches]
        shares = [
            b.select(all_B[i : i + share_size]) for b, all_B in rows for i in range(0, len(all_B), share_size)
        ]
        loop.step(*(pad_batches([share]) for share in shares))

    return step


def serve(side: str, preset: str, length: int, batch_size: int, corpus: Path) -> None:
    """One side: a step for each line of standard input."""
    torch.set_num_threads(2)
    data = open_data(corpus, HeldOutSettings())
    source = build_source(data.train, data.tokenizer, settings=ExampleSettings(max_length=length))
    if side == "ours":
        step = build_our_step(preset, max_tokens=MICRO_TOKENS)
    else:
        step = build_plain_step(preset, share_size=int(side))
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
    """All sides in turns, a step each a round; the first round warms up."""
    sizes = [size for size in SHARE_SIZES if size < case.batch_size]
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
    found["ratio"] = ratio(found["plain_seconds"], found["ours_seconds"])
    by_size = {size: ratio(found[f"of {size}_seconds"], found["ours_seconds"]) for size in sizes}
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


def measure_shares(corpus: Path, *, num_steps: int = 150) -> dict[str, float]:
    """Where the seconds of a real run go: `albert pretrain nano` with a worker that makes examples ahead."""
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
    """The table of the report."""
    lines = [
        "A whole step: forward, both losses, backward, clipping, fused AdamW; no dropout; the same examples of real",
        "novels (10% of them short, as published), two threads, each side in a process of its own, asked in turns.",
        "*Plain* is a loop around `AlbertForPreTraining` with dynamic padding. *At its best*: the fastest of that and the",
        f"same step gathered from shares of {_list(SHARE_SIZES)} sequences (in brackets which). Ours computes a step in",
        f"shares of about {MICRO_TOKENS} pieces. Speeds are real pieces a second, medians.",
        "",
        "| | ours | plain | ratio | needed | at its best | padded ÷ real | peak memory, ours ÷ plain |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        case, memory = row["case"], row["ours_peak"] / row["plain_peak"]
        lines.append(
            f"| {case.preset}, {case.batch_size} × {case.length} | {row['ours_speed']:,.0f} | "
            f"{row['plain_speed']:,.0f} | **{row['ratio']:.2f}×** | {case.needed} | "
            f"{row['best_ratio']:.2f}× ({row['best_size']}) | "
            f"{row['padding']:.2f} | {row['ours_peak'] / 2**20:.0f} ÷ {row['plain_peak'] / 2**20:.0f} MiB = "
            f"**{memory:.2f}** |"
        )
    lines += [
        "",
        f"Of the seconds of `albert pretrain nano`, {shares['model']:.1%} are in the model and "
        f"{shares['optimizer']:.1%} in the optimiser: together **{shares['model'] + shares['optimizer']:.1%}** "
        f"(needed 90%); {shares['waited']:.1%} go into waiting for examples.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
