"""Token classification: a label for each word, and entities where the labels are O, B-… and I-….

Shapes: T tokens, P words, D hidden width, K labels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from albert.errors import InputError
from albert.model.albert_model import AlbertModel, Heads
from albert.tasks.encoding.words import WordWindow, iter_encoded_words
from albert.tasks.examples import TokenExample
from albert.tasks.kinds.kind import Ints, Kind, TaskBatch, Terms, lay_out
from albert.tasks.kinds.logits import UNKNOWN_LABEL, Floats, find_probabilities, merge_logits
from albert.tasks.metrics.classification import count_classes, count_entities, find_entities
from albert.tasks.metrics.intervals import Interval
from albert.tasks.metrics.task_score import WeightedScores, with_score
from albert.text.tokenizer import Tokenizer

HEAD = "token_classification"
WORD_METRICS = ("word_accuracy", "macro_f1")
ENTITY_METRICS = ("entity_f1", "entity_precision", "entity_recall")


@dataclass(frozen=True)
class WordAnswers:
    """The words of a batch: their first tokens in the flat batch, their labels, and how many a window has."""

    places_P: Ints
    labels_P: Ints
    num_words: tuple[int, ...]


@dataclass(frozen=True)
class WordKind(Kind[TokenExample, WordWindow, WordAnswers, Floats, Floats]):
    """One of the labels for each word; a long text is read in windows that overlap.

    Where the labels are O, B-… and I-…, a model is judged by the F1 of entities, else by the accuracy and the
    macro F1 of words, unless `metrics` names others. `class_weights` are of mean 1 over the training words.
    """

    labels: tuple[str, ...]
    metrics: tuple[str, ...] = ()
    max_length: int = 128
    class_weights: tuple[float, ...] | None = None
    temperature: float = 1.0

    def __post_init__(self) -> None:
        known = (*ENTITY_METRICS, *WORD_METRICS) if self.has_entities else WORD_METRICS
        for name in self.metrics:
            if name not in known:
                hint = "; entities need labels O, B-… and I-…" if name in ENTITY_METRICS else ""
                raise InputError(f"no metric {name!r} for these labels; there are {', '.join(known)}{hint}")

    @property
    def has_entities(self) -> bool:
        """Whether the labels mark entities."""
        return has_entities(self.labels)

    @property
    def heads(self) -> Heads:
        """A classifier on single tokens."""
        return {HEAD: len(self.labels)}

    def encode(self, examples: Sequence[TokenExample], tokenizer: Tokenizer) -> list[WordWindow]:
        """`[CLS] stretch [SEP]` for each window of each text."""
        texts = iter_encoded_words(examples, tokenizer=tokenizer, max_length=self.max_length)
        return [window for text in texts for window in text.windows]

    def teaches(self, item: WordWindow) -> bool:
        """Whether the window has words of its own with labels; one inside a long word has none."""
        return bool(item.labels)

    def is_cut(self, item: WordWindow) -> bool:
        """Never: what does not fit one window is in the next."""
        return False

    def measure(self, item: WordWindow) -> int:
        """The tokens with [CLS] and [SEP]."""
        return item.slide.num_pieces + 2

    def build_batch(self, items: Sequence[WordWindow]) -> TaskBatch[WordAnswers]:
        """Words without a known label get one that the loss ignores."""
        starts = accumulate((self.measure(item) for item in items), initial=0)
        places = [start + p for start, item in zip(starts, items, strict=False) for p in item.positions]
        num_words = tuple(len(item.words) for item in items)
        labels = [
            (UNKNOWN_LABEL,) * number if item.labels is None else item.labels
            for item, number in zip(items, num_words, strict=True)
        ]
        answers = WordAnswers(
            places_P=np.array(places, dtype=np.int64),
            labels_P=np.fromiter(chain.from_iterable(labels), np.int64, len(places)),
            num_words=num_words,
        )
        return lay_out([item.sequence for item in items], answers)

    def count(self, batch: TaskBatch[WordAnswers]) -> Mapping[str, int]:
        """The words that have labels."""
        return {"task": int((batch.answers.labels_P != UNKNOWN_LABEL).sum())}

    def compute_terms(
        self, model: AlbertModel, batch: TaskBatch[WordAnswers], *, depth: int | None = None
    ) -> Terms:
        """Sum the cross-entropy over words; without a single word it is 0, connected to all weights."""
        logits_PK = self._ask(model, batch, depth=depth)
        labels_P = torch.from_numpy(batch.answers.labels_P).to(logits_PK.device, non_blocking=True)
        weights_K = None if self.class_weights is None else logits_PK.new_tensor(self.class_weights)
        total = F.cross_entropy(
            logits_PK, labels_P, weight=weights_K, ignore_index=UNKNOWN_LABEL, reduction="sum"
        )
        return {"task": (total, (logits_PK.argmax(1) == labels_P).sum())}

    def _ask(self, model: AlbertModel, batch: TaskBatch[WordAnswers], *, depth: int | None) -> Tensor:
        """Compute the last layer for the first tokens of words alone."""
        device = model.device
        places_P = torch.from_numpy(batch.answers.places_P).to(device, non_blocking=True)
        words_PD = model(batch.build_tokens(device), depth=depth, indices_P=places_P).last_TD
        logits_PK: Tensor = model.head(HEAD)(words_PD).float()
        return logits_PK

    def predict(
        self, model: AlbertModel, batch: TaskBatch[WordAnswers], *, depth: int | None = None
    ) -> list[Floats]:
        """The logits of each window's own words."""
        logits_PK = self._ask(model, batch, depth=depth).cpu().numpy().astype(np.float64)
        return np.split(logits_PK, np.cumsum(batch.answers.num_words)[:-1])

    def conclude(self, items: Sequence[WordWindow], outputs: Sequence[Floats]) -> list[Floats]:
        """The logits [words, K] of each text, put together from its windows."""
        answers = []
        place = 0
        while place < len(items):
            text = items[place].text
            end = place + len(text.slides)
            rows = text.join([list(output) for output in outputs[place:end]])
            answers.append(np.array(rows, dtype=np.float64).reshape(-1, len(self.labels)))
            place = end
        return answers

    def merge(self, answers: Sequence[Floats]) -> Floats:
        """The mean of the probabilities."""
        return merge_logits(answers, "one")

    @property
    def judges(self) -> tuple[str, ...]:
        """The metrics whose mean is the score."""
        return self.metrics or (ENTITY_METRICS[:1] if self.has_entities else WORD_METRICS)

    def prepare_scores(self, answers: Sequence[Floats], examples: Sequence[TokenExample]) -> WeightedScores:
        """Prepare the metrics of words and entities, and the mean of those that the task is judged by."""
        for example in examples:
            if example.labels is None:
                raise InputError(f"text {example.id!r} has no labels to be scored by; give labeled texts")
        predicted, golds = [answer.argmax(-1) for answer in answers], [each.labels or () for each in examples]
        count_words = count_classes(
            np.concatenate(predicted),
            np.fromiter(chain.from_iterable(golds), np.int64),
            num_classes=len(self.labels),
            rows=np.repeat(np.arange(len(golds)), [len(labels) for labels in golds]),
        )
        count_found = None
        if self.has_entities:
            _, count_found = count_entities(
                *([self._spell(each) for each in side] for side in (predicted, golds))
            )

        def measure(weights: Floats) -> dict[str, float]:
            words = count_words(weights)
            found = {"word_accuracy": float(words.total.recall[0]), "macro_f1": words.macro_f1}
            if count_found is not None:
                total = count_found(weights).total
                parts = (float(part[0]) for part in (total.f1, total.precision, total.recall))
                found = {**dict(zip(ENTITY_METRICS, parts, strict=True)), **found}
            return with_score(found, judges=self.judges)

        return measure

    def find_intervals(
        self, answers: Sequence[Floats], examples: Sequence[TokenExample], *, seed: int
    ) -> dict[str, Interval]:
        """Estimate the intervals; words come first, as they always did in scores.json."""
        found = super().find_intervals(answers, examples, seed=seed)
        return {**{name: found.pop(name) for name in WORD_METRICS}, **found}

    def _spell(self, places: Sequence[int] | np.ndarray[Any, Any]) -> list[str]:
        return [self.labels[place] for place in places]

    def describe(self, answer: Floats, example: TokenExample) -> dict[str, Any]:
        """The label of each word with its probability, and the entities that the labels mark."""
        labels = self._spell(answer.argmax(-1))
        found = find_probabilities(answer, "one", temperature=self.temperature).max(-1)
        described: dict[str, Any] = {"id": example.id, "words": list(example.words), "labels": labels}
        described["probabilities"] = found.tolist()
        if self.has_entities:
            # Words from first to last, counted from 0; the probability that each of them has its label.
            described["entities"] = [
                {
                    "type": entity.type,
                    "text": " ".join(example.words[entity.start : entity.stop]),
                    "first": entity.start,
                    "last": entity.stop - 1,
                    "probability": float(found[entity.start : entity.stop].prod()),
                }
                for entity in find_entities(labels)
            ]
        return described


def has_entities(labels: Sequence[str]) -> bool:
    """Whether labels mark entities: O, B-… and I-… alone, and not only O."""
    try:
        return bool(find_entities(labels))
    except InputError:
        return False
