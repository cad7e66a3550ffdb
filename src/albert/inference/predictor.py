"""Predict with a loaded model: filled masks, sentence order and embeddings of texts.

Shapes: T tokens, B sequences, M masks, D hidden width, V vocabulary.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Literal, TypeVar, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from albert.errors import InputError
from albert.model.albert_model import AlbertModel
from albert.model.runtime import RuntimeSettings, autocast, select_device
from albert.model.tokens import Tokens
from albert.pretrained.folder import check_vocabulary, save_model
from albert.text.encoding import Encoding, InputSequence
from albert.text.tokenizer import MASK, Tokenizer

T = TypeVar("T")
Pooling = Literal["mean", "cls", "pooler"]
# About what two CPU cores keep in their caches between two layers; larger batches gained nothing.
MAX_BATCH_TOKENS = 4096
_MAX_TEXTS = 4096  # at a time: what is known of each is more than its vector
_MAX_MASKS = 512  # at a time: each has a row as long as the vocabulary


@dataclass(frozen=True)
class Candidate:
    """A piece that may stand at a mask: its text, its id, and how likely the model finds it."""

    text: str
    id: int
    probability: float


@dataclass(frozen=True)
class OrderAnswer:
    """How likely it is that the two texts stand in their original order."""

    in_order: float

    @property
    def is_swapped(self) -> bool:
        """Whether the model thinks that the second text came first."""
        return self.in_order < 0.5


class Predictor:
    """What any model answers: a model, its tokenizer and a device, in evaluation mode.

    Every method takes many texts, sorts them into batches itself and answers in their order. `depth` runs
    fewer layers than the model has, or more where they are all one. Refused: one text that is not in a list,
    one longer than the model reads, and a question that the model has no head for.
    """

    default_pooling: str = "mean"  # of embeddings; a folder may say otherwise
    default_is_normalised: bool = False

    def __init__(
        self, model: AlbertModel, tokenizer: Tokenizer, *, runtime: RuntimeSettings | None = None
    ) -> None:
        runtime = runtime or RuntimeSettings()
        check_vocabulary(model.config, tokenizer)
        self.device = select_device(runtime.device)
        self.precision = runtime.precision
        autocast(self.device, self.precision)  # refused now rather than at the first text
        self.model = model.to(self.device).eval()
        self.tokenizer = tokenizer

    def fill_mask(
        self, texts: Iterable[str], *, top: int = 5, depth: int | None = None
    ) -> list[list[list[Candidate]]]:
        """For each text, for each `[MASK]` in it, the `top` likeliest pieces, the likeliest first.

        Refused: a text without a `[MASK]`.
        """
        self.model.head("mlm")
        texts = _as_texts(texts)
        if not isinstance(top, Integral) or not 1 <= top <= self.tokenizer.vocab_size:
            raise InputError(
                f"top is {top}; it must be a whole number from 1 to the vocabulary's "
                f"{self.tokenizer.vocab_size}"
            )
        for number, text in enumerate(texts, start=1):
            if MASK not in text:
                raise InputError(f"text {number} has no {MASK}; put one where a word is to be guessed")
        sequences = [self._frame(self.tokenizer.encode(text, masks=True)) for text in texts]

        def read_masks(tokens: Tokens, last_TD: Tensor) -> list[list[list[Candidate]]]:
            is_mask_T = tokens.ids_T == self.tokenizer.mask_id
            places_M = is_mask_T.nonzero().squeeze(1)
            found = [
                candidates
                for some_M in places_M.split(_MAX_MASKS)
                for candidates in self._rank_words(last_TD, some_M, top=top)
            ]
            counts = [int(part.sum()) for part in is_mask_T.cpu().split(tokens.lengths)]
            rest = iter(found)
            return [[next(rest) for _ in range(count)] for count in counts]

        return self._run(sequences, read_masks, depth=depth)

    def sentence_order(
        self, pairs: Iterable[tuple[str, str]], *, depth: int | None = None
    ) -> list[OrderAnswer]:
        """For each pair, how likely it is that the first text came before the second.

        Refused: what is not a pair of texts, and a model with only one kind of segment.
        """
        head = self.model.head("sop")
        if self.model.config.type_vocab_size < 2:
            raise InputError("this model has type_vocab_size 1 and cannot tell two texts apart; load another")
        if not isinstance(pairs, Iterable):
            raise InputError(f"the pairs are {pairs!r}; give a list of pairs of texts")
        checked = [_as_texts(pair) for pair in pairs]
        for number, pair in enumerate(checked, start=1):
            if len(pair) != 2:
                raise InputError(f"pair {number} has {len(pair)} texts; give two")
        sequences = [self._frame(*self.tokenizer.encode_batch(pair)) for pair in checked]

        def read_order(tokens: Tokens, last_TD: Tensor) -> list[OrderAnswer]:
            logits_B2 = head(self.model.pool(last_TD, tokens)).float()
            return [OrderAnswer(in_order=p) for p in logits_B2.softmax(-1)[:, 0].tolist()]

        return self._run(sequences, read_order, depth=depth)

    def embed(
        self,
        texts: Iterable[str],
        *,
        pooling: Pooling | None = None,
        is_normalised: bool | None = None,
        depth: int | None = None,
    ) -> NDArray[np.float32]:
        """One vector a text, [texts, hidden_size]: the mean of its tokens, its [CLS], or the pooler's.

        `pooling` is mean, cls or pooler. With `is_normalised` each has the length 1, and their products are
        cosines. Without either, it is as an embedding model's folder says; else the mean, as long as it is.
        """
        chosen = self.default_pooling if pooling is None else pooling
        if chosen not in get_args(Pooling):
            origin = "pooling" if pooling is not None else "the pooling of this model's folder"
            raise InputError(f"{origin} is {chosen!r}; there are {', '.join(get_args(Pooling))}")
        listed = _as_texts(texts)

        def read_vectors(tokens: Tokens, last_TD: Tensor) -> list[Tensor]:
            if chosen == "mean":
                return [part.float().mean(0) for part in last_TD.split(tokens.lengths)]
            pooled_BD = last_TD[tokens.first_B] if chosen == "cls" else self.model.pool(last_TD, tokens)
            return list(pooled_BD.float())

        if len(listed) > _MAX_TEXTS:
            # Find texts that are too long before the work for all others is done. A text of few characters
            # has no more tokens than that, except for the rarest characters.
            limit = self.model.config.max_position_embeddings - 2  # [CLS] and [SEP]
            long = [place for place, text in enumerate(listed) if len(text) > limit]
            for start in range(0, len(long), _MAX_TEXTS):
                places = long[start : start + _MAX_TEXTS]
                encodings = self.tokenizer.encode_batch([listed[place] for place in places])
                for place, encoding in zip(places, encodings, strict=True):
                    self._check_lengths([self._frame_text(encoding)], start=place)
        found = [np.zeros((0, self.model.config.hidden_size), np.float32)]
        for start in range(0, len(listed), _MAX_TEXTS):
            encodings = self.tokenizer.encode_batch(listed[start : start + _MAX_TEXTS])
            sequences = [self._frame_text(encoding) for encoding in encodings]
            vectors = self._run(sequences, read_vectors, depth=depth, start=start)
            found.append(torch.stack(vectors).cpu().numpy())
        stacked_BD = np.concatenate(found)
        if self.default_is_normalised if is_normalised is None else is_normalised:
            stacked_BD /= np.linalg.norm(stacked_BD, axis=1, keepdims=True)
        return stacked_BD

    def save(self, folder: str | Path) -> None:
        """Write the model and its vocabulary as a folder that `albert.load` and `transformers` open."""
        save_model(Path(folder), self.model, tokenizer=self.tokenizer)

    def _rank_words(self, last_TD: Tensor, places_M: Tensor, *, top: int) -> list[list[Candidate]]:
        """In full precision, also where the encoder has none: in bf16 likely words would tie."""
        with torch.autocast(self.device.type, enabled=False):
            states_MD = last_TD.index_select(0, places_M).float()
            probabilities_MV = self.model.predict_words(states_MD).softmax(-1)
        # A table may have more rows than the vocabulary has pieces.
        best = probabilities_MV[:, : self.tokenizer.vocab_size].topk(top)
        return [
            [Candidate(self.tokenizer.decode([i]), i, p) for i, p in zip(ids, values, strict=True)]
            for ids, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]

    def _frame(self, first: Encoding, second: Encoding | None = None) -> InputSequence:
        return self.tokenizer.build_sequence(first, second)

    def _frame_text(self, encoding: Encoding) -> InputSequence:
        """A text alone, to be made a vector of."""
        return self._frame(encoding)

    def _run(
        self,
        sequences: Sequence[InputSequence],
        read: Callable[[Tokens, Tensor], list[T]],
        *,
        depth: int | None,
        start: int = 0,
    ) -> list[T]:
        """Encode in batches and read each; answers come back in the order of the sequences."""
        self._check_lengths(sequences, start=start)
        answers: dict[int, T] = {}
        lengths = [len(sequence.ids) for sequence in sequences]
        with torch.inference_mode(), autocast(self.device, self.precision):
            for batch in iter_batches(lengths, max_tokens=MAX_BATCH_TOKENS):
                tokens = Tokens.from_lists(
                    [sequences[i].ids for i in batch],
                    [sequences[i].segments for i in batch],
                    device=self.device,
                )
                last_TD = self.model(tokens, depth=depth).last_TD
                answers.update(zip(batch, read(tokens, last_TD), strict=True))
        return [answers[i] for i in range(len(sequences))]

    def _check_lengths(self, sequences: Sequence[InputSequence], *, start: int) -> None:
        limit = self.model.config.max_position_embeddings
        for number, sequence in enumerate(sequences, start=start + 1):
            if len(sequence.ids) > limit:
                raise InputError(
                    f"text {number} has {len(sequence.ids)} pieces with its borders and the model reads "
                    f"{limit}; shorten it, or split it into several texts"
                )


def _as_texts(texts: Iterable[str]) -> list[str]:
    """The texts as a list; one text alone, which would be taken letter by letter, is refused."""
    if isinstance(texts, str):
        raise InputError(f"{texts[:40]!r} is one text; give a list of texts")
    if not isinstance(texts, Iterable):
        raise InputError(f"the texts are {texts!r}; give a list of texts")
    listed = list(texts)
    for number, text in enumerate(listed, start=1):
        if not isinstance(text, str):
            raise InputError(f"text {number} is {text!r}; give texts (str)")
    return listed


def iter_batches(lengths: Sequence[int], *, max_tokens: int) -> Iterator[list[int]]:
    """Yield indices, shortest sequences first, at most `max_tokens` tokens together.

    A sequence longer than the budget gets a batch of its own.
    """
    batch: list[int] = []
    total = 0
    for index in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if batch and total + lengths[index] > max_tokens:
            yield batch
            batch, total = [], 0
        batch.append(index)
        total += lengths[index]
    if batch:
        yield batch
