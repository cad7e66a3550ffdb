"""The pretraining losses: sums over a batch, with their counts.

Shapes: T tokens, B sequences, M masked positions, D hidden width, V vocabulary.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from albert.examples.batches import PretrainingBatch
from albert.model.albert_model import AlbertModel
from albert.model.tokens import Tokens

WORDS = "mlm"


@dataclass(frozen=True)
class LossTerm:
    """The summed loss of one objective over one batch; the step divides it once, by its count."""

    total: Tensor
    count: int
    num_correct: Tensor


def list_heads(*, pair_head: str | None) -> dict[str, None]:
    """List the heads that a model is pretrained with."""
    return {WORDS: None} if pair_head is None else {WORDS: None, pair_head: None}


def count_terms(batch: PretrainingBatch, *, pair_head: str | None) -> dict[str, int]:
    """Count the predictions of each objective in a batch, before the model has run."""
    counts = {WORDS: len(batch.places_M)}
    if pair_head is not None and batch.has_labels:
        counts[pair_head] = len(batch.lengths)
    return counts


def build_tokens(batch: PretrainingBatch, device: torch.device | str = "cpu") -> Tokens:
    """Convert a batch to tensors on a device."""
    return Tokens(
        ids_T=_place(batch.ids_T, device),
        positions_T=_place(batch.positions_T, device),
        segments_T=_place(batch.segments_T, device),
        lengths=tuple(batch.lengths.tolist()),
    )


def compute_pretraining_losses(
    model: AlbertModel, batch: PretrainingBatch, *, pair_head: str | None, depth: int | None = None
) -> Mapping[str, LossTerm]:
    """Compute the masked language modeling loss and, with a `pair_head`, the sentence loss (section 3.1).

    The loss of a step is the unweighted sum of both means.
    """
    device = model.device
    tokens = build_tokens(batch, device)
    is_paired = pair_head is not None and batch.has_labels
    # The last layer is computed at these positions only; [CLS] is never masked, so none is repeated.
    first_B = tokens.first_B if is_paired else tokens.first_B[:0]
    places_P = torch.cat([first_B, _place(batch.places_M, device)])
    first_BD, masked_MD = model(tokens, depth=depth, indices_P=places_P).last_TD.split(
        [len(first_B), len(batch.places_M)]
    )
    # The head takes part even without a masked token: DDP waits for every gradient.
    terms = {WORDS: sum_cross_entropy(model.predict_words(masked_MD), _place(batch.targets_M, device))}
    if pair_head is not None and is_paired:
        logits_B2 = model.head(pair_head)(model.pool_first(first_BD))
        terms[pair_head] = sum_cross_entropy(logits_B2, _place(batch.labels_B, device))
    return terms


class PretrainLosses(nn.Module):
    """The model with its losses as one module, so that DDP and FSDP see all of it."""

    def __init__(self, model: AlbertModel, *, pair_head: str | None) -> None:
        super().__init__()
        self.model = model
        self.pair_head = pair_head

    def forward(
        self, batch: PretrainingBatch, *, depth: int | None = None
    ) -> dict[str, tuple[Tensor, Tensor]]:
        """Return plain tuples of tensors, in which DDP finds every tensor with a gradient."""
        terms = compute_pretraining_losses(self.model, batch, pair_head=self.pair_head, depth=depth)
        return {name: (term.total, term.num_correct) for name, term in terms.items()}


def sum_cross_entropy(logits_MV: Tensor, targets_M: Tensor) -> LossTerm:
    """Sum the cross-entropy over the rows, in float32."""
    total = F.cross_entropy(logits_MV.float(), targets_M, reduction="sum")
    with torch.no_grad():
        num_correct = (logits_MV.argmax(-1) == targets_M).sum()
    return LossTerm(total, len(targets_M), num_correct)


def _place(array: "np.typing.NDArray[np.int64]", device: torch.device | str) -> Tensor:
    return torch.from_numpy(array).to(device, non_blocking=True)
