"""A masked-language model and minimal pairs come in; how often it prefers the right word goes out.

The word in question is masked and the model says which of the two it would rather have there, as Goldberg
(2019) did. One pass for both words, at the same places: what the probabilities are divided by is the same for
both, so that the difference of their log-probabilities is that of their logits.

Only pairs whose words are cut into equally many pieces are asked. Otherwise sums of unlike length would be
compared: the longer one has more factors below 1, and to divide by the length, or to show a word's other
pieces (pseudo-log-likelihood; Salazar et al. 2020), favours the longer one, whose later pieces follow from
the earlier (Kauf and Ivanova 2023). All pieces of a word are masked at once, so that none gives the others
away. Pairs with a piece that the vocabulary does not know are not asked either: the unknown word may be the
one that decides.

Shapes: T tokens, M masked places, D hidden width, V vocabulary.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean

import torch

from albert.errors import InputError
from albert.inference.predictor import MAX_BATCH_TOKENS, iter_batches
from albert.model.albert_model import AlbertModel
from albert.model.tokens import Tokens
from albert.study.agreement.pairs import Pair, generate_pairs
from albert.study.agreement.settings import AgreementSettings
from albert.study.agreement.significance import find_wilson
from albert.text.encoding import Encoding
from albert.text.tokenizer import Tokenizer

Advance = Callable[[int], None]


@dataclass(frozen=True)
class PhenomenonScore:
    """How many pairs of a phenomenon were decided rightly, and how many were not asked."""

    name: str
    num_right: int
    num_pairs: int
    num_left_out: int

    @property
    def accuracy(self) -> float | None:
        """The share of right decisions; None where there was nothing to decide."""
        return self.num_right / self.num_pairs if self.num_pairs else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Its 95% interval, by Wilson."""
        return find_wilson(self.num_right, self.num_pairs) if self.num_pairs else None


@dataclass(frozen=True)
class AgreementScores:
    """The phenomena in their order; `margins` has a number for each pair, None where it was not asked.

    A margin is log p(right word) − log p(wrong word); the decision is right where it is above 0.
    """

    phenomena: tuple[PhenomenonScore, ...]
    margins: tuple[float | None, ...]

    @property
    def mean(self) -> float:
        """The accuracy, each phenomenon counting alike."""
        return fmean(each.accuracy for each in self.phenomena if each.accuracy is not None)

    @property
    def num_pairs(self) -> int:
        """How many pairs were asked."""
        return sum(each.num_pairs for each in self.phenomena)

    @property
    def num_left_out(self) -> int:
        """How many pairs were not."""
        return sum(each.num_left_out for each in self.phenomena)


@dataclass(frozen=True)
class Question:
    """A pair in pieces: the sentence with masks, where they are, and the pieces of both words."""

    ids: tuple[int, ...]
    first_mask: int
    good: tuple[int, ...]
    bad: tuple[int, ...]


def score_agreement(
    model: AlbertModel,
    tokenizer: Tokenizer,
    *,
    settings: AgreementSettings,
) -> AgreementScores:
    """Ask the pairs of the settings.

    Refused: a model without an MLM head, and a vocabulary that cuts the words of every pair unlike.
    """
    pairs = generate_pairs(settings)
    return summarise(pairs, find_margins(model, tokenizer, pairs, depth=settings.depth))


def summarise(pairs: Sequence[Pair], margins: Sequence[float | None]) -> AgreementScores:
    """Count by phenomenon."""
    by_name: dict[str, list[float | None]] = {}
    for pair, margin in zip(pairs, margins, strict=True):
        by_name.setdefault(pair.phenomenon, []).append(margin)
    return AgreementScores(tuple(_count(name, found) for name, found in by_name.items()), tuple(margins))


def _count(name: str, margins: Sequence[float | None]) -> PhenomenonScore:
    asked = [margin for margin in margins if margin is not None]
    return PhenomenonScore(name, sum(margin > 0 for margin in asked), len(asked), len(margins) - len(asked))


def find_margins(
    model: AlbertModel,
    tokenizer: Tokenizer,
    pairs: Sequence[Pair],
    *,
    depth: int | None = None,
    advance: Advance | None = None,
) -> list[float | None]:
    """log p(right word) − log p(wrong word) for each pair; None where that is no fair question."""
    model.head("mlm")
    questions = build_questions(pairs, tokenizer)
    asked = [(number, question) for number, question in enumerate(questions) if question is not None]
    if not asked:
        raise InputError(
            f"of {len(pairs):,} pairs the vocabulary cuts the two words into unequal numbers of pieces, or "
            "does not know a word; ask a model of English with a vocabulary of a few thousand pieces or more"
        )
    margins: list[float | None] = [None] * len(pairs)
    with _evaluating(model), torch.inference_mode():
        for batch in iter_batches([len(each.ids) for _, each in asked], max_tokens=MAX_BATCH_TOKENS):
            found = _ask(model, [asked[place][1] for place in batch], depth=depth)
            for place, margin in zip(batch, found, strict=True):
                margins[asked[place][0]] = margin
            if advance is not None:
                advance(len(batch))
    return margins


@contextmanager
def _evaluating(model: AlbertModel) -> Iterator[None]:
    """Without dropout; a model in training goes on training afterwards."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def build_questions(pairs: Sequence[Pair], tokenizer: Tokenizer) -> list[Question | None]:
    """Each pair in the pieces of a vocabulary; None where it cuts the words unlike or does not know one."""
    encoded = zip(
        pairs,
        tokenizer.encode_batch([pair.good for pair in pairs]),
        tokenizer.encode_batch([pair.bad for pair in pairs]),
        strict=True,
    )
    questions = [_build_question(pair, good, bad, tokenizer) for pair, good, bad in encoded]
    # With one pair goes its frame: in whole frames each word of a choice is right as often as the other.
    unfair = {
        (pair.phenomenon, pair.frame)
        for pair, question in zip(pairs, questions, strict=True)
        if question is None
    }
    return [
        None if (pair.phenomenon, pair.frame) in unfair else question
        for pair, question in zip(pairs, questions, strict=True)
    ]


def _build_question(pair: Pair, good: Encoding, bad: Encoding, tokenizer: Tokenizer) -> Question | None:
    start, end = _find_word(good, pair.start, pair.start + len(pair.draft.good))
    other_start, other_end = _find_word(bad, pair.start, pair.start + len(pair.draft.bad))
    # The rest may not differ: a piece across the border of the word would have to be masked with it.
    is_same = good.ids[:start] == bad.ids[:other_start] and good.ids[end:] == bad.ids[other_end:]
    is_known = tokenizer.unk_id not in (*good.ids, *bad.ids)
    if not is_same or not is_known or end - start != other_end - other_start or start == end:
        return None
    masks = (tokenizer.mask_id,) * (end - start)
    masked = Encoding((*good.ids[:start], *masks, *good.ids[end:]), good.spans)
    framed = tokenizer.build_sequence(masked).ids
    words = good.ids[start:end], bad.ids[other_start:other_end]
    return Question(framed, framed.index(tokenizer.mask_id), *words)


def _find_word(encoding: Encoding, start: int, end: int) -> tuple[int, int]:
    """The range of the pieces that begin inside a word, its border included."""
    inside = [place for place, span in enumerate(encoding.spans) if start <= span[0] < end]
    return (inside[0], inside[-1] + 1) if inside else (0, 0)


def _ask(model: AlbertModel, questions: Sequence[Question], *, depth: int | None) -> list[float]:
    """The margins of one batch."""
    device = model.device
    tokens = Tokens.from_lists([question.ids for question in questions], device=device)
    counts = [len(question.good) for question in questions]
    places: list[int] = []
    begin = 0
    for question in questions:
        first = begin + question.first_mask
        places += range(first, first + len(question.good))
        begin += len(question.ids)
    places_M = torch.tensor(places, device=device)
    logits_MV = model.predict_words(model(tokens, depth=depth, places_P=places_M).last_TD).float()
    good_M = torch.tensor([piece for question in questions for piece in question.good], device=device)
    bad_M = torch.tensor([piece for question in questions for piece in question.bad], device=device)
    gaps_M = logits_MV.gather(1, good_M[:, None]) - logits_MV.gather(1, bad_M[:, None])
    return [float(part.sum()) for part in gaps_M.squeeze(1).cpu().split(counts)]
