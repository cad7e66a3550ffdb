"""Sentence embeddings: vectors that are close where texts mean the same, trained on pairs (InfoNCE).

Shapes: T tokens, B pairs, S sequences, D hidden width.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from albert.errors import InputError
from albert.model.albert_model import AlbertModel, Heads
from albert.model.config import ModelConfig
from albert.tasks.encoding.sequence import EncodedPair, iter_encoded_pairs
from albert.tasks.examples import TextExample
from albert.tasks.kinds.kind import Ints, Kind, TaskBatch, Terms, lay_out
from albert.tasks.metrics.intervals import Interval
from albert.tasks.metrics.task_score import WeightedScores, prepare_task
from albert.text.tokenizer import Tokenizer

Floats = NDArray[np.float32]
EMBEDDING_METRICS = ("spearman", "pearson")
_ROWS = 1024  # first texts that are compared with all seconds at a time


@dataclass(frozen=True, eq=False)
class PairVectors:
    """The vectors of a pair, at length 1; a single text has no second."""

    first: Floats
    second: Floats | None = None

    @property
    def similarity(self) -> float:
        """The cosine of the two."""
        assert self.second is not None
        return float(self.first @ self.second)


@dataclass(frozen=True)
class PairTexts:
    """The texts of a batch by number, equal texts by the same one; a single text is its own second."""

    firsts_B: Ints
    seconds_B: Ints
    has_second_B: NDArray[np.bool_]

    @property
    def related_BB(self) -> NDArray[np.bool_]:  # noqa: N802 - an array carries its shape in its name
        """Which pairs have a text in common: what means the same as the one means the same as the other."""
        first_B1, second_B1 = self.firsts_B[:, None], self.seconds_B[:, None]
        is_first_BB = (first_B1 == self.firsts_B) | (first_B1 == self.seconds_B)
        found_BB: NDArray[np.bool_] = is_first_BB | is_first_BB.T | (second_B1 == self.seconds_B)
        return found_BB


@dataclass(frozen=True)
class EmbeddingKind(Kind[TextExample, EncodedPair, PairTexts, PairVectors, PairVectors]):
    """Texts of a pair are pulled together, and away from the other pairs of their batch (in-batch negatives).

    A text without a second is paired with itself under another dropout (SimCSE). Pairs with a number are
    trained on where it is at least `min_similarity`; the default is for STS-B's 0 to 5.
    `similarity_temperature` divides the cosines: the lower it is, the more the nearest negatives count. The
    vector of a text is the mean over all its tokens, [CLS] and [SEP] included, as in sentence-transformers.
    """

    max_length: int = 128
    similarity_temperature: float = 0.05
    min_similarity: float = 4.0

    @property
    def heads(self) -> Heads:
        """None: the encoder is all there is, and `transformers` opens it as such."""
        return {}

    @property
    def is_whole(self) -> bool:
        """Every pair is compared with all others; of many processes, with those of its own."""
        return True

    def encode(self, examples: Sequence[TextExample], tokenizer: Tokenizer) -> list[EncodedPair]:
        """`[CLS] text [SEP]` for each text."""
        return list(iter_encoded_pairs(examples, tokenizer=tokenizer, max_length=self.max_length))

    def teaches(self, item: EncodedPair) -> bool:
        """Whether a pair is not rated below `min_similarity`."""
        return item.label is None or (not isinstance(item.label, tuple) and item.label >= self.min_similarity)

    def measure(self, item: EncodedPair) -> int:
        """Both texts; a single one is read twice in training."""
        return len(item.first.ids) + len((item.second or item.first).ids)

    def build_batch(self, items: Sequence[EncodedPair]) -> TaskBatch[PairTexts]:
        """All first texts, then all second ones; a single text again."""
        sequences = [item.first for item in items] + [item.second or item.first for item in items]
        numbers: dict[tuple[int, ...], int] = {}
        texts_S = np.array([numbers.setdefault(each.ids, len(numbers)) for each in sequences], dtype=np.int64)
        has_second_B = np.array([item.second is not None for item in items], dtype=np.bool_)
        return lay_out(sequences, PairTexts(texts_S[: len(items)], texts_S[len(items) :], has_second_B))

    def count(self, batch: TaskBatch[PairTexts]) -> Mapping[str, int]:
        """One label per pair."""
        return {"task": len(batch.answers.firsts_B)}

    def compute_terms(
        self, model: AlbertModel, batch: TaskBatch[PairTexts], *, depth: int | None = None
    ) -> Terms:
        """Compute InfoNCE in both directions, half of each, summed.

        Correct are first texts whose second is the nearest. Pairs that share a text are no negatives of each
        other. Each process compares the pairs of its own share: with more processes there are fewer
        negatives, and `batch_size` should grow with them.
        """
        vectors_SD = self._embed(model, batch, depth=depth)
        num_pairs = len(batch.answers.firsts_B)
        with torch.autocast(vectors_SD.device.type, enabled=False):  # a cosine in bf16 has two digits
            cosines_BB = vectors_SD[:num_pairs] @ vectors_SD[num_pairs:].T
        is_left_out_BB = batch.answers.related_BB & ~np.eye(num_pairs, dtype=np.bool_)
        mask_BB = torch.from_numpy(is_left_out_BB).to(cosines_BB.device, non_blocking=True)
        logits_BB = (cosines_BB / self.similarity_temperature).masked_fill(mask_BB, -torch.inf)
        places_B = torch.arange(num_pairs, device=logits_BB.device)
        forth, back = (F.cross_entropy(each, places_B, reduction="sum") for each in (logits_BB, logits_BB.T))
        return {"task": ((forth + back) / 2, (logits_BB.argmax(1) == places_B).sum())}

    def _embed(self, model: AlbertModel, batch: TaskBatch[PairTexts], *, depth: int | None) -> Tensor:
        """The vector of each sequence, at length 1."""
        tokens = batch.build_tokens(model.device)
        parts = model(tokens, depth=depth).last_TD.float().split(tokens.lengths)
        return F.normalize(torch.stack([part_TD.mean(0) for part_TD in parts]), dim=1)

    def predict(
        self, model: AlbertModel, batch: TaskBatch[PairTexts], *, depth: int | None = None
    ) -> list[PairVectors]:
        """The vectors of each pair; where no text has a second, none is read twice."""
        has_second_B = batch.answers.has_second_B
        num_pairs = len(has_second_B)
        if not has_second_B.any():
            lengths = batch.lengths[:num_pairs]
            end = int(lengths.sum())
            flat = (batch.ids_T[:end], batch.positions_T[:end], batch.segments_T[:end])
            batch = TaskBatch(*flat, lengths, batch.answers)
        vectors_SD = self._embed(model, batch, depth=depth).detach().cpu().numpy()
        return [
            PairVectors(vectors_SD[place], vectors_SD[num_pairs + place] if has_second else None)
            for place, has_second in enumerate(has_second_B)
        ]

    def merge(self, answers: Sequence[PairVectors]) -> PairVectors:
        """Concatenate the vectors, at length 1: their cosine is the mean of the models' cosines."""

        def join(vectors: Sequence[Floats]) -> Floats:
            joined: Floats = np.concatenate(vectors) / np.float32(len(vectors) ** 0.5)
            return joined

        seconds = [answer.second for answer in answers if answer.second is not None]
        return PairVectors(join([answer.first for answer in answers]), join(seconds) if seconds else None)

    def prepare_scores(
        self, answers: Sequence[PairVectors], examples: Sequence[TextExample]
    ) -> WeightedScores:
        """Prepare Spearman's (the score) and Pearson's correlation of similarities and numbers."""
        numbers = [example.label for example in examples]
        for example in examples:
            if not isinstance(example.label, int | float):
                raise InputError(
                    f"the pair {example.id!r} has no number that says how similar it is, and others have one;"
                    " give all of them one, or none"
                )
        similarities = [answer.similarity for answer in answers]
        return prepare_task(
            similarities, golds=numbers, metrics=EMBEDDING_METRICS, judges=EMBEDDING_METRICS[:1]
        )

    def score(self, answers: Sequence[PairVectors], examples: Sequence[TextExample]) -> dict[str, float]:
        """Score the correlation with the numbers; without numbers, how often the second text is found."""
        for example in examples:
            if example.second is None:
                raise InputError(
                    f"the text {example.id!r} has no second to be compared with; score on pairs, such as "
                    "STS-B's"
                )
        if any(example.label is not None for example in examples):
            return super().score(answers, examples)
        found = 100.0 * find_retrieved(answers, examples)
        return {"retrieval_accuracy": found, "score": found}

    def find_intervals(
        self, answers: Sequence[PairVectors], examples: Sequence[TextExample], *, seed: int
    ) -> dict[str, Interval]:
        """Estimate the intervals of correlations; the nearest of all texts depends on all examples."""
        if any(example.label is None for example in examples):
            return {}
        return super().find_intervals(answers, examples, seed=seed)

    def describe(self, answer: PairVectors, example: TextExample) -> dict[str, Any]:
        """How similar the two texts are, from -1 to 1; the vector of a single text, at length 1."""
        if answer.second is None:
            return {"id": example.id, "embedding": answer.first.tolist()}
        return {"id": example.id, "similarity": answer.similarity}


def find_retrieved(answers: Sequence[PairVectors], examples: Sequence[TextExample]) -> float:
    """The share of first texts whose own second text is the nearest of all seconds.

    The second of another pair with the same first text, or an equal second text, counts as well.
    """
    firsts = np.stack([answer.first for answer in answers])
    seconds = np.stack([answer.second for answer in answers if answer.second is not None])
    hits = 0
    for start in range(0, len(firsts), _ROWS):
        nearest = (firsts[start : start + _ROWS] @ seconds.T).argmax(1)
        for example, place in zip(examples[start : start + _ROWS], nearest, strict=True):
            other = examples[place]
            hits += example.first == other.first or example.second == other.second
    return hits / len(firsts)


def check_dropout(items: Sequence[EncodedPair], config: ModelConfig) -> None:
    """Reject training on single texts without dropout: both views of a text would be the same."""
    num_single = sum(item.second is None for item in items)
    if num_single and not (config.hidden_dropout_prob or config.attention_probs_dropout_prob):
        raise InputError(
            f"dropout is 0, and {num_single:,} of {len(items):,} examples have no second text: only dropout "
            "tells the two views of such a text apart; set dropout=0.1, or give pairs"
        )
