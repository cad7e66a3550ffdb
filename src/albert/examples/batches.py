"""Build a flat masked batch from pairs of segments.

Shapes: T tokens, B sequences, M masked places.
"""

from dataclasses import dataclass

import numpy as np

from albert.data.corpus import Corpus
from albert.examples.masking import NO_SPANS, PieceTable, Spans, draw_spans, expand_ranges, replace_pieces
from albert.examples.pairs import Pairs, Ranges
from albert.examples.randomness import Keys, derive
from albert.examples.settings import ExampleSettings
from albert.examples.windows import Ints


@dataclass(frozen=True)
class PretrainingBatch:
    """B masked sequences laid end to end, with what is to be predicted and how often.

    `labels_B` is 1 for a swapped (sop) or random (nsp) second segment. The counts of both objectives are
    lengths: `len(places_M)` words and, where `has_labels`, `len(lengths)` pairs.
    """

    ids_T: Ints
    positions_T: Ints
    segments_T: Ints
    lengths: Ints
    places_M: Ints
    targets_M: Ints
    labels_B: Ints
    has_labels: bool
    spans: Spans
    num_dropped: int = 0

    def select(self, rows: Ints) -> "PretrainingBatch":
        """The sequences of these numbers, in that order, as a batch of their own; spans stay behind."""
        starts = np.cumsum(self.lengths) - self.lengths
        tokens = expand_ranges(starts[rows], self.lengths[rows])
        place_of = np.full(len(self.ids_T), -1, dtype=np.int64)
        place_of[tokens] = np.arange(len(tokens))
        places = place_of[self.places_M]
        kept = np.flatnonzero(places >= 0)
        kept = kept[np.argsort(places[kept], kind="stable")]
        return PretrainingBatch(
            ids_T=self.ids_T[tokens],
            positions_T=self.positions_T[tokens],
            segments_T=self.segments_T[tokens],
            lengths=self.lengths[rows],
            places_M=places[kept],
            targets_M=self.targets_M[kept],
            labels_B=self.labels_B[rows],
            has_labels=self.has_labels,
            spans=NO_SPANS,
        )


def build_placeholder(table: PieceTable, *, has_labels: bool) -> PretrainingBatch:
    """One sequence of a single masked piece: what a process runs that has nothing left of its own."""

    def row(*numbers: int) -> Ints:
        return np.array(numbers, dtype=np.int64)

    return PretrainingBatch(
        ids_T=row(table.cls_id, table.mask_id, table.sep_id),
        positions_T=row(0, 1, 2),
        segments_T=row(0, 0, 0),
        lengths=row(3),
        places_M=row(1),
        targets_M=row(table.sep_id),
        labels_B=row(0),
        has_labels=has_labels,
        spans=NO_SPANS,
    )


def cut_batch(batch: PretrainingBatch, *, max_tokens: int) -> list[PretrainingBatch]:
    """The sequences in order of length, in as few equal shares as keep each near `max_tokens`.

    There is no padding to save; but equal lengths lie together, and a share fits into the caches.
    """
    if not len(batch.lengths):
        return []
    order = np.argsort(batch.lengths, kind="stable")
    total = int(batch.lengths.sum())
    num_shares = -(-total // max_tokens)
    middles = np.cumsum(batch.lengths[order]) - batch.lengths[order] / 2
    share_of = (middles * num_shares / total).astype(np.int64)
    return [batch.select(rows) for rows in np.split(order, np.flatnonzero(np.diff(share_of)) + 1)]


def build_batch(
    corpus: Corpus, pairs: Pairs, keys: Keys, table: PieceTable, settings: ExampleSettings
) -> PretrainingBatch:
    """Lay the valid pairs end to end as [CLS] first [SEP] second [SEP] and mask them."""
    valid = np.flatnonzero(pairs.is_valid)
    first, second = _take(pairs.first, valid), _take(pairs.second, valid)
    keys = keys[valid]
    has_second = second.length > 0
    lengths = first.length + second.length + 2 + has_second
    starts = np.cumsum(lengths) - lengths
    ids_T = _gather(corpus, first, second, starts, lengths, table)
    positions_T = expand_ranges(np.zeros_like(lengths), lengths)
    segments_T = (positions_T >= np.repeat(first.length + 2, lengths)).astype(np.int64)
    # Rows to mask: the first segment of every pair and then the second, in the order of the batch.
    row_start = np.stack([starts + 1, starts + 2 + first.length], axis=1).ravel()
    row_length = np.stack([first.length, second.length], axis=1).ravel()
    row_keys = np.stack([derive(keys, 1), derive(keys, 2)], axis=1).ravel()
    row_start = np.minimum(row_start, len(ids_T))  # an absent second segment begins nowhere
    spans = draw_spans(table.begins_word[ids_T], row_start, row_length, row_keys, settings)
    places_M = spans.places
    targets_M = ids_T[places_M]
    example = np.repeat(np.arange(len(lengths)), lengths)[places_M]
    ids_T[places_M] = replace_pieces(
        ids_T, places_M, derive(keys[example], positions_T[places_M]), table, settings
    )
    return PretrainingBatch(
        ids_T=ids_T,
        positions_T=positions_T,
        segments_T=segments_T,
        lengths=lengths,
        places_M=places_M,
        targets_M=targets_M,
        labels_B=pairs.label[valid],
        has_labels=settings.objective != "none",
        spans=spans,
        num_dropped=len(pairs.is_valid) - len(valid),
    )


def _take(ranges: Ranges, index: Ints) -> Ranges:
    return Ranges(ranges.part[index], ranges.start[index], ranges.end[index])


def _gather(
    corpus: Corpus, first: Ranges, second: Ranges, starts: Ints, lengths: Ints, table: PieceTable
) -> Ints:
    """Copy the pieces from the mapped shards, with [CLS] and [SEP] around them."""
    ids_T = np.full(int(lengths.sum()), table.sep_id, dtype=np.int64)
    ids_T[starts] = table.cls_id
    for ranges, offset in ((first, starts + 1), (second, starts + 2 + first.length)):
        for part, a, b, place in zip(
            ranges.part.tolist(), ranges.start.tolist(), ranges.end.tolist(), offset.tolist(), strict=True
        ):
            ids_T[place : place + b - a] = corpus.parts[part].pieces[a:b]
            corpus.let_go(part)
    return ids_T
