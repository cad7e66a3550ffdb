"""Examples by number: the same epoch and numbers always give the same batch."""

from dataclasses import dataclass

import numpy as np

from albert.data.corpus import Corpus
from albert.errors import InputError
from albert.examples.batches import PretrainingBatch, build_batch
from albert.examples.masking import PieceTable
from albert.examples.pairs import build_pairs
from albert.examples.randomness import ExampleOrder, Stream, below, derive, seed_key, share_step
from albert.examples.settings import ExampleSettings
from albert.examples.windows import Ints
from albert.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class ExampleSource:
    """A corpus seen as a row of examples; nothing but (seed, epoch, number) decides what an example is."""

    corpus: Corpus
    table: PieceTable
    settings: ExampleSettings
    seed: int = 0

    @property
    def num_examples(self) -> int:
        """Examples in an epoch: as many as the corpus has lengths of them.

        Windows begin at sentences and stay inside documents, so an epoch meets some text twice and some not
        at all (docs/corpora.md); the next epoch's jitter moves them.
        """
        return max(1, self.corpus.num_pieces // self.settings.target_pieces)

    @property
    def order(self) -> ExampleOrder:
        return ExampleOrder(self.num_examples, self.seed)

    def build(self, numbers: Ints, *, epoch: int) -> PretrainingBatch:
        """The examples with these numbers in this epoch, as one batch."""
        target = self.settings.target_pieces
        base = derive(seed_key(self.seed), epoch)
        jitter = below(derive(base, Stream.JITTER).reshape(1), target)
        positions = (numbers * target + jitter) % self.corpus.num_pieces
        keys = derive(base, numbers)
        pairs = build_pairs(self.corpus, positions, keys, self.settings)
        return build_batch(self.corpus, pairs, keys, self.table, self.settings)

    def build_step(
        self, step: int, *, batch_size: int, rank: int = 0, world_size: int = 1
    ) -> list[PretrainingBatch]:
        """The examples of one step; two batches where an epoch ends inside it.

        Of several processes each takes an equal share of the same examples, in the order of ranks.
        """
        return [
            self.build(numbers, epoch=epoch)
            for epoch, numbers in share_step(
                self.order.step(step, batch_size=batch_size), rank=rank, world_size=world_size
            )
        ]


def build_source(
    corpus: Corpus, tokenizer: Tokenizer, *, settings: ExampleSettings | None = None, seed: int = 0
) -> ExampleSource:
    """Build a source; raise an InputError for another vocabulary, an empty corpus, or NSP on one document."""
    settings = settings or ExampleSettings()
    if corpus.manifest.vocabulary != tokenizer.fingerprint:
        raise InputError(
            f"{corpus.name}: prepared with another vocabulary; use the one in its vocab folder, "
            "or prepare it again"
        )
    if corpus.num_pieces == 0:
        raise InputError(f"{corpus.name}: holds no text; prepare a corpus with some")
    if settings.objective == "nsp" and corpus.num_documents < 2:
        raise InputError(
            f"{corpus.name}: one document, and objective nsp takes every second segment from another; "
            "use objective=sop, or separate documents by blank lines"
        )
    return ExampleSource(corpus, build_piece_table(tokenizer), settings, seed)


def build_piece_table(tokenizer: Tokenizer) -> PieceTable:
    """Collect what masking needs to know of a vocabulary."""
    special = tokenizer.special_ids
    ids = range(tokenizer.vocab_size)
    return PieceTable(
        begins_word=np.array([tokenizer.begins_word(i) for i in ids]),
        ordinary=np.array([i for i in ids if i not in special], dtype=np.int64),
        cls_id=tokenizer.cls_id,
        sep_id=tokenizer.sep_id,
        mask_id=tokenizer.mask_id,
    )
