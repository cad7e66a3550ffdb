"""Accuracy against speed of a model with early exits, for each depth and each patience."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import torch
from numpy.typing import NDArray

from albert.errors import InputError
from albert.inference.predictor import iter_batches
from albert.model.albert_model import AlbertModel
from albert.pretrained.folder import load_model, load_vocabulary
from albert.tasks.catalogue import build_task, read_config
from albert.tasks.task import AnyTask, Example, Item

_Way = tuple[int | None, int]  # patience (or None) and depth


@dataclass(frozen=True)
class ExitPoint:
    """One way to run the model: with a patience, or (None) every text through `depth` layers.

    `seconds` is the time of all examples, and `speed` is relative to the whole model.
    """

    patience: int | None
    depth: int
    score: float
    mean_layers: float
    seconds: float
    speed: float

    @property
    def option(self) -> str:
        """The option of `albert predict`."""
        return f"--depth {self.depth}" if self.patience is None else f"--patience {self.patience}"


@dataclass(frozen=True)
class ExitCurve:
    """The points of a model: every depth, of which the last is the whole model, and every patience."""

    depths: tuple[ExitPoint, ...]
    patiences: tuple[ExitPoint, ...]
    num_examples: int

    @property
    def full(self) -> ExitPoint:
        """Every layer for every text."""
        return self.depths[-1]

    def choose(self, *, max_loss: float = 0.5) -> ExitPoint | None:
        """Choose the fastest way that costs at most `max_loss` points; None where none is faster.

        A patience that no text ever meets goes through all layers, and is not a candidate.
        """
        others = [
            point
            for point in (*self.depths[:-1], *self.patiences)
            if point.mean_layers < self.full.mean_layers and point.speed > 1
        ]
        good = [point for point in others if point.score >= self.full.score - max_loss]
        return max(good, key=lambda point: point.speed, default=None)


def measure_folder(
    folder: Path, examples: Sequence[Example], *, max_tokens: int = 2048, num_rounds: int = 5
) -> ExitCurve:
    """Measure the curve of a fine-tuned folder; one without exits is rejected."""
    config = read_config(folder)
    if config is None or not config.has_early_exits:
        raise InputError(f"{folder}: has no early exits; fine-tune a model with has_exits=true")
    task = build_task(config)
    model = load_model(folder, heads=task.heads).model
    items = task.encode(examples, load_vocabulary(folder))
    return measure_curve(model, task, items, examples, max_tokens=max_tokens, num_rounds=num_rounds)


@torch.inference_mode()
def measure_curve(
    model: AlbertModel,
    task: AnyTask,
    items: Sequence[Item],
    examples: Sequence[Example],
    *,
    max_tokens: int = 2048,
    num_rounds: int = 5,
) -> ExitCurve:
    """Run the model at every depth and with every patience, once for the scores and `num_rounds` times timed.

    A time is the median over the rounds, and so is a speed: the whole model's time to it in each round.
    """
    if not items:
        raise InputError("no examples to measure; give labeled examples")
    lengths = [item.num_tokens for item in items]

    def run(way: _Way) -> tuple[list[NDArray[np.float64]], float, float]:
        """Return the logits in the order of the items, the mean number of layers, and the seconds."""
        begin, num_layers = time.perf_counter(), 0
        logits: dict[int, NDArray[np.float64]] = {}
        for indices in iter_batches(lengths, max_tokens=max_tokens):
            batch = task.build_batch([items[index] for index in indices])
            found = task.predict_early(model, batch, patience=way[0], depth=way[1])
            logits.update(zip(indices, found.logits_BK.cpu().numpy().astype(np.float64), strict=True))
            num_layers += int(found.num_layers.sum())
        return (
            [logits[index] for index in range(len(items))],
            num_layers / len(items),
            time.perf_counter() - begin,
        )

    layers = range(1, model.config.num_hidden_layers + 1)
    whole: _Way = (None, layers[-1])
    # With a patience of all layers nothing leaves early: it shows what comparing layers costs.
    ways = [*((None, depth) for depth in layers), *((patience, layers[-1]) for patience in layers)]
    answers = {way: run(way)[:2] for way in ways}
    # Forth and back, so that a machine that grows slower or faster favors nobody.
    turns = [ways if number % 2 == 0 else ways[::-1] for number in range(num_rounds)]
    rounds = [{way: run(way)[2] for way in turn} for turn in turns]
    points = [
        ExitPoint(
            patience=way[0],
            depth=way[1],
            score=task.score(logits, examples)["score"],
            mean_layers=mean_layers,
            seconds=median(seconds[way] for seconds in rounds),
            speed=median(seconds[whole] / seconds[way] for seconds in rounds),
        )
        for way, (logits, mean_layers) in answers.items()
    ]
    return ExitCurve(tuple(points[: len(layers)]), tuple(points[len(layers) :]), len(items))
