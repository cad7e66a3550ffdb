"""Predict with a loaded model: masked tokens, sentence order and embeddings of texts.

Shapes: T tokens, B sequences, M masks, D hidden width, V vocabulary.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, TypeVar, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from albert.errors import InputError
from albert.model.albert_model import AlbertModel
from albert.model.int8 import is_quantized, quantize_model
from albert.model.runtime import RuntimeSettings, autocast, select_device
from albert.model.tokens import Tokens
from albert.pretrained.folder import check_vocabulary, save_model
from albert.text.tokenizer import MASK, Encoding, InputSequence, Tokenizer

T = TypeVar("T")
Pooling = Literal["mean", "cls", "pooler"]
# Activations of this many tokens fit into the caches of two CPU cores; larger batches were not faster.
MAX_BATCH_TOKENS = 4096
_MAX_TEXTS = 4096  # at a time, to bound the memory
_MAX_MASKS = 512  # at a time: each has a row of logits over the vocabulary


@dataclass(frozen=True)
class Candidate:
    """A predicted token for a mask: its text, its id and its probability."""

    text: str
    id: int
    probability: float


@dataclass(frozen=True)
class OrderAnswer:
    """A prediction of sentence order: the probability that two texts are in their original order."""

    in_order: float

    @property
    def is_swapped(self) -> bool:
        """Whether the second text probably came first."""
        return self.in_order < 0.5


class Predictor:
    """A model and its tokenizer on a device, in evaluation mode.

    Methods take a list of texts, compute them in batches of similar length and return predictions in the
    order of the texts. They raise an InputError for a single text instead of a list, for a text that is too
    long, and if the model lacks the head they need. Their `depth` is the number of layers to run: by default
    all, or fewer, or more if the model shares all its layers.

    Args:
        model: The model, which is moved to the device, and rounded if the precision is int8.
        tokenizer: Its tokenizer.
        runtime: Device and precision.

    Raises:
        InputError: If the device does not exist or does not support the precision.
        WeightsError: If the vocabulary does not fit the model.
    """

    default_pooling: str = "mean"  # a model folder may set another
    default_is_normalized: bool = False

    def __init__(
        self, model: AlbertModel, tokenizer: Tokenizer, *, runtime: RuntimeSettings | None = None
    ) -> None:
        runtime = runtime or RuntimeSettings()
        check_vocabulary(model.config, tokenizer)
        self.device = select_device(runtime.device)
        self.precision = runtime.precision
        autocast(self.device, self.precision)  # raises now instead of at the first text
        if self.precision == "int8" and not is_quantized(model):
            quantize_model(model)
        self.model = model.to(self.device).eval()
        self.tokenizer = tokenizer

    def fill_mask(
        self, texts: Iterable[str], *, top: int = 5, depth: int | None = None
    ) -> list[list[list[Candidate]]]:
        """Predict the tokens at each `[MASK]`.

        Args:
            texts: The texts, each with at least one `[MASK]`.
            top: The number of candidates.
            depth: The number of layers.

        Returns:
            For each text and each mask in it, the `top` most probable tokens, best first.
        """
        self.model.head("mlm")
        texts = _as_texts(texts)
        if not 1 <= top <= self.tokenizer.vocab_size:
            raise InputError(
                f"top is {top}; it must be from 1 to {self.tokenizer.vocab_size}, the vocabulary"
            )
        for number, text in enumerate(texts, start=1):
            if MASK not in text:
                raise InputError(f"text {number} has no {MASK}; put {MASK} where a token is to be predicted")
        build, encode = self.tokenizer.build_sequence, self.tokenizer.encode
        sequences = [build(encode(text, masks=True)) for text in texts]

        def read_masks(tokens: Tokens, last_TD: Tensor) -> list[list[list[Candidate]]]:
            is_mask_T = tokens.ids_T == self.tokenizer.mask_id
            indices_M = is_mask_T.nonzero().squeeze(1)
            candidates = (
                found
                for some_M in indices_M.split(_MAX_MASKS)
                for found in self._rank_tokens(last_TD[some_M], top=top)
            )
            counts = [int(part.sum()) for part in is_mask_T.cpu().split(tokens.lengths)]
            return [list(islice(candidates, count)) for count in counts]

        return self._run(sequences, read_masks, depth=depth)

    def sentence_order(
        self, pairs: Iterable[tuple[str, str]], *, depth: int | None = None
    ) -> list[OrderAnswer]:
        """Predict whether two texts are in their original order.

        Args:
            pairs: Pairs of texts from one document.
            depth: The number of layers.

        Returns:
            For each pair, the probability that the first text comes before the second.
        """
        head = self.model.head("sop")
        checked = [_as_texts(pair) for pair in pairs]
        for number, pair in enumerate(checked, start=1):
            if len(pair) != 2:
                raise InputError(f"pair {number} has {len(pair)} texts; give 2")
        build, encode = self.tokenizer.build_sequence, self.tokenizer.encode_batch
        sequences = [build(*encode(pair)) for pair in checked]

        def read_order(tokens: Tokens, last_TD: Tensor) -> list[OrderAnswer]:
            logits_B2 = head(self.model.pool(last_TD, tokens)).float()
            return [OrderAnswer(in_order=p) for p in logits_B2.softmax(-1)[:, 0].tolist()]

        return self._run(sequences, read_order, depth=depth)

    def embed(
        self,
        texts: Iterable[str],
        *,
        pooling: Pooling | None = None,
        is_normalized: bool | None = None,
        depth: int | None = None,
    ) -> NDArray[np.float32]:
        """Compute a vector for each text.

        Args:
            texts: The texts.
            pooling: mean (over the tokens), cls or pooler; by default that of the model's folder, or mean.
            is_normalized: Whether vectors have length 1; by default as in the model's folder, or no.
            depth: The number of layers.

        Returns:
            An array of shape [texts, hidden_size].
        """
        chosen = self.default_pooling if pooling is None else pooling
        if chosen not in get_args(Pooling):
            origin = "pooling" if pooling is not None else "the pooling in this model's folder"
            raise InputError(f"{origin} is {chosen!r}; choose from {', '.join(get_args(Pooling))}")
        listed = _as_texts(texts)

        def read_vectors(tokens: Tokens, last_TD: Tensor) -> list[Tensor]:
            if chosen == "mean":
                return list(self.model.pool_mean(last_TD, tokens, depth=depth).float())
            pooled_BD = last_TD[tokens.first_B] if chosen == "cls" else self.model.pool(last_TD, tokens)
            return list(pooled_BD.float())

        if len(listed) > _MAX_TEXTS:
            # Reject texts that are too long before any is encoded: few have more tokens than letters.
            limit = self.model.config.max_position_embeddings - 2  # [CLS] and [SEP]
            for index, text in enumerate(listed):
                if len(text) > limit:
                    self._check_lengths([self._frame_text(self.tokenizer.encode(text))], start=index)
        found = [np.zeros((0, self.model.config.hidden_size), np.float32)]
        for start in range(0, len(listed), _MAX_TEXTS):
            encodings = self.tokenizer.encode_batch(listed[start : start + _MAX_TEXTS])
            sequences = [self._frame_text(encoding) for encoding in encodings]
            vectors = self._run(sequences, read_vectors, depth=depth, start=start)
            found.append(torch.stack(vectors).cpu().numpy())
        stacked_BD = np.concatenate(found)
        if self.default_is_normalized if is_normalized is None else is_normalized:
            stacked_BD /= np.linalg.norm(stacked_BD, axis=1, keepdims=True)
        return stacked_BD

    def save(self, folder: str | Path) -> None:
        """Write the model and its vocabulary to a folder that `albert.load` and `transformers` open."""
        save_model(Path(folder), self.model, tokenizer=self.tokenizer)

    def _rank_tokens(self, states_MD: Tensor, *, top: int) -> list[list[Candidate]]:
        """Find the most probable tokens, in float32 even under autocast because bf16 would cause ties."""
        with torch.autocast(self.device.type, enabled=False):
            probabilities_MV = self.model.mlm_logits(states_MD.float()).softmax(-1)
        # The embedding table may have more rows than the vocabulary.
        best = probabilities_MV[:, : self.tokenizer.vocab_size].topk(top)
        return [
            [Candidate(self.tokenizer.decode([i]), i, p) for i, p in zip(ids, values, strict=True)]
            for ids, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]

    def _frame_text(self, encoding: Encoding) -> InputSequence:
        return self.tokenizer.build_sequence(encoding)

    def _run(
        self,
        sequences: Sequence[InputSequence],
        read: Callable[[Tokens, Tensor], list[T]],
        *,
        depth: int | None,
        start: int = 0,
    ) -> list[T]:
        """Run the model in batches, and return the results of `read` in the order of the sequences."""
        self._check_lengths(sequences, start=start)
        results: dict[int, T] = {}
        lengths = [len(sequence.ids) for sequence in sequences]
        with torch.inference_mode(), autocast(self.device, self.precision):
            for batch in iter_batches(lengths, max_tokens=MAX_BATCH_TOKENS):
                tokens = Tokens.from_lists(
                    [sequences[i].ids for i in batch],
                    [sequences[i].segments for i in batch],
                    device=self.device,
                )
                last_TD = self.model(tokens, depth=depth).last_TD
                results.update(zip(batch, read(tokens, last_TD), strict=True))
        return [results[i] for i in range(len(sequences))]

    def _check_lengths(self, sequences: Sequence[InputSequence], *, start: int) -> None:
        limit = self.model.config.max_position_embeddings
        for number, sequence in enumerate(sequences, start=start + 1):
            if len(sequence.ids) > limit:
                raise InputError(
                    f"text {number} has {len(sequence.ids)} tokens with [CLS] and [SEP], more than the "
                    f"model's {limit}; shorten it, or split it into several texts"
                )


def _as_texts(texts: Iterable[str]) -> list[str]:
    """Return the texts as a list; raise an InputError for a single text."""
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise InputError(f"expected a list of texts, got {repr(texts)[:40]}")
    listed = list(texts)
    for number, text in enumerate(listed, start=1):
        if not isinstance(text, str):
            raise InputError(f"text {number} is {text!r}; give a str")
    return listed


def iter_batches(lengths: Sequence[int], *, max_tokens: int) -> Iterator[list[int]]:
    """Yield the indices of batches of at most `max_tokens` or one sequence, shortest sequences first."""
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
