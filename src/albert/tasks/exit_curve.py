"""Accuracy against speed: a model with exits and examples come in, a point for each patience goes out."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np
import torch
from numpy.typing import NDArray

from albert.errors import InputError
from albert.inference.predictor import iter_batches
from albert.model.albert_model import AlbertModel
from albert.pretrained.folder import load_model, load_vocabulary
from albert.tasks.encoding.texts import EncodedText
from albert.tasks.examples import TextExample
from albert.tasks.kinds.exits import ExitTextKind
from albert.tasks.task_facts import build_kind, read_facts


@dataclass(frozen=True)
class ExitPoint:
    """One way to run the model: with a patience, or (None) every text through `depth` layers.

    `seconds` is the time of all examples, and `speed` how many times as fast as the whole model that is.
    """

    patience: int | None
    depth: int
    score: float
    mean_layers: float
    seconds: float
    speed: float

    @property
    def option(self) -> str:
        """How `albert predict` is asked for it."""
        return f"--depth {self.depth}" if self.patience is None else f"--patience {self.patience}"


@dataclass(frozen=True)
class ExitCurve:
    """The points of one model: every depth, of which the last is the whole model, and every patience."""

    depths: tuple[ExitPoint, ...]
    patiences: tuple[ExitPoint, ...]
    num_examples: int

    @property
    def full(self) -> ExitPoint:
        """Every layer for every text."""
        return self.depths[-1]

    def choose(self, *, max_loss: float = 0.5) -> ExitPoint | None:
        """The fastest way that costs at most so many points of the score; None where none is faster.

        A depth is one as well as a patience: what is easier to run may be what is better. A patience that no
        text ever meets goes through all layers, and is no way of its own.
        """
        others = [
            point
            for point in (*self.depths[:-1], *self.patiences)
            if point.mean_layers < self.full.mean_layers and point.speed > 1
        ]
        good = [point for point in others if point.score >= self.full.score - max_loss]
        return max(good, key=lambda point: point.speed, default=None)


@dataclass(frozen=True)
class _Way:
    """How the model is asked."""

    patience: int | None
    depth: int


@dataclass(frozen=True)
class _Exam:
    """A model and what it is asked, again and again."""

    model: AlbertModel
    kind: ExitTextKind
    items: Sequence[EncodedText]
    max_tokens: int

    def ask(self, way: _Way) -> tuple[NDArray[np.float64], float]:
        """The logits of all items in their order, and how many layers they took in the mean."""
        kind = replace(self.kind, patience=way.patience)
        logits = np.empty((len(self.items), kind.num_labels))
        num_layers = 0
        lengths = [kind.measure(item) for item in self.items]
        for places in iter_batches(lengths, max_tokens=self.max_tokens):
            batch = kind.build_batch([self.items[place] for place in places])
            found = kind.answer(self.model, batch, depth=way.depth)
            logits[places] = found.logits_BK.cpu().numpy()
            num_layers += int(found.num_layers.sum())
        return logits, num_layers / len(self.items)

    def time(self, way: _Way) -> float:
        """Seconds from pieces to logits."""
        begin = time.perf_counter()
        self.ask(way)
        return time.perf_counter() - begin


def measure_folder(
    folder: Path, examples: Sequence[TextExample], *, max_tokens: int = 2048, num_rounds: int = 5
) -> ExitCurve:
    """The curve of a fine-tuned folder; one without exits is refused."""
    facts = read_facts(folder)
    if facts is None or not facts.has_exits:
        raise InputError(f"{folder}: has no exits; fine-tune a model with has_exits=true and give its folder")
    kind = build_kind(facts)
    assert isinstance(kind, ExitTextKind)
    model = load_model(folder, heads=kind.heads).model
    items = kind.encode(examples, load_vocabulary(folder))
    return measure_curve(model, kind, items, examples, max_tokens=max_tokens, num_rounds=num_rounds)


@torch.inference_mode()
def measure_curve(
    model: AlbertModel,
    kind: ExitTextKind,
    items: Sequence[EncodedText],
    examples: Sequence[TextExample],
    *,
    max_tokens: int = 2048,
    num_rounds: int = 5,
) -> ExitCurve:
    """Ask in every way there is, once for the scores and then `num_rounds` times by the clock, in turns.

    A time is the median over the rounds, and so is a speed: the whole model's time to it in each round.
    """
    if not items:
        raise InputError("there are no examples to measure a curve on; give some with labels")
    exam = _Exam(model, kind, items, max_tokens)
    layers = range(1, model.config.num_hidden_layers + 1)
    # With a patience of all layers nothing leaves early: it shows what watching costs.
    ways = [*(_Way(None, depth) for depth in layers), *(_Way(patience, layers[-1]) for patience in layers)]
    answers = [exam.ask(way) for way in ways]
    # Forth and back, so that a machine that grows slower or faster favours nobody.
    turns = [ways if number % 2 == 0 else ways[::-1] for number in range(num_rounds)]
    rounds = [{way: exam.time(way) for way in turn} for turn in turns]
    whole = ways[len(layers) - 1]
    points = [
        ExitPoint(
            patience=way.patience,
            depth=way.depth,
            score=kind.score(list(logits), examples)["score"],
            mean_layers=mean_layers,
            seconds=median(seconds[way] for seconds in rounds),
            speed=median(seconds[whole] / seconds[way] for seconds in rounds),
        )
        for way, (logits, mean_layers) in zip(ways, answers, strict=True)
    ]
    return ExitCurve(tuple(points[: len(layers)]), tuple(points[len(layers) :]), len(items))
