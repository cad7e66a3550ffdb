"""Texts and pairs of texts come in; classes, several labels at once, or numbers go out.

Shapes: T tokens, B sequences, D hidden width, K labels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from albert.model.albert_model import AlbertModel, Heads
from albert.tasks.batches import TaskBatch, lay_out
from albert.tasks.encoding.pairs import EncodedText, iter_encoded_texts
from albert.tasks.examples import TextExample
from albert.tasks.kinds.kind import Terms
from albert.tasks.metrics.task_score import score_task
from albert.text.tokenizer import Tokenizer

LabelKind = Literal["one", "several", "number"]
HEAD = "classification"
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class TextKind:
    """One label of `num_labels`, several of them, or a number for each text or pair of texts.

    `class_weights`, of mean 1 over the training examples, say how much a mistake in each class counts.
    """

    num_labels: int
    metrics: tuple[str, ...]
    label_kind: LabelKind = "one"
    max_length: int = 128
    class_weights: tuple[float, ...] | None = None

    @property
    def heads(self) -> Heads:
        """A classifier on the first token."""
        return {HEAD: self.num_labels}

    @property
    def names(self) -> tuple[str, ...]:
        """There is one question."""
        return ("task",)

    def encode(self, examples: Sequence[TextExample], tokenizer: Tokenizer) -> list[EncodedText]:
        """`[CLS] first [SEP]` or `[CLS] first [SEP] second [SEP]`."""
        return list(iter_encoded_texts(examples, tokenizer=tokenizer, max_length=self.max_length))

    def measure(self, item: EncodedText) -> int:
        """The length of its sequence."""
        return len(item.sequence.ids)

    def build_batch(self, items: Sequence[EncodedText]) -> TaskBatch[Floats]:
        """The labels as places of classes, as rows of zeros and ones, or as numbers; without them, zeros."""
        return lay_out([item.sequence for item in items], self._tabulate(items))

    def _tabulate(self, items: Sequence[EncodedText]) -> Floats:
        if self.label_kind != "several":
            return np.array([item.label or 0 for item in items], dtype=np.float32)
        table = np.zeros((len(items), self.num_labels), dtype=np.float32)
        for row, item in zip(table, items, strict=True):
            row[list(item.label or ())] = 1.0  # type: ignore[arg-type]
        return table

    def count(self, batch: TaskBatch[Floats]) -> Mapping[str, int]:
        """One answer a sequence."""
        return {"task": len(batch.lengths)}

    def compute_terms(
        self, model: AlbertModel, batch: TaskBatch[Floats], *, depth: int | None = None
    ) -> Terms:
        """Cross-entropy, the same for each label by itself, or the squared error; added up."""
        logits_BK = self._ask(model, batch, depth=depth)
        answers = torch.from_numpy(batch.answers).to(logits_BK.device, non_blocking=True)
        if self.label_kind == "number":
            error_B = (logits_BK.squeeze(1) - answers).pow(2)
            return {"task": (error_B.sum(), (error_B < 0.25).sum())}
        if self.label_kind == "several":
            total = F.binary_cross_entropy_with_logits(logits_BK, answers, reduction="none").mean(1).sum()
            return {"task": (total, ((logits_BK > 0) == (answers > 0)).all(1).sum())}
        labels_B = answers.long()
        weights_K = None if self.class_weights is None else logits_BK.new_tensor(self.class_weights)
        total = F.cross_entropy(logits_BK, labels_B, weight=weights_K, reduction="sum")
        return {"task": (total, (logits_BK.argmax(1) == labels_B).sum())}

    def _ask(self, model: AlbertModel, batch: TaskBatch[Floats], *, depth: int | None) -> Tensor:
        """The last layer is computed for the first token of each sequence alone."""
        tokens = batch.build_tokens(model.encoder.embeddings.word.weight.device)
        first_BD = model(tokens, depth=depth, places_P=tokens.first_B).last_TD
        logits_BK: Tensor = model.head(HEAD)(model.pool_first(first_BD)).float()
        return logits_BK

    def predict(
        self, model: AlbertModel, batch: TaskBatch[Floats], *, depth: int | None = None
    ) -> list[tuple[float, ...]]:
        """The logits of each sequence."""
        return [tuple(row) for row in self._ask(model, batch, depth=depth).tolist()]

    def decide(self, outputs: Sequence[tuple[float, ...]]) -> NDArray[np.generic]:
        """Classes, rows of zeros and ones, or numbers, from logits."""
        logits = np.array(outputs, dtype=np.float64)
        if self.label_kind == "number":
            return logits[:, 0]
        return logits.argmax(1) if self.label_kind == "one" else (logits > 0).astype(np.int64)

    def score(self, outputs: Sequence[tuple[float, ...]], items: Sequence[EncodedText]) -> dict[str, float]:
        """Every metric, and their mean."""
        golds = self._tabulate(items)
        golds = golds if self.label_kind == "number" else golds.astype(np.int64)
        found = score_task(self.decide(outputs), golds=golds, metrics=self.metrics)
        return {**found.values, "score": found.score}
