"""`python -m bench finetuning`: compare our loop with the Trainer of `transformers` on SST-2."""

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
    group_by_length,
    measure_padding,
    read_sentences,
    shuffle,
    split_rounds,
)
from bench.timing import median_ratio

ROUNDS = 5
Task = Literal["training", "evaluation"]
# Batches per round; five sorted rounds of training have all 50 batches that the Trainer sorts together.
NUM_BATCHES: dict[Task, dict[str, int]] = {
    "training": {"any": 2, "sorted": 10},
    "evaluation": {"any": 3, "sorted": 3},
}
Rounds = list[list[Row]]


@dataclass(frozen=True)
class Side:
    """A side of the comparison; `is_full` pads to the maximum length, not to the longest of a batch.

    It is compared with ours on the rounds `against`, which together hold the same sentences as its own.
    """

    title: str
    rounds: str
    target: float | None = None
    against: str = "any"
    batch_size: int = BATCH_SIZE
    is_full: bool = False

    @property
    def is_ours(self) -> bool:
        """Return whether this is our side, which has no title."""
        return not self.title

    def choose(self, rounds: Mapping[str, Rounds]) -> Rounds:
        """List the sentences of each round; if all batches have the same size, only the first batch."""
        found = rounds[self.rounds]
        return [rows[:BATCH_SIZE] for rows in found] if self.is_full else found

    def count_tokens(self, rounds: Mapping[str, Rounds]) -> list[float]:
        """Count the real tokens of each round; a part of a round counts for its share of them."""
        pairs = zip(self.choose(rounds), rounds[self.rounds], strict=True)
        return [len(part) / len(rows) * sum(len(row.ids) for row in rows) for part, rows in pairs]


SIDES: dict[Task, tuple[Side, ...]] = {
    "training": (
        Side("", "any"),
        Side(f"padded to {MAX_LENGTH} (`run_glue.py`)", "any", is_full=True),
        Side("default collator: padded to the longest of a batch", "any", 2.0),
        Side("", "mixed"),
        Side("the same, grouped by length", "sorted", 1.2, against="mixed"),
    ),
    "evaluation": (
        Side("", "any"),
        Side(f"batches of 8, padded to {MAX_LENGTH} (`run_glue.py`)", "any", batch_size=8, is_full=True),
        Side("batches of 8, default collator (all defaults)", "any", 1.6, batch_size=8),
        Side("batches of 32, default collator", "any", 1.6),
        Side("", "mixed"),
        Side("batches of 8, sorted by length", "sorted", against="mixed", batch_size=8),
        Side("batches of 32, sorted by length", "sorted", against="mixed"),
    ),
}


@dataclass(frozen=True)
class Result:
    """A side's seconds per real token in each round, and its padded ÷ real tokens."""

    side: Side
    seconds: list[float]
    padding: float


def build_rounds(sentences: Sentences, task: Task) -> dict[str, Rounds]:
    """Build rounds of sentences: in random order, sorted by length, and the sorted ones shuffled."""
    if task == "training":
        # Not the first 50 batches: the Trainer puts the longest sentence of all into these.
        part = slice(50 * BATCH_SIZE, 100 * BATCH_SIZE)
        orders = {"any": shuffle(sentences.train)[part], "sorted": group_by_length(sentences.train)[part]}
    else:
        orders = {"any": sentences.dev, "sorted": sorted(sentences.dev, key=lambda row: len(row.ids))}
    rounds = {
        name: split_rounds(rows, num_rounds=ROUNDS, num_batches=NUM_BATCHES[task][name])
        for name, rows in orders.items()
    }
    mixed = shuffle([row for rows in rounds["sorted"] for row in rows])
    size = NUM_BATCHES[task]["sorted"] * BATCH_SIZE
    return {**rounds, "mixed": [mixed[i * size : (i + 1) * size] for i in range(ROUNDS)]}


def compare(task: Task, rounds: Mapping[str, Rounds], *, sides: Sequence[Side]) -> list[Result]:
    """Time every side in its own process, interleaved; the first round is also the warm-up."""
    chosen = [side.choose(rounds) for side in sides]
    tokens = [side.count_tokens(rounds) for side in sides]
    seconds: list[list[float]] = [[] for _ in sides]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        processes = [
            stack.enter_context(_start(task, side, [rows[0], *rows], folder / f"{index}.json"))
            for index, (side, rows) in enumerate(zip(sides, chosen, strict=True))
        ]
        for number in range(-1, len(chosen[0])):
            print(f"{task}, round {number + 1} of {len(chosen[0])}", file=sys.stderr, flush=True)
            for process, counts, found in zip(processes, tokens, seconds, strict=True):
                elapsed = _run_round(process)
                if number >= 0:
                    found.append(elapsed / counts[number])
    paddings = [_find_padding(side, rows) for side, rows in zip(sides, chosen, strict=True)]
    return [Result(*each) for each in zip(sides, seconds, paddings, strict=True)]


def _start(task: Task, side: Side, rounds: Rounds, path: Path) -> "subprocess.Popen[str]":
    path.write_text(json.dumps([[(row.ids, row.label) for row in rows] for rows in rounds]))
    padding = "full" if side.is_full else "longest"
    words = [task, "ours" if side.is_ours else "theirs", str(side.batch_size), padding, str(path)]
    return subprocess.Popen(
        [sys.executable, "-m", "bench.finetuning_sides", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _run_round(process: "subprocess.Popen[str]") -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("round\n")
    process.stdin.flush()
    return float(json.loads(process.stdout.readline())["seconds"])


def _find_padding(side: Side, rounds: Rounds) -> float:
    if side.is_ours:
        return 1.0
    return measure_padding(
        [row for rows in rounds for row in rows], batch_size=side.batch_size, is_full=side.is_full
    )


def format_results(results: Sequence[Result]) -> list[str]:
    """Format a row for each side of the Trainer: real tokens per second, and the ratio of times."""
    ours = {found.side.rounds: found.seconds for found in results if found.side.is_ours}
    lines = []
    for found in results:
        side = found.side
        if not side.is_ours:
            own = ours[side.against]
            times = median_ratio(found.seconds, own)
            cells = [
                side.title,
                *(f"{1 / statistics.median(seconds):,.0f}" for seconds in (own, found.seconds)),
                f"{found.padding:.2f}",
                f"**{times:.2f}×**" if side.target else f"{times:.2f}×",
                "–" if side.target is None else f"{side.target:g}{', missed' if times < side.target else ''}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


TITLES: dict[Task, str] = {
    "training": f"Training, batches of {BATCH_SIZE}",
    "evaluation": "Evaluation on the dev set",
}
HEAD = [
    "| Trainer | ours, tokens/s | Trainer's | padded ÷ real | ratio | target |",
    "|---|---|---|---|---|---|",
]


def format_section() -> str:
    """Measure, and format both tables."""
    sentences = read_sentences()
    epochs = (shuffle(sentences.train), group_by_length(sentences.train))
    paddings = " and ".join(f"{measure_padding(epoch, batch_size=BATCH_SIZE):.2f}" for epoch in epochs)
    lines = [
        f"{sentences.source}, at most {MAX_LENGTH} tokens; base width (E 128, H 768, 12 shared layers, V",
        "30,000), float32, two threads. Dropout as in ALBERT v2: none in the encoder, 0.1 before the",
        "classifier. Ours is the loop of `albert finetune`, without padding; the alternative is the",
        "`Trainer` of `transformers`; both with clipping and fused AdamW. Each side runs in its own process",
        f"on the same sentences, interleaved, {ROUNDS} rounds after a warm-up. *Default collator*: the",
        f"Trainer's when it gets a tokenizer; `run_glue.py` pads every sentence to {MAX_LENGTH} instead.",
        "*Grouped by length*: the Trainer's own order. Speeds are real tokens per second, medians. Over a",
        f"whole epoch, padded ÷ real is {paddings} by default and grouped.",
    ]
    for task, title in TITLES.items():
        results = compare(task, build_rounds(sentences, task), sides=SIDES[task])
        lines += ["", f"**{title}**", "", *HEAD, *format_results(results)]
    return "\n".join(lines)
