"""Build pretraining batches from a corpus: seed, epoch and index determine an example.

Shapes: T tokens, B sequences, M masked positions.
"""

import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from albert.data.corpus import Corpus
from albert.data.engines import exit_with_parent
from albert.data.shards import reject_other_vocabulary
from albert.errors import InputError
from albert.examples import masking
from albert.examples.masking import NO_SPANS, Spans, TokenTable, expand_ranges
from albert.examples.pairs import Pairs, Ranges, build_pairs
from albert.examples.randomness import ExampleOrder, Ints, Keys, Stream, below, derive, seed_key, share_step
from albert.examples.settings import ExampleSettings
from albert.text.tokenizer import Tokenizer

# The meaning of labels 0 and 1 of each objective.
ANSWERS = {
    "sop": ("in the order of the text", "swapped: the second came first in the text"),
    "nsp": ("the second follows the first", "the second is from another document"),
    "none": ("in the order of the text, no sentence is asked for",) * 2,
}
_PREFETCHED_STEPS = 4  # by each worker


@dataclass(frozen=True)
class PretrainingBatch:
    """B concatenated masked sequences with their targets."""

    ids_T: Ints
    positions_T: Ints
    segments_T: Ints
    lengths: Ints
    masked_M: Ints
    targets_M: Ints
    labels_B: Ints  # 1 for a swapped (sop) or random (nsp) second segment
    has_labels: bool
    spans: Spans
    num_dropped: int = 0

    def select(self, rows: Ints) -> "PretrainingBatch":
        """Return the sequences of these indices in this order, as a batch without spans."""
        starts = np.cumsum(self.lengths) - self.lengths
        tokens = expand_ranges(starts[rows], self.lengths[rows])
        new_position = np.full(len(self.ids_T), -1, dtype=np.int64)
        new_position[tokens] = np.arange(len(tokens))
        masked = new_position[self.masked_M]
        kept = np.flatnonzero(masked >= 0)
        kept = kept[np.argsort(masked[kept], kind="stable")]
        return PretrainingBatch(
            ids_T=self.ids_T[tokens],
            positions_T=self.positions_T[tokens],
            segments_T=self.segments_T[tokens],
            lengths=self.lengths[rows],
            masked_M=masked[kept],
            targets_M=self.targets_M[kept],
            labels_B=self.labels_B[rows],
            has_labels=self.has_labels,
            spans=NO_SPANS,
        )


@dataclass(frozen=True)
class ExampleSource:
    """A corpus as a sequence of examples; (seed, epoch, index) determines an example."""

    corpus: Corpus
    table: TokenTable
    settings: ExampleSettings
    seed: int = 0

    @property
    def num_examples(self) -> int:
        """The number of examples per epoch: the corpus divided by their length (docs/corpora.md)."""
        return max(1, self.corpus.num_tokens // self.settings.target_tokens)

    @property
    def order(self) -> ExampleOrder:
        return ExampleOrder(self.num_examples, self.seed)

    def build(self, numbers: Ints, *, epoch: int) -> PretrainingBatch:
        """Build the examples of these indices in this epoch, as one batch."""
        target = self.settings.target_tokens
        base = derive(seed_key(self.seed), epoch)
        jitter = below(derive(base, Stream.JITTER).reshape(1), target)
        positions = (numbers * target + jitter) % self.corpus.num_tokens
        keys = derive(base, numbers)
        pairs = build_pairs(self.corpus, positions, keys, self.settings)
        return build_batch(self.corpus, pairs, keys, self.table, self.settings)

    def build_step(
        self, step: int, *, batch_size: int, max_tokens: int | None = None, rank: int = 0, world_size: int = 1
    ) -> list[PretrainingBatch]:
        """Build the examples of one step, or the equal part of one of several processes.

        They are split into micro-batches of about `max_tokens`.
        """
        parts = self.order.step(step, batch_size=batch_size)
        shares = share_step(parts, rank=rank, world_size=world_size)
        batches = [self.build(numbers, epoch=epoch) for epoch, numbers in shares]
        if max_tokens is None:
            return batches
        return [share for batch in batches for share in cut_batch(batch, max_tokens=max_tokens)]


@dataclass(frozen=True)
class GroupedSource:
    """Single texts and pairs of one corpus, in groups whose members a loss may compare with each other.

    A group is a micro-batch. It is the same whatever the number of processes. The pairs are masked, the
    single texts are not, and neither are pairs if `is_masked` is false. `replaced_share` of the tokens of
    single texts are replaced by random ones, so that also words that are rare in the corpus are learned.
    """

    pairs: ExampleSource
    group_size: int
    single_share: float
    is_masked: bool = True
    replaced_share: float = 0.0

    @property
    def singles(self) -> ExampleSource:
        changes = {"objective": "none", "unit": "texts", "short_share": 1.0}
        if self.replaced_share:
            changes |= {
                "mask_share": self.replaced_share, "replace_with_mask": 0.0, "replace_with_random": 1.0
            }  # fmt: skip
        return replace(self.pairs, settings=self.pairs.settings.model_copy(update=changes))

    @property
    def num_examples(self) -> int:
        return self.pairs.num_examples

    def build_step(
        self, step: int, *, batch_size: int, max_tokens: int | None = None, rank: int = 0, world_size: int = 1
    ) -> list[PretrainingBatch]:
        """Build the groups of one step, of several processes each an equal share."""
        parts = self.pairs.order.step(step, batch_size=batch_size)
        size = self.group_size
        groups = [
            (epoch, numbers[i : i + size]) for epoch, numbers in parts for i in range(0, len(numbers), size)
        ]
        first, last = (number * len(groups) // world_size for number in (rank, rank + 1))
        chosen = list(enumerate(groups))[first:last]
        return [self._build_group(index, numbers, epoch) for index, (epoch, numbers) in chosen]

    def _build_group(self, index: int, numbers: Ints, epoch: int) -> PretrainingBatch:
        is_single = int((index + 1) * self.single_share) > int(index * self.single_share)
        batch = (self.singles if is_single else self.pairs).build(numbers, epoch=epoch)
        if is_single and self.replaced_share:
            return remove_targets(batch)
        return remove_masks(batch) if is_single or not self.is_masked else batch


def remove_masks(batch: PretrainingBatch) -> PretrainingBatch:
    """Return a batch with its original ids and nothing to predict."""
    return replace(remove_targets(batch), ids_T=restore_ids(batch))


def remove_targets(batch: PretrainingBatch) -> PretrainingBatch:
    """Return a batch with its ids as they are and nothing to predict."""
    none = batch.masked_M[:0]
    return replace(batch, masked_M=none, targets_M=none, spans=NO_SPANS)


def restore_ids(batch: PretrainingBatch) -> Ints:
    """Return the ids before masking."""
    ids_T: Ints = batch.ids_T.copy()
    ids_T[batch.masked_M] = batch.targets_M
    return ids_T


def build_source(
    corpus: Corpus, tokenizer: Tokenizer, *, settings: ExampleSettings | None = None, seed: int = 0
) -> ExampleSource:
    """Build a source; raise an InputError for another vocabulary, an empty corpus, or NSP on one document."""
    settings = settings or ExampleSettings()
    reject_other_vocabulary(corpus.manifest, corpus.name, tokenizer.fingerprint)
    if corpus.num_tokens == 0:
        raise InputError(f"{corpus.name}: contains no text; prepare a corpus with text")
    if settings.objective == "nsp" and corpus.num_documents < 2:
        raise InputError(
            f"{corpus.name}: has one document, but objective=nsp needs segments of another; use "
            "objective=sop, or separate documents by blank lines"
        )
    return ExampleSource(corpus, masking.build_token_table(tokenizer), settings, seed)


def build_batch(
    corpus: Corpus, pairs: Pairs, keys: Keys, table: TokenTable, settings: ExampleSettings
) -> PretrainingBatch:
    """Concatenate the valid pairs as [CLS] first [SEP] second [SEP] and mask them."""
    valid = np.flatnonzero(pairs.is_valid)
    first, second, keys = pairs.first.take(valid), pairs.second.take(valid), keys[valid]
    lengths = first.length + second.length + 2 + (second.length > 0)
    starts = np.cumsum(lengths) - lengths
    ids_T = _gather_ids(corpus, first, second, starts, lengths, table)
    positions_T = expand_ranges(np.zeros_like(lengths), lengths)
    segments_T = (positions_T >= np.repeat(first.length + 2, lengths)).astype(np.int64)
    # Rows to mask: the first segment of every pair and then the second, in the order of the batch.
    row_start = np.stack([starts + 1, starts + 2 + first.length], axis=1).ravel()
    row_length = np.stack([first.length, second.length], axis=1).ravel()
    row_keys = np.stack([derive(keys, 1), derive(keys, 2)], axis=1).ravel()
    row_start = np.minimum(row_start, len(ids_T))  # the last row may have no second segment
    spans = masking.draw_spans(table.begins_word[ids_T], row_start, row_length, row_keys, settings)
    masked_M = spans.positions
    targets_M = ids_T[masked_M]
    example = np.repeat(np.arange(len(lengths)), lengths)[masked_M]
    mask_keys = derive(keys[example], positions_T[masked_M])
    ids_T[masked_M] = masking.replace_tokens(ids_T, masked_M, mask_keys, table, settings)
    return PretrainingBatch(
        ids_T=ids_T,
        positions_T=positions_T,
        segments_T=segments_T,
        lengths=lengths,
        masked_M=masked_M,
        targets_M=targets_M,
        labels_B=pairs.label[valid],
        has_labels=settings.objective != "none",
        spans=spans,
        num_dropped=len(pairs.is_valid) - len(valid),
    )


def _gather_ids(
    corpus: Corpus, first: Ranges, second: Ranges, starts: Ints, lengths: Ints, table: TokenTable
) -> Ints:
    """Copy the tokens from the mapped shards, with [CLS] and [SEP] around them."""
    ids_T = np.full(int(lengths.sum()), table.sep_id, dtype=np.int64)
    ids_T[starts] = table.cls_id
    for ranges, offset in ((first, starts + 1), (second, starts + 2 + first.length)):
        columns = (ranges.part, ranges.start, ranges.end, offset)
        for part, a, b, to in zip(*(column.tolist() for column in columns), strict=True):
            ids_T[to : to + b - a] = corpus.parts[part].tokens[a:b]
            corpus.release(part)
    return ids_T


def build_placeholder(table: TokenTable, *, has_labels: bool) -> PretrainingBatch:
    """Build a batch of one masked token, for a process without examples."""
    ids_T, zeros = np.array([table.cls_id, table.mask_id, table.sep_id]), np.zeros(3, dtype=np.int64)
    tokens, masked = (ids_T, np.arange(3), zeros, np.array([3])), (np.array([1]), ids_T[2:])
    return PretrainingBatch(*tokens, *masked, zeros[:1], has_labels, NO_SPANS)


def cut_batch(batch: PretrainingBatch, *, max_tokens: int) -> list[PretrainingBatch]:
    """Split a batch into the fewest equal parts of about `max_tokens`, in the order of length."""
    if not len(batch.lengths):
        return []
    order = np.argsort(batch.lengths, kind="stable")
    total = int(batch.lengths.sum())
    num_shares = -(-total // max_tokens)
    middles = np.cumsum(batch.lengths[order]) - batch.lengths[order] / 2
    share_of = (middles * num_shares / total).astype(np.int64)
    return [batch.select(rows) for rows in np.split(order, np.flatnonzero(np.diff(share_of)) + 1)]


def iter_steps(
    source: ExampleSource | GroupedSource,
    *,
    batch_size: int,
    first_step: int,
    num_steps: int,
    num_workers: int = 1,
    max_tokens: int | None = None,
    rank: int = 0,
    world_size: int = 1,
) -> Iterator[list[PretrainingBatch]]:
    """Yield the batches of steps [first_step, first_step + num_steps), prefetched by worker processes.

    They do not depend on the number of workers. The other arguments are those of `build_step`.
    """
    from torch.utils.data import DataLoader  # imported here, because showing an example needs no torch

    steps: Any = range(first_step, first_step + num_steps)
    loader: DataLoader[list[PretrainingBatch]] = DataLoader(
        steps,
        batch_size=None,
        num_workers=num_workers,
        prefetch_factor=_PREFETCHED_STEPS if num_workers else None,
        collate_fn=partial(  # runs in the workers
            source.build_step, batch_size=batch_size, max_tokens=max_tokens, rank=rank, world_size=world_size
        ),
        worker_init_fn=_start_worker,
    )
    # torch's handler of SIGCHLD raises at any time when a worker dies; without it, the error is raised by the
    # request for the next batch.
    before = signal.getsignal(signal.SIGCHLD) if hasattr(signal, "SIGCHLD") else None
    iterator = iter(loader)
    if before is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGCHLD, before)
    try:
        yield from iterator
    finally:
        del iterator


def _start_worker(worker: int) -> None:
    # Ctrl-C and SIGTERM reach every process of the group, and the main process ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # Without the thread, workers of a killed main process would wait for a full pipe forever.
    threading.Thread(target=exit_with_parent, daemon=True).start()


@dataclass(frozen=True)
class TokenView:
    """A token as shown to the model, the original, and the number of its masked span, 0 for none."""

    shown: str
    original: str
    span: int


@dataclass(frozen=True)
class ExampleView:
    """A decoded example."""

    number: int
    epoch: int
    first: tuple[TokenView, ...]
    second: tuple[TokenView, ...]
    label: int
    answer: str
    num_tokens: int
    num_predicted: int


def describe_example(
    source: ExampleSource, tokenizer: Tokenizer, number: int, *, epoch: int = 0
) -> ExampleView:
    """Build and decode an example."""
    if not 0 <= number < source.num_examples:
        raise InputError(f"example is {number}; it must be from 0 to {source.num_examples - 1}")
    batch = source.build(np.array([number]), epoch=epoch)
    if not len(batch.lengths):
        raise InputError(f"example {number} is skipped: its document is a single sentence; choose another")
    originals, span_of = batch.ids_T.copy(), np.zeros_like(batch.ids_T)
    originals[batch.masked_M] = batch.targets_M
    num_tokens = batch.spans.end - batch.spans.start
    span_of[batch.masked_M] = np.repeat(1 + np.arange(len(num_tokens)), num_tokens)
    tokens = [
        TokenView(tokenizer.token(shown), tokenizer.token(original), span)
        for shown, original, span in np.stack([batch.ids_T, originals, span_of], axis=1).tolist()
    ]
    first_sep = int((batch.segments_T == 0).sum()) - 1
    label = int(batch.labels_B[0])
    return ExampleView(
        number=number,
        epoch=epoch,
        first=tuple(tokens[1:first_sep]),
        second=tuple(tokens[first_sep + 1 : -1]),
        label=label,
        answer=ANSWERS[source.settings.objective][label],
        num_tokens=len(tokens),
        num_predicted=len(batch.masked_M),
    )


def format_segment(tokens: tuple[TokenView, ...]) -> str:
    """Join tokens; a masked span is formatted as {shown = original}."""
    words: list[str] = []
    for span, group in groupby(tokens, key=lambda token: token.span):
        pairs = [(token.shown, token.original) for token in group]
        shown, original = (" ".join(column) for column in zip(*pairs, strict=True))
        words.append(f"{{{shown} = {original}}}" if span else shown)
    return " ".join(words)
