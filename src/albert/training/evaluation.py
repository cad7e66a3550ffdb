"""Evaluation of pretraining on held-out text: masked language modeling and sentence pairs."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from albert.data.corpus import Corpus
from albert.errors import InputError
from albert.examples.batches import ExampleSource, PretrainingBatch, build_source, cut_batch
from albert.examples.settings import PAIR_OBJECTIVES, ExampleSettings
from albert.model.albert_model import AlbertModel
from albert.text.tokenizer import Tokenizer
from albert.training.losses import WORDS, compute_pretraining_losses
from albert.training.world import DistributedContext

# One seed for every run: all models are evaluated on the same examples.
_SEED = 20_190_926
_BATCH_SIZE = 64
_MAX_COUNTED = 20_000_000  # pieces


@dataclass(frozen=True)
class Score:
    """A mean over `count` predictions, and its standard error, if there was more than one batch."""

    mean: float
    count: int
    standard_error: float | None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95% interval, or None."""
        if self.standard_error is None:
            return None
        return self.mean - 1.96 * self.standard_error, self.mean + 1.96 * self.standard_error


@dataclass(frozen=True)
class PassScores:
    """The scores on examples of one objective; `pair_accuracy` if the model has a sentence head."""

    word_loss: Score
    word_accuracy: Score
    pair_accuracy: Score | None


def find_pair_head(model: AlbertModel) -> str | None:
    """Find the sentence head, whichever objective it was trained for."""
    return next((name for name in PAIR_OBJECTIVES if name in model.heads), None)


def evaluate_pass(
    model: AlbertModel,
    source: ExampleSource,
    *,
    num_examples: int,
    max_tokens: int,
    depth: int | None = None,
    advance: Callable[[int], None] | None = None,
    world: DistributedContext | None = None,
) -> PassScores:
    """Evaluate on the first examples of a source.

    A sentence head is evaluated on either objective (label 1 is swapped for one, random for the other), as in
    table 5.
    """
    head = find_pair_head(model)
    world = world or DistributedContext()
    losses: list[tuple[float, int]] = []
    words: list[tuple[float, int]] = []
    pairs: list[tuple[float, int]] = []
    for number, batch in enumerate(iter_batches(source, num_examples=num_examples, max_tokens=max_tokens)):
        if number % world.size != world.rank:
            continue
        terms = compute_pretraining_losses(model, batch, pair_head=head, depth=depth)
        if WORDS in terms:
            term = terms[WORDS]
            losses.append((term.total.item(), term.count))
            words.append((term.num_correct.item(), term.count))
        if head is not None and head in terms:
            pairs.append((terms[head].num_correct.item(), terms[head].count))
        if advance is not None:
            advance(len(batch.lengths))
    losses, words, pairs = (
        [part for parts in world.gather(mine) for part in parts] for mine in (losses, words, pairs)
    )
    if not sum(count for _, count in words):
        raise InputError(f"{source.corpus.name}: no example to ask about; evaluate on more text")
    has_pairs = any(count for _, count in pairs)
    return PassScores(_average(losses), _average(words), _average(pairs) if has_pairs else None)


def build_held_out_source(
    corpus: Corpus, tokenizer: Tokenizer, settings: ExampleSettings, *, objective: str
) -> ExampleSource:
    """Build held-out examples with the settings of training."""
    changed = settings.model_copy(update={"objective": objective})
    return build_source(corpus, tokenizer, settings=changed, seed=_SEED)


def find_unigram_loss(corpus: Corpus, source: ExampleSource, *, num_examples: int) -> float:
    """Compute the unigram loss: that of a model that predicts each token by its frequency."""
    counts = count_pieces(corpus, size=corpus.manifest.vocab_size)
    log_shares = np.log((counts + 1.0) / (counts.sum() + len(counts)))
    total, count = 0.0, 0
    for batch in iter_batches(source, num_examples=num_examples, max_tokens=1 << 30):
        total -= float(log_shares[batch.targets_M].sum())
        count += len(batch.targets_M)
    if not count:
        raise InputError(f"{source.corpus.name}: nothing to ask about is held out; evaluate on more text")
    return total / count


def count_asked(source: ExampleSource, *, num_examples: int) -> int:
    """Count the examples that are evaluated; those without two sentences are dropped."""
    batches = iter_batches(source, num_examples=num_examples, max_tokens=1 << 30)
    return sum(len(batch.lengths) for batch in batches)


def count_pieces(corpus: Corpus, *, size: int) -> "np.typing.NDArray[np.int64]":
    """Count each token of a corpus; of a large one, in parts spread over it."""
    counts = np.zeros(size, dtype=np.int64)
    stride = max(1, corpus.num_tokens // _MAX_COUNTED)
    for number in range(0, len(corpus.parts), stride):
        counts += np.bincount(corpus.parts[number].tokens, minlength=size)
        corpus.release(number)
    return counts


def iter_batches(source: ExampleSource, *, num_examples: int, max_tokens: int) -> Iterator[PretrainingBatch]:
    """Yield the first examples of a source in batches of about `max_tokens` at most."""
    total = min(num_examples, source.num_examples)
    for start in range(0, total, _BATCH_SIZE):
        places = np.arange(start, min(start + _BATCH_SIZE, total))
        batch = source.build(source.order.numbers(places, epoch=0), epoch=0)
        yield from cut_batch(batch, max_tokens=max_tokens)


def _average(parts: list[tuple[float, int]]) -> Score:
    """Average totals over counts; the error comes from the differences between batches."""
    count, number = sum(size for _, size in parts), len(parts)
    mean = sum(total for total, _ in parts) / count
    if number < 2:
        return Score(mean, count, None)
    squares = sum((total - size * mean) ** 2 for total, size in parts)
    return Score(mean, count, math.sqrt(squares * number / (number - 1)) / count)


@torch.inference_mode()
def evaluate_pretraining(
    model: AlbertModel,
    corpus: Corpus,
    tokenizer: Tokenizer,
    *,
    settings: ExampleSettings,
    num_examples: int,
    max_tokens: int = 4096,
    depth: int | None = None,
    advance: Callable[[int], None] | None = None,
) -> dict[str, Score]:
    """Evaluate masked language modeling, and with a sentence head also sentence order and next sentence.

    Next sentence needs a corpus of at least two documents; otherwise it is left out.
    """
    model.eval()
    objectives = ["none"]
    if find_pair_head(model) is not None:
        objectives += ["sop"] + (["nsp"] if corpus.num_documents > 1 else [])
    scores: dict[str, Score] = {}
    for objective in objectives:
        source = build_held_out_source(corpus, tokenizer, settings, objective=objective)
        found = evaluate_pass(
            model, source, num_examples=num_examples, max_tokens=max_tokens, depth=depth, advance=advance
        )
        if objective == "none":
            scores |= {"mlm_loss": found.word_loss, "mlm_accuracy": found.word_accuracy}
        elif found.pair_accuracy is not None:
            scores[f"{objective}_accuracy"] = found.pair_accuracy
    return scores
