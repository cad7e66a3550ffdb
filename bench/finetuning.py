"""`python -m bench finetuning`: SST-2 at base width, our loop and the Trainer of `transformers`, in turns."""

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.sentiment import (
    BATCH_SIZE,
    MAX_LENGTH,
    Row,
    Sentences,
    deal_rounds,
    group_by_length,
    measure_padding,
    read_sentences,
    shuffle_rounds,
)
from bench.timing import ratio

ROUNDS = 5
STEPS = 4  # of a round of training
ASKED = 96  # sentences of a round of evaluation
Task = Literal["training", "evaluation"]
Rounds = list[list[Row]]


@dataclass(frozen=True)
class Side:
    """One way to do the same work: `is_full` pads to the greatest length, not to the longest of a batch.

    Such batches are all alike, so the first sentences stand for the round.
    """

    title: str
    order: str
    needed: float | None = None
    engine: str = "theirs"
    batch_size: int = BATCH_SIZE
    is_full: bool = False

    def choose(self, rounds: Mapping[str, Rounds]) -> Rounds:
        """Its sentences of each round, in its order."""
        found = rounds[self.order]
        return [rows[:BATCH_SIZE] for rows in found] if self.is_full else found


OURS = Side("ours, no padding", "any", engine="ours")
SIDES: dict[Task, tuple[Side, ...]] = {
    "training": (
        OURS,
        Side(f"padded to {MAX_LENGTH} (`run_glue.py`'s default)", "any", is_full=True),
        Side("**default collator**: padded to the longest of a batch", "any", 2.0),
        Side("the same, **grouped by length**", "grouped", 1.2),
    ),
    "evaluation": (
        OURS,
        Side(
            f"batches of 8, padded to {MAX_LENGTH} (`run_glue.py`'s default)",
            "any",
            batch_size=8,
            is_full=True,
        ),
        Side("batches of 8, padded to the longest (**the default**)", "any", 1.6, batch_size=8),
        Side("batches of 32, padded to the longest", "any", 1.6),
        Side("batches of 8, sorted by length", "grouped", batch_size=8),
        Side("batches of 32, sorted by length", "grouped"),
    ),
}


@dataclass(frozen=True)
class Result:
    """What a side took for each sentence, round by round, and its padded tokens to real ones."""

    side: Side
    seconds: list[float]
    padding: float


def deal(sentences: Sentences, task: Task) -> dict[str, Rounds]:
    """The same sentences in each round, in any order and by length."""
    if task == "training":
        grouped = deal_rounds(group_by_length(sentences.train), num_rounds=ROUNDS, num_steps=STEPS)
        return {"grouped": grouped, "any": shuffle_rounds(grouped)}
    rounds = [sentences.dev[i * ASKED : (i + 1) * ASKED] for i in range(ROUNDS)]
    return {"any": rounds, "grouped": [sorted(rows, key=lambda row: len(row.ids)) for rows in rounds]}


def compare(task: Task, rounds: Mapping[str, Rounds], *, sides: Sequence[Side]) -> list[Result]:
    """Every side in a process of its own, asked in turns; the first round warms up, and comes again."""
    chosen = [side.choose(rounds) for side in sides]
    seconds: list[list[float]] = [[] for _ in sides]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        processes = [
            stack.enter_context(_start(task, side, [rows[0], *rows], folder / f"{place}.json"))
            for place, (side, rows) in enumerate(zip(sides, chosen, strict=True))
        ]
        for number in range(-1, len(chosen[0])):
            print(f"{task}, round {number + 1} of {len(chosen[0])}", file=sys.stderr, flush=True)
            for process, rows, found in zip(processes, chosen, seconds, strict=True):
                answer = _ask(process)
                if number >= 0:
                    found.append(answer / len(rows[number]))
    paddings = [_measure(side, rows) for side, rows in zip(sides, chosen, strict=True)]
    return [Result(*each) for each in zip(sides, seconds, paddings, strict=True)]


def _start(task: Task, side: Side, rounds: Rounds, path: Path) -> "subprocess.Popen[str]":
    path.write_text(json.dumps([[(row.ids, row.label) for row in rows] for rows in rounds]))
    padding = "full" if side.is_full else "longest"
    words = [task, side.engine, str(side.batch_size), padding, str(path)]
    return subprocess.Popen(
        [sys.executable, "-m", "bench.finetuning_sides", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _ask(process: "subprocess.Popen[str]") -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("round\n")
    process.stdin.flush()
    return float(json.loads(process.stdout.readline())["seconds"])


def _measure(side: Side, rounds: Rounds) -> float:
    if side.engine == "ours":
        return 1.0
    return measure_padding(
        [row for rows in rounds for row in rows], batch_size=side.batch_size, is_full=side.is_full
    )


def format_results(results: Sequence[Result]) -> list[str]:
    """A row for each side: sentences a second, and how many times ours."""
    ours, lines = results[0], []
    for found in results:
        speed = 1 / statistics.median(found.seconds)
        cells = [found.side.title, f"{speed:.1f}", f"{found.padding:.2f}"]
        if found is ours:
            cells += ["", ""]
        else:
            needed = f"{found.side.needed:g}" if found.side.needed else "–"
            times = ratio(found.seconds, ours.seconds)
            cells += [f"**{times:.2f}×**" if found.side.needed else f"{times:.2f}×", needed]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


TITLES: dict[Task, str] = {
    "training": f"Training, batches of {BATCH_SIZE}, {STEPS} steps a round",
    "evaluation": f"Evaluation with the score, {ASKED} sentences of the dev set a round",
}
HEAD = ["| | sentences/s | padded ÷ real | ours is faster | needed |", "|---|---|---|---|---|"]


def format_section() -> str:
    """Both tables of the report."""
    sentences = read_sentences()
    lines = [
        f"{sentences.source}, at most {MAX_LENGTH} pieces; base width (E 128, H 768, 12 shared layers,",
        "V 30,000), float32, two threads. Dropout as in the second published version: none in the encoder,",
        "0.1 before the classifier. Ours is the loop of `albert finetune`, theirs the `Trainer` of",
        "`transformers`, both with clipping and fused AdamW; each side in a process of its own, asked in",
        f"turns, on the same sentences, {ROUNDS} rounds after one to warm up. *Default collator*: the one that",
        "the Trainer takes when it is given a tokenizer; `run_glue.py` instead pads every sentence to",
        f"{MAX_LENGTH} before. *Grouped*: batches of the Trainer's own length-grouped order of the whole epoch,",
        "evenly from its longest to its shortest.",
    ]
    for task, title in TITLES.items():
        results = compare(task, deal(sentences, task), sides=SIDES[task])
        lines += ["", f"**{title}**", "", *HEAD, *format_results(results)]
    return "\n".join(lines)
