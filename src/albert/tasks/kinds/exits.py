"""Texts come in and are answered as soon as the layers agree; in training every layer learns to answer.

Shapes: B sequences, K labels, L layers.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from albert.model.albert_model import AlbertModel, Heads
from albert.model.early_exit import EarlyAnswers, answer_early, classify_after, classify_every_layer
from albert.tasks.batches import TaskBatch
from albert.tasks.kinds.kind import Terms
from albert.tasks.kinds.texts import HEAD, Floats, TextKind


@dataclass(frozen=True)
class ExitTextKind(TextKind):
    """Texts asked of a model that has a classifier after each layer.

    A sequence is done when a layer says the same as the `patience` layers before it: the same label, the
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
        """The mean of the layers' losses, that of layer i counted i times, as published.

        The hits are those of the last layer, so that records compare with those of a model without exits.
        """
        tokens = batch.build_tokens(model.device)
        layers = classify_every_layer(model, tokens, depth=depth)
        totals, hits = zip(*(self._compare(logits_BK, batch) for logits_BK in layers), strict=True)
        weights_L = torch.arange(1.0, len(layers) + 1, device=totals[0].device)
        return {"task": (torch.stack(totals) @ weights_L / weights_L.sum(), hits[-1])}

    def answer(
        self, model: AlbertModel, batch: TaskBatch[Floats], *, depth: int | None = None
    ) -> EarlyAnswers:
        """The logits of each sequence, and how many layers they took; `depth` layers are the most."""
        tokens = batch.build_tokens(model.device)
        if self.patience is not None:
            return answer_early(model, tokens, patience=self.patience, agree=self._agree, depth=depth)
        num_layers = depth or model.config.num_hidden_layers
        first_BD = model(tokens, depth=depth, first_only=True).last_TD
        logits_BK = classify_after(model, first_BD, num_layers=num_layers)
        return EarlyAnswers(logits_BK, np.full(len(tokens.lengths), num_layers))

    def _agree(self, before_BK: Tensor, now_BK: Tensor) -> Tensor:
        """Whether two layers say the same of each sequence."""
        if self.label_kind == "number":
            return (now_BK - before_BK).abs().squeeze(1) < self.tolerance
        if self.label_kind == "several":
            return ((now_BK > 0) == (before_BK > 0)).all(1)
        return now_BK.argmax(1) == before_BK.argmax(1)

    def _ask(self, model: AlbertModel, batch: TaskBatch[Floats], *, depth: int | None) -> Tensor:
        return self.answer(model, batch, depth=depth).logits_BK
