"""Measure the accuracy and speed of a model with early exits, at each depth and each patience."""

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

_Mode = tuple[int | None, int]  # patience (None without early exit) and depth


@dataclass(frozen=True)
class ExitPoint:
    """Score and speed of the model with a patience, or (None) with `depth` layers for all texts.

    `seconds` is the time of all examples; `speed` is relative to the full model.
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
    """The points of a model: all depths, the last of which is the full model, and all patiences."""

    depths: tuple[ExitPoint, ...]
    patiences: tuple[ExitPoint, ...]
    num_examples: int

    @property
    def full(self) -> ExitPoint:
        """The full model: all layers for all texts."""
        return self.depths[-1]

    def choose(self, *, max_loss: float = 0.5) -> ExitPoint | None:
        """Choose the fastest point with at most `max_loss` points less than the full model; None if none is.

        A patience with which all texts use all layers is not a candidate.
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
    """Measure the curve of a fine-tuned folder; raise `InputError` if it has no early exits."""
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
    """Run the model at each depth and with each patience, once for the scores and `num_rounds` times timed.

    Times are medians over rounds. Speeds are medians of the ratio to the full model in the same round.
    """
    if not items:
        raise InputError("no examples to measure; give labeled examples")
    lengths = [item.num_tokens for item in items]

    def run(mode: _Mode) -> tuple[list[NDArray[np.float64]], float, float]:
        """Return the logits in the order of the items, the mean number of layers, and the seconds."""
        start, num_layers = time.perf_counter(), 0
        logits: dict[int, NDArray[np.float64]] = {}
        for indices in iter_batches(lengths, max_tokens=max_tokens):
            batch = task.build_batch([items[index] for index in indices])
            output = task.predict_early(model, batch, patience=mode[0], depth=mode[1])
            logits.update(zip(indices, output.logits_BK.cpu().numpy().astype(np.float64), strict=True))
            num_layers += int(output.num_layers.sum())
        return (
            [logits[index] for index in range(len(items))],
            num_layers / len(items),
            time.perf_counter() - start,
        )

    layers = range(1, model.config.num_hidden_layers + 1)
    full: _Mode = (None, layers[-1])
    # With a patience of all layers no text exits early, which shows the cost of comparing layers.
    modes = [*((None, depth) for depth in layers), *((patience, layers[-1]) for patience in layers)]
    answers = {mode: run(mode)[:2] for mode in modes}
    # In alternating order, so that a drift of the machine's speed cancels out.
    orders = [modes if number % 2 == 0 else modes[::-1] for number in range(num_rounds)]
    rounds = [{mode: run(mode)[2] for mode in order} for order in orders]
    points = [
        ExitPoint(
            patience=mode[0],
            depth=mode[1],
            score=task.score(logits, examples)["score"],
            mean_layers=mean_layers,
            seconds=median(seconds[mode] for seconds in rounds),
            speed=median(seconds[full] / seconds[mode] for seconds in rounds),
        )
        for mode, (logits, mean_layers) in answers.items()
    ]
    return ExitCurve(tuple(points[: len(layers)]), tuple(points[len(layers) :]), len(items))
