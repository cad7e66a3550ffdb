"""Compare how long waiting threads should spin, on a quiet machine and beside other programs.

OpenMP reads the setting once, so each setting has a process of its own, and they take turns.
`python -m bench.busy WORK` is such a process: for each number of seconds on standard input it works so long
and answers with its speed.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import torch

from albert.model.config import build_preset
from albert.study.step_costs import build_random_batch
from albert.threads import NUM_VARIABLE, SPIN_COUNT, SPIN_VARIABLES
from bench.against_transformers import THREADS, build_ours, our_logits
from bench.batches import ragged_batch
from bench.pretraining import MICRO_TOKENS, build_our_step

SETTINGS: Mapping[str, Mapping[str, str]] = {
    "as it is": {},
    "passive": {"OMP_WAIT_POLICY": "passive"},
    **{f"{count:,}": {"GOMP_SPINCOUNT": str(count)} for count in (100, 1000, 10_000)},
}
CHOSEN = f"{SPIN_COUNT:,}"
WORK = {
    "training": "training nano, tokens/s",
    "inference": "base width, 32 ragged texts, tokens/s",
    "latency": "base width, one sentence, sentences/s",
}
_OTHERS = {
    "alone": None,
    "two busy loops": "while True: pass",
    "two torch processes": "import torch; torch.set_num_threads(2); x = torch.randn(256, 256)\n"
    "while True: x = torch.nn.functional.normalize(x @ x)",
}
_SECONDS, _ROUNDS = 2.0, 5


def measure(rounds: int = _ROUNDS) -> dict[tuple[str, str, str], float]:
    """Measure each kind of work beside each load with each setting: medians of the speeds."""
    found: dict[tuple[str, str, str], float] = {}
    for work in WORK:
        with _start_sides(work) as sides:
            for load in _OTHERS:
                print(f"{work}, {load}", file=sys.stderr, flush=True)
                with _run_others(load):
                    speeds: dict[str, list[float]] = {name: [] for name in SETTINGS}
                    for number in range(rounds + 1):
                        for name, ask in sides.items():
                            speed = ask(_SECONDS)
                            if number:  # the first round warms up
                                speeds[name].append(speed)
                found |= {(work, load, name): statistics.median(values) for name, values in speeds.items()}
    return found


@contextmanager
def _start_sides(work: str) -> Iterator[dict[str, Callable[[float], float]]]:
    kept = {k: v for k, v in os.environ.items() if k not in (*SPIN_VARIABLES, NUM_VARIABLE)}
    started = {
        name: subprocess.Popen(
            [sys.executable, "-m", "bench.busy", work],
            env={**kept, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name, variables in SETTINGS.items()
    }

    try:
        yield {name: partial(_ask, process) for name, process in started.items()}
    finally:
        for process in started.values():
            process.kill()
            process.wait()


def _ask(process: "subprocess.Popen[str]", seconds: float) -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    print(seconds, file=process.stdin, flush=True)
    return float(process.stdout.readline())


@contextmanager
def _run_others(load: str) -> Iterator[None]:
    code = _OTHERS[load]
    others = [] if code is None else [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    try:
        time.sleep(3 if others else 0)  # until torch is imported
        yield
    finally:
        for process in others:
            process.kill()
            process.wait()


def _build_work(name: str) -> tuple[Callable[[], object], int]:
    """Return a function to repeat, and what it counts for."""
    if name == "training":
        config = build_preset("nano")
        examples = build_random_batch(config, num_sequences=32, length=128)
        step = build_our_step("nano", max_tokens=MICRO_TOKENS)
        return lambda: step([examples]), len(examples.ids_T)
    model, batch = build_ours(), ragged_batch()
    if name == "latency":
        batch = batch.split(1)[0]
    infer = torch.inference_mode()(lambda: our_logits(model, batch))
    return infer, 1 if name == "latency" else len(batch.tokens.ids_T)


def serve(name: str) -> None:
    """Work for each number of seconds on standard input, and answer with the speed."""
    torch.set_num_threads(THREADS)
    run, amount = _build_work(name)
    for line in sys.stdin:
        start, count = time.perf_counter(), 0
        while (seconds := time.perf_counter() - start) < float(line) or not count:
            run()
            count += 1
        print(amount * count / seconds, flush=True)


def format_section() -> str:
    """Measure, and format a table for each kind of work."""
    found = measure()
    lines = [
        "Waiting threads spin before they sleep. The columns are OpenMP's default, OMP_WAIT_POLICY=passive,",
        f"and spin counts (GOMP_SPINCOUNT). Commands of albert and `albert.tune_threads()` set {CHOSEN}. Two",
        f"threads on two cores; each setting in its own process, in turns of {_SECONDS:g} s; medians of",
        f"{_ROUNDS} rounds, in brackets as a share of the default's speed on the quiet machine. The other",
        "torch processes have two threads each and the default setting.",
    ]
    for work, title in WORK.items():
        quiet = found[work, "alone", "as it is"]
        lines += [
            "",
            f"| {title} | {' | '.join(SETTINGS)} |",
            "|---|" + "---:|" * len(SETTINGS),
        ]
        for load in _OTHERS:
            speeds = [found[work, load, name] for name in SETTINGS]
            cells = " | ".join(f"{speed:,.0f} ({speed / quiet:.0%})" for speed in speeds)
            lines.append(f"| {load} | {cells} |")
    return "\n".join(lines)


if __name__ == "__main__":
    serve(sys.argv[1])
