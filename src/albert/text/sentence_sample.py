"""A stream of texts of any length comes in, a shuffled, bounded sample of their sentences goes out."""

import random
from array import array
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from albert.text.normalise import Normalisation, normalise_text
from albert.text.tokenizer import well_formed

MAX_SENTENCE_BYTES = 4192  # SentencePiece leaves out what is longer
_SLACK = 1.25  # how far over its bounds the sample may grow before it is cut back
# What SentencePiece keeps for itself: it leaves out a sentence that has one of these.
_RESERVED = str.maketrans({"\0": " ", "\t": " ", "▅": " "})


@dataclass(frozen=True)
class SampleBounds:
    """The largest sample: so many sentences, and so many bytes of normalised text."""

    num_sentences: int
    num_bytes: int


class SentenceSample:
    """A uniform sample of all sentences it has read; each line of a text is a sentence.

    Each sentence draws a number from the seed's stream, and those with the smallest numbers stay. So what
    stays depends on the sentences, their order and the seed alone, and a sentence that drew too large a
    number is never even normalised.
    """

    def __init__(self, *, bounds: SampleBounds, rules: Normalisation, seed: int) -> None:
        self.num_read = 0
        self.num_bytes_read = 0
        self._bounds = bounds
        self._rules = rules
        self._random = random.Random(seed)
        self._limit = 1.0
        self._draws = array("d")
        self._kept: list[bytes] = []
        self._num_kept_bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def read(self, text: str) -> None:
        """Offer every sentence of a text."""
        for line in well_formed(text.splitlines()):
            raw = line.encode()
            self.num_bytes_read += len(raw)
            for part in cut_bytes(raw, MAX_SENTENCE_BYTES):
                self.num_read += 1
                if (draw := self._random.random()) < self._limit:
                    self._keep(part.decode(), draw)

    def take(self) -> list[bytes]:
        """The sentences in a random order, and none left here."""
        self._cut_back()
        kept, self._kept = self._kept, []
        return kept

    def _keep(self, sentence: str, draw: float) -> None:
        normalised = normalise_text(sentence, rules=self._rules).translate(_RESERVED)
        for part in cut_bytes(normalised.encode(), MAX_SENTENCE_BYTES):  # decomposed, it may be longer
            self._draws.append(draw)
            self._kept.append(part)
            self._num_kept_bytes += len(part)
        bounds = self._bounds
        if self._num_kept_bytes > _SLACK * bounds.num_bytes or len(self) > _SLACK * bounds.num_sentences:
            self._cut_back()

    def _cut_back(self) -> None:
        """Keep as many of the smallest draws as the bounds allow; larger ones are out from now on."""
        order = np.argsort(np.array(self._draws), kind="stable")
        lengths = np.fromiter((len(part) for part in self._kept), dtype=np.int64, count=len(self))
        is_within = np.cumsum(lengths[order]) <= self._bounds.num_bytes
        num_kept = min(int(is_within.sum()), self._bounds.num_sentences)
        if num_kept < len(order):
            self._limit = self._draws[int(order[num_kept])]
        self._num_kept_bytes = int(lengths[order[:num_kept]].sum())
        self._kept = [self._kept[i] for i in order[:num_kept].tolist()]
        self._draws = array("d", np.array(self._draws)[order[:num_kept]].tobytes())


def cut_bytes(text: bytes, limit: int) -> Iterator[bytes]:
    """The UTF-8 text in parts of at most `limit` bytes, cut at a space where there is one; none is empty."""
    start = 0
    while len(text) - start > limit:
        end = text.rfind(b" ", start, start + limit + 1)
        if end <= start:  # one long word: cut between two characters
            end = start + limit
            while text[end] & 0xC0 == 0x80:
                end -= 1
        if part := text[start:end].strip():
            yield part
        start = end
    if part := text[start:].strip():
        yield part
