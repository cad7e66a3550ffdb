"""A plain training loop around `AlbertForPreTraining`: padded steps on the same examples."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from albert.examples.batches import PretrainingBatch
from albert.model.config import ModelConfig

IGNORED = -100


@dataclass(frozen=True)
class PaddedBatch:
    """A batch for `transformers`, padded to the longest sequence."""

    inputs: dict[str, Tensor]
    num_real: int

    @property
    def padding_factor(self) -> float:
        """Padded tokens divided by real ones."""
        return self.inputs["input_ids"].numel() / self.num_real


def pad_batches(batches: list[PretrainingBatch]) -> PaddedBatch:
    """Pad to the longest sequence of the step (dynamic padding)."""
    rows = [_pad(batch, max(int(b.lengths.max()) for b in batches)) for batch in batches]
    inputs = {name: torch.from_numpy(np.concatenate([row[name] for row in rows])) for name in rows[0]}
    return PaddedBatch(inputs, sum(len(batch.ids_T) for batch in batches))


def _pad(batch: PretrainingBatch, longest: int) -> dict[str, Any]:
    count = len(batch.lengths)
    row = np.repeat(np.arange(count), batch.lengths)
    column = batch.positions_T
    labels_T = np.full(len(batch.ids_T), IGNORED, dtype=np.int64)
    labels_T[batch.masked_M] = batch.targets_M
    padded = {"labels": np.full((count, longest), IGNORED, dtype=np.int64)}
    padded["labels"][row, column] = labels_T
    named = (("input_ids", batch.ids_T), ("token_type_ids", batch.segments_T))
    for name, values in (*named, ("attention_mask", np.ones_like(batch.ids_T))):
        padded[name] = np.zeros((count, longest), dtype=np.int64)
        padded[name][row, column] = values
    padded["sentence_order_label"] = batch.labels_B
    return padded


class PlainLoop:
    """`AlbertForPreTraining` with fused AdamW and clipping; the caller scales the learning rate."""

    def __init__(self, config: ModelConfig, *, learning_rate: float, seed: int = 0) -> None:
        import transformers

        torch.manual_seed(seed)
        self.model = transformers.AlbertForPreTraining(
            transformers.AlbertConfig(
                vocab_size=config.vocab_size,
                embedding_size=config.embedding_size,
                hidden_size=config.hidden_size,
                num_hidden_layers=config.num_hidden_layers,
                num_attention_heads=config.num_attention_heads,
                intermediate_size=config.intermediate_size,
                hidden_act=config.hidden_act,
                hidden_dropout_prob=config.hidden_dropout_prob,
                attention_probs_dropout_prob=config.attention_probs_dropout_prob,
                max_position_embeddings=config.max_position_embeddings,
            )
        )
        self.model.train()
        self.learning_rate = learning_rate
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=learning_rate, weight_decay=0.01, fused=True
        )

    def step(self, *micro_batches: PaddedBatch, factor: float = 1.0) -> float:
        """Take a step over equal micro-batches, with the learning rate times `factor`; return the loss."""
        total = 0.0
        for each in micro_batches:
            loss = self.model(**each.inputs).loss / len(micro_batches)
            loss.backward()
            total += float(loss.detach())
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate * factor
        self.optimizer.step()
        self.optimizer.zero_grad()
        return total

    def save(self, folder: Path) -> None:
        """Write a folder of `transformers`, which albert can open."""
        self.model.save_pretrained(folder)
