"""Texts and pairs of texts come in; classes, several labels at once, or numbers go out.

Shapes: T tokens, B sequences, D hidden width, K labels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from albert.model.albert_model import AlbertModel, Heads
from albert.tasks.batches import TaskBatch, lay_out
from albert.tasks.encoding.texts import EncodedText, iter_encoded_texts
from albert.tasks.examples import Label, TextExample, list_places
from albert.tasks.kinds.kind import Terms
from albert.tasks.kinds.logits import LabelKind, decide, find_probabilities, merge_logits
from albert.tasks.metrics.multilabel import mark_labels
from albert.tasks.metrics.task_score import score_task
from albert.text.tokenizer import Tokenizer

HEAD = "classification"
Floats = NDArray[np.float32]
Logits = NDArray[np.float64]


@dataclass(frozen=True)
class TextKind:
    """One of the labels, several of them, or (without labels) a number for each text or pair of texts.

    `class_weights`, of mean 1 over the training examples, say how much a mistake in each class counts;
    `temperature` how sure the model is when it is asked for probabilities.
    """

    labels: tuple[str, ...]
    metrics: tuple[str, ...]
    label_kind: LabelKind = "one"
    max_length: int = 128
    class_weights: tuple[float, ...] | None = None
    temperature: float = 1.0

    @property
    def num_labels(self) -> int:
        """Outputs of the classifier; a number is one."""
        return len(self.labels) or 1

    @property
    def heads(self) -> Heads:
        """A classifier on the first token."""
        return {HEAD: self.num_labels}

    @property
    def names(self) -> tuple[str, ...]:
        """There is one question."""
        return ("task",)

    @property
    def is_whole(self) -> bool:
        """Every text is learned from by itself."""
        return False

    def encode(self, examples: Sequence[TextExample], tokenizer: Tokenizer) -> list[EncodedText]:
        """`[CLS] first [SEP]` or `[CLS] first [SEP] second [SEP]`."""
        return list(iter_encoded_texts(examples, tokenizer=tokenizer, max_length=self.max_length))

    def teaches(self, item: EncodedText) -> bool:
        """Everything that has a label does."""
        return item.label is not None

    def is_cut(self, item: EncodedText) -> bool:
        """Where a text lost its end."""
        return item.num_cut > 0

    def measure(self, item: EncodedText) -> int:
        """The length of its sequence."""
        return len(item.sequence.ids)

    def build_batch(self, items: Sequence[EncodedText]) -> TaskBatch[Floats]:
        """The labels as places of classes, as rows of zeros and ones, or as numbers; without them, zeros."""
        return lay_out([item.sequence for item in items], self._tabulate([item.label for item in items]))

    def _tabulate(self, labels: Sequence[Label]) -> Floats:
        if self.label_kind != "several":
            return np.array([label or 0 for label in labels], dtype=np.float32)
        places = [list_places(label) for label in labels]
        return mark_labels(places, num_labels=self.num_labels).astype(np.float32)

    def count(self, batch: TaskBatch[Floats]) -> Mapping[str, int]:
        """One answer a sequence."""
        return {"task": len(batch.lengths)}

    def compute_terms(
        self, model: AlbertModel, batch: TaskBatch[Floats], *, depth: int | None = None
    ) -> Terms:
        """What the classifier got wrong, and how often it was right."""
        return {"task": self._compare(self._ask(model, batch, depth=depth), batch)}

    def _compare(self, logits_BK: Tensor, batch: TaskBatch[Floats]) -> tuple[Tensor, Tensor]:
        """Cross-entropy, the same for each label by itself, or the squared error, added up; and the hits."""
        answers = torch.from_numpy(batch.answers).to(logits_BK.device, non_blocking=True)
        if self.label_kind == "number":
            error_B = (logits_BK.squeeze(1) - answers).pow(2)
            return error_B.sum(), (error_B < 0.25).sum()
        if self.label_kind == "several":
            total = F.binary_cross_entropy_with_logits(logits_BK, answers, reduction="none").mean(1).sum()
            return total, ((logits_BK > 0) == (answers > 0)).all(1).sum()
        labels_B = answers.long()
        weights_K = None if self.class_weights is None else logits_BK.new_tensor(self.class_weights)
        total = F.cross_entropy(logits_BK, labels_B, weight=weights_K, reduction="sum")
        return total, (logits_BK.argmax(1) == labels_B).sum()

    def _ask(self, model: AlbertModel, batch: TaskBatch[Floats], *, depth: int | None) -> Tensor:
        """The last layer is computed for the first token of each sequence alone."""
        tokens = batch.build_tokens(model.device)
        first_BD = model(tokens, depth=depth, first_only=True).last_TD
        logits_BK: Tensor = model.head(HEAD)(model.pool_first(first_BD)).float()
        return logits_BK

    def predict(
        self, model: AlbertModel, batch: TaskBatch[Floats], *, depth: int | None = None
    ) -> list[tuple[float, ...]]:
        """The logits of each sequence."""
        return [tuple(row) for row in self._ask(model, batch, depth=depth).tolist()]

    def conclude(self, items: Sequence[EncodedText], outputs: Sequence[tuple[float, ...]]) -> list[Logits]:
        """The logits, as they are: every example is one item."""
        return [np.array(output, dtype=np.float64) for output in outputs]

    def merge(self, answers: Sequence[Logits]) -> Logits:
        """The mean of the probabilities, or of the numbers."""
        return merge_logits(answers, self.label_kind)

    def score(self, answers: Sequence[Logits], examples: Sequence[TextExample]) -> dict[str, float]:
        """Every metric, and their mean."""
        labels = [example.label for example in examples]
        golds: NDArray[np.generic]
        if self.label_kind == "number":  # as they are: 32 bits make one of 20240101 and 20240102
            golds = np.array(labels, dtype=np.float64)
        else:
            golds = self._tabulate(labels).astype(np.int64)
        found = score_task(decide(np.stack(answers), self.label_kind), golds=golds, metrics=self.metrics)
        return {**found.values, "score": found.score}

    def describe(self, answer: Logits, example: TextExample) -> dict[str, Any]:
        """The number; or the label or labels, with the probability of each."""
        if self.label_kind == "number":
            return {"id": example.id, "number": float(answer[0])}
        found = find_probabilities(answer, self.label_kind, temperature=self.temperature)
        probabilities = dict(zip(self.labels, map(float, found), strict=True))
        if self.label_kind == "one":
            label = self.labels[int(answer.argmax())]
            return {"id": example.id, "label": label, "probabilities": probabilities}
        chosen = [name for name, value in zip(self.labels, answer, strict=True) if value > 0]
        return {"id": example.id, "labels": chosen, "probabilities": probabilities}
