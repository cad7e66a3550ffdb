"""Held-out evaluation: a model and a corpus come in; how well it knows words and sentences goes out."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from albert.data.corpus import Corpus
from albert.errors import InputError
from albert.examples.batches import PretrainingBatch, cut_batch
from albert.examples.settings import PAIR_OBJECTIVES, ExampleSettings
from albert.examples.source import ExampleSource, build_source
from albert.model.albert_model import AlbertModel
from albert.text.tokenizer import Tokenizer
from albert.training.losses import WORDS, compute_pretraining_losses
from albert.training.world import World

# One seed for every run: what is asked is the same, whoever trained.
_SEED = 20_190_926
_BATCH_SIZE = 64
_MAX_COUNTED = 20_000_000  # pieces


@dataclass(frozen=True)
class Score:
    """A mean over `count` answers, and its standard error, where more than one batch was asked."""

    mean: float
    count: int
    standard_error: float | None

    @property
    def interval(self) -> tuple[float, float] | None:
        """95%; None where there was too little to tell."""
        if self.standard_error is None:
            return None
        return self.mean - 1.96 * self.standard_error, self.mean + 1.96 * self.standard_error


@dataclass(frozen=True)
class PassScores:
    """One pass over examples of one objective; `pair_accuracy` where the model has a sentence head to ask."""

    word_loss: Score
    word_accuracy: Score
    pair_accuracy: Score | None


def find_pair_head(model: AlbertModel) -> str | None:
    """The head that answers the sentence question, whichever it was trained for."""
    return next((name for name in PAIR_OBJECTIVES if name in model.heads), None)


def evaluate_pass(
    model: AlbertModel,
    source: ExampleSource,
    *,
    num_examples: int,
    max_tokens: int,
    depth: int | None = None,
    advance: Callable[[int], None] | None = None,
    world: World | None = None,
) -> PassScores:
    """Ask about the first examples of a source; an answer counts alike whatever its batch.

    A head is asked any sentence question: 1 is swapped for one, random for the other, and a model of
    either may be asked about both, as in table 5.
    """
    head = find_pair_head(model)
    world = world or World()
    loss, words, pairs = _Sum(), _Sum(), _Sum()
    for number, batch in enumerate(iter_batches(source, num_examples=num_examples, max_tokens=max_tokens)):
        if number % world.size != world.rank:
            continue
        terms = compute_pretraining_losses(model, batch, pair_head=head, depth=depth)
        if WORDS in terms:
            term = terms[WORDS]
            loss.add(term.total.item(), term.count)
            words.add(term.num_correct.item(), term.count)
        if head is not None and head in terms:
            pairs.add(terms[head].num_correct.item(), terms[head].count)
        if advance is not None:
            advance(len(batch.lengths))
    for found in (loss, words, pairs):
        found.join(world.gather(found.parts))
    if not words.count:
        raise InputError(f"{source.corpus.name}: no example to ask about; evaluate on more text")
    return PassScores(loss.score(), words.score(), pairs.score() if pairs.count else None)


def build_held_out_source(
    corpus: Corpus, tokenizer: Tokenizer, settings: ExampleSettings, *, objective: str
) -> ExampleSource:
    """The examples to be asked about: like those of training, from a stream of their own."""
    changed = settings.model_copy(update={"objective": objective})
    return build_source(corpus, tokenizer, settings=changed, seed=_SEED)


def find_unigram_loss(corpus: Corpus, source: ExampleSource, *, num_examples: int) -> float:
    """The loss of a model that knows how frequent each piece is and nothing else: the plateau's height."""
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
    """How many of so many examples are asked about: those without the two sentences of a pair are not."""
    batches = iter_batches(source, num_examples=num_examples, max_tokens=1 << 30)
    return sum(len(batch.lengths) for batch in batches)


def count_pieces(corpus: Corpus, *, size: int) -> "np.typing.NDArray[np.int64]":
    """How often each piece occurs; of a large corpus, in parts spread over it."""
    counts = np.zeros(size, dtype=np.int64)
    stride = max(1, corpus.num_pieces // _MAX_COUNTED)
    for number in range(0, len(corpus.parts), stride):
        counts += np.bincount(corpus.parts[number].pieces, minlength=size)
        corpus.let_go(number)
    return counts


def iter_batches(source: ExampleSource, *, num_examples: int, max_tokens: int) -> Iterator[PretrainingBatch]:
    """The first examples of a source in its order, in batches of about so many tokens at most."""
    total = min(num_examples, source.num_examples)
    for start in range(0, total, _BATCH_SIZE):
        places = np.arange(start, min(start + _BATCH_SIZE, total))
        batch = source.build(source.order.numbers(places, epoch=0), epoch=0)
        yield from cut_batch(batch, max_tokens=max_tokens)


class _Sum:
    """Totals and counts of batches, with the spread between them."""

    def __init__(self) -> None:
        self.parts: list[tuple[float, int]] = []

    def add(self, total: float, count: int) -> None:
        self.parts.append((total, count))

    def join(self, others: list[list[tuple[float, int]]]) -> None:
        """Take the batches of all processes."""
        self.parts = [part for parts in others for part in parts]

    @property
    def count(self) -> int:
        return sum(count for _, count in self.parts)

    def score(self) -> Score:
        """The mean, with an error from how much batches differ: the words of one text are alike."""
        count = self.count
        mean = sum(total for total, _ in self.parts) / count
        number = len(self.parts)
        if number < 2:
            return Score(mean, count, None)
        squares = sum((total - size * mean) ** 2 for total, size in self.parts)
        return Score(mean, self.count, math.sqrt(squares * number / (number - 1)) / count)


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
    """Masked words on ordered pairs, then the order and the next sentence, where the model has a head.

    Next sentences need a corpus of two documents or more; without, they are not asked about.
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
