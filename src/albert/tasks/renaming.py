"""Batches of a task come in; the same go out, with other names for some pieces, in all places alike."""

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from albert.tasks.batches import Ints, TaskBatch
from albert.text.tokenizer import Tokenizer

A = TypeVar("A")


@dataclass(frozen=True)
class Renaming:
    """At each step another `share` of the vocabulary takes the names of other pieces.

    What two texts have in common stays, since a piece has one name in both; what could be learned of an
    example by heart changes whenever it comes again. Small models then compare texts instead (docs/log.md).
    Names depend on the seed and the step alone: a resumed run has the same, and so has every process.
    """

    ordinary: Ints
    vocab_size: int
    share: float
    seed: int

    @staticmethod
    def of(tokenizer: Tokenizer, *, share: float, seed: int) -> "Renaming | None":
        """For the pieces of a vocabulary, special tokens left alone; None where nothing is renamed."""
        special = tokenizer.special_ids
        ordinary = np.array([i for i in range(tokenizer.vocab_size) if i not in special], dtype=np.int64)
        return Renaming(ordinary, tokenizer.vocab_size, share, seed) if share else None

    def apply(self, batch: TaskBatch[A], *, step: int) -> TaskBatch[A]:
        """The batch with the names of a step."""
        return replace(batch, ids_T=self.draw_names(step)[batch.ids_T])

    def draw_names(self, step: int) -> Ints:
        """The name that each id has at a step."""
        generator = np.random.default_rng((self.seed, step))
        names = np.arange(self.vocab_size)
        renamed = self.ordinary[generator.random(len(self.ordinary)) < self.share]
        names[renamed] = generator.choice(self.ordinary, len(renamed))
        return names
