"""Classification of texts and pairs: one class, several labels, or a number; with or without early exit.

Shapes: T tokens, B sequences, D hidden width, K labels, L layers.
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
from albert.model.early_exit import EarlyExitOutput, classify_after, classify_every_layer, classify_with_exits
from albert.tasks.encoding.sequence import EncodedText, iter_encoded_texts
from albert.tasks.examples import Label, TextExample, list_places
from albert.tasks.kinds.kind import Kind, TaskBatch, Terms, lay_out
from albert.tasks.kinds.logits import LabelKind, decide, find_probabilities, merge_logits
from albert.tasks.metrics.classification import mark_labels
from albert.tasks.metrics.task_score import WeightedScores, prepare_task
from albert.text.tokenizer import Tokenizer

HEAD = "classification"
Floats = NDArray[np.float32]
Logits = NDArray[np.float64]


@dataclass(frozen=True)
class TextKind(Kind[TextExample, EncodedText, Floats, Logits, Logits]):
    """One of the labels, several of them, or (without labels) a number for each text or pair of texts.

    `class_weights`, of mean 1 over the training examples, weigh the loss of each class; `temperature`
    divides the logits where probabilities are asked for.
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

    def encode(self, examples: Sequence[TextExample], tokenizer: Tokenizer) -> list[EncodedText]:
        """`[CLS] first [SEP]` or `[CLS] first [SEP] second [SEP]`."""
        return list(iter_encoded_texts(examples, tokenizer=tokenizer, max_length=self.max_length))

    def teaches(self, item: EncodedText) -> bool:
        """Whether the text has a label."""
        return item.label is not None

    def measure(self, item: EncodedText) -> int:
        """The length of its sequence."""
        return len(item.sequence.ids)

    def build_batch(self, items: Sequence[EncodedText]) -> TaskBatch[Floats]:
        """Labels are class numbers, rows of zeros and ones, or numbers; zeros where there are none."""
        return lay_out([item.sequence for item in items], self._tabulate([item.label for item in items]))

    def _tabulate(self, labels: Sequence[Label]) -> Floats:
        if self.label_kind != "several":
            return np.array([label or 0 for label in labels], dtype=np.float32)
        places = [list_places(label) for label in labels]
        return mark_labels(places, num_labels=self.num_labels).astype(np.float32)

    def count(self, batch: TaskBatch[Floats]) -> Mapping[str, int]:
        """One label per sequence."""
        return {"task": len(batch.lengths)}

    def compute_terms(
        self, model: AlbertModel, batch: TaskBatch[Floats], *, depth: int | None = None
    ) -> Terms:
        """Compute the loss of the classifier after the last layer."""
        return {"task": self._compare(self._ask(model, batch, depth=depth), batch)}

    def _compare(self, logits_BK: Tensor, batch: TaskBatch[Floats]) -> tuple[Tensor, Tensor]:
        """Cross-entropy, binary cross-entropy or squared error, summed; and the number of correct ones."""
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
    ) -> list[Logits]:
        """Compute the logits of each sequence."""
        return list(self._ask(model, batch, depth=depth).detach().cpu().numpy().astype(np.float64))

    def merge(self, answers: Sequence[Logits]) -> Logits:
        """The mean of the probabilities, or of the numbers."""
        return merge_logits(answers, self.label_kind)

    def prepare_scores(self, answers: Sequence[Logits], examples: Sequence[TextExample]) -> WeightedScores:
        """Prepare the task's metrics and their mean."""
        labels = [example.label for example in examples]
        golds: NDArray[np.generic]
        if self.label_kind == "number":  # in 64 bits: 32 make one of 20240101 and 20240102
            golds = np.array(labels, dtype=np.float64)
        else:
            golds = self._tabulate(labels).astype(np.int64)
        return prepare_task(decide(np.stack(answers), self.label_kind), golds=golds, metrics=self.metrics)

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


@dataclass(frozen=True)
class ExitTextKind(TextKind):
    """Texts of a model that has a classifier after each layer (early exit by patience, Zhou et al. 2020).

    A sequence is done when a layer predicts the same as the `patience` layers before it: the same label, the
    same set of labels, or each time a number less than `tolerance` away. Without patience every layer runs.
    """

    patience: int | None = None
    tolerance: float = 0.5

    @property
    def heads(self) -> Heads:
        """A classifier after the last layer, and one after each layer before it."""
        return {HEAD: self.num_labels, "exits": self.num_labels}

    def compute_terms(
        self, model: AlbertModel, batch: TaskBatch[Floats], *, depth: int | None = None
    ) -> Terms:
        """Average the layers' losses, weighting layer i by i, as published.

        The correct predictions are those of the last layer, comparable to a model without exits.
        """
        tokens = batch.build_tokens(model.device)
        layers = classify_every_layer(model, tokens, depth=depth)
        totals, hits = zip(*(self._compare(logits_BK, batch) for logits_BK in layers), strict=True)
        weights_L = torch.arange(1.0, len(layers) + 1, device=totals[0].device)
        return {"task": (torch.stack(totals) @ weights_L / weights_L.sum(), hits[-1])}

    def answer(
        self, model: AlbertModel, batch: TaskBatch[Floats], *, depth: int | None = None
    ) -> EarlyExitOutput:
        """Compute the logits of each sequence and the number of layers used, at most `depth`."""
        tokens = batch.build_tokens(model.device)
        if self.patience is not None:
            return classify_with_exits(model, tokens, patience=self.patience, agree=self._agree, depth=depth)
        num_layers = depth or model.config.num_hidden_layers
        first_BD = model(tokens, depth=depth, first_only=True).last_TD
        logits_BK = classify_after(model, first_BD, num_layers=num_layers)
        return EarlyExitOutput(logits_BK, np.full(len(tokens.lengths), num_layers))

    def _agree(self, before_BK: Tensor, now_BK: Tensor) -> Tensor:
        """Whether two layers predict the same for each sequence."""
        if self.label_kind == "number":
            return (now_BK - before_BK).abs().squeeze(1) < self.tolerance
        if self.label_kind == "several":
            return ((now_BK > 0) == (before_BK > 0)).all(1)
        return now_BK.argmax(1) == before_BK.argmax(1)

    def _ask(self, model: AlbertModel, batch: TaskBatch[Floats], *, depth: int | None) -> Tensor:
        return self.answer(model, batch, depth=depth).logits_BK
