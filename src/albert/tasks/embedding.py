"""Sentence embeddings: similar vectors for texts with the same meaning, trained on pairs (InfoNCE).

The other pairs of a batch are negatives. A text without a second one is paired with itself under another
dropout mask (SimCSE). The vector of a text is the mean over all its tokens, [CLS] and [SEP] included, as in
sentence-transformers.

Shapes: T tokens, B pairs, S sequences, D hidden width.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import PositiveFloat
from scipy.stats import rankdata
from torch import Tensor
from typing_extensions import Self

from albert.data.rows import BadRow, Row, Wanted, quote
from albert.errors import InputError
from albert.model.albert_model import AlbertModel
from albert.model.heads import Heads
from albert.pretrained.sentence_transformers import format_sentence_files
from albert.report.content import Chart
from albert.tasks.classification import Label, TextExample, iter_encoded_texts
from albert.tasks.finetune_settings import FinetuneSettings
from albert.tasks.metrics.intervals import Interval
from albert.tasks.metrics.scores import WeightedScores, prepare_metrics
from albert.tasks.sequences import TaskSequence
from albert.tasks.tables import Columns, Labels, read_id, read_number, read_text, select_columns
from albert.tasks.task import (
    Example,
    ExampleResult,
    Ints,
    Losses,
    Task,
    TaskBatch,
    TaskConfig,
    build_task_batch,
    plot_numbers,
)
from albert.text.tokenizer import Tokenizer

Vector = NDArray[np.float32]
EMBEDDING_METRICS = ("spearman", "pearson")
_MAX_RANK_GAP = 0.1  # of a correct pair, as a share of all pairs
_NUM_ROWS = 1024  # first texts that are compared with all second ones at a time


class SimilarityColumns(Columns):
    """The columns of texts, or of pairs with the same meaning, and optionally of their similarity."""

    text: str = "text"
    text_pair: str | None = None
    score: str = "score"
    id: str | None = None

    def wanted(self, *, is_labeled: bool) -> Wanted:
        # The second text is optional: single texts are evaluated on pairs of another table.
        return select_columns((self.text, self.id), (self.text_pair, self.score if is_labeled else None))

    def build(self, row: Row, labels: Labels | None, *, is_labeled: bool) -> TextExample:
        first = read_text(row, self.text)
        has_second = self.text_pair is not None and self.text_pair in row.values
        second = read_text(row, str(self.text_pair)) if has_second else None
        if not first.strip() or (second is not None and not second.strip()):
            raise BadRow("an empty text")
        has_score = is_labeled and row.values.get(self.score) not in (None, "")
        score = read_number(row, self.score) if has_score else None
        return TextExample(read_id(row, self.id), first, second, score)


@dataclass(frozen=True, slots=True)
class EncodedPair:
    """The sequences of an example's texts, its label, and the number of tokens that were truncated."""

    id: str
    first: TaskSequence
    second: TaskSequence | None
    label: Label
    num_truncated: int

    @property
    def num_tokens(self) -> int:
        """The tokens of both texts; a single text is encoded twice in training."""
        return len(self.first.ids) + len((self.second or self.first).ids)

    @property
    def is_truncated(self) -> bool:
        return self.num_truncated > 0


class EmbeddingConfig(TaskConfig):
    """The config of an embedding model.

    Args:
        similarity_temperature: Divides the cosines in training; a lower one gives the nearest negatives more
            weight.
        min_similarity: Skip pairs with a lower score in training; the default is for STS-B's 0 to 5.
    """

    task_type: Literal["embedding"] = "embedding"
    is_scorable_without_labels: ClassVar[bool] = True
    can_have_teacher: ClassVar[bool] = False
    similarity_temperature: PositiveFloat = 0.05
    min_similarity: float = 4.0

    @property
    def max_embedded(self) -> int:
        return self.max_length

    def complete(self, settings: FinetuneSettings, *, train: Sequence[Example], max_positions: int) -> Self:
        completed = super().complete(settings, train=train, max_positions=max_positions)
        return completed.model_copy(
            update={
                "similarity_temperature": settings.similarity_temperature,
                "min_similarity": settings.min_similarity,
            }
        )

    def check_answers(self, target: TaskConfig, *, source: str, model_task: str) -> None:
        """Accept also targets with a number for each pair, such as STS-B, which similarities predict."""
        if not target.has_numeric_label:
            super().check_answers(target, source=source, model_task=model_task)

    def check_data(
        self, train: Sequence[Example], dev: Sequence[Example], *, source: str, dev_source: str
    ) -> Iterator[str]:
        """Raise `InputError` if the dev set has single texts, or scores for only some pairs."""
        texts = [each for each in dev if isinstance(each, TextExample)]
        for text in texts:
            if text.second is None:
                raise InputError(
                    f"{dev_source}: text {quote(text.id)} has no second text, but embeddings are evaluated "
                    "on pairs; give pairs with --dev, and set columns.text_pair to their column"
                )
            if (text.label is None) != (texts[0].label is None):
                raise InputError(
                    f"{dev_source}: only one of the pairs {quote(texts[0].id)} and {quote(text.id)} has a "
                    "score; give all pairs a score, or none"
                )
        yield from ()

    def list_folder_options(self, model: AlbertModel, *, labels: Sequence[str]) -> dict[str, Any]:
        """Add the files that sentence-transformers reads."""
        return {"extras": format_sentence_files(model.config, max_length=self.max_length)}


@dataclass(frozen=True, eq=False)
class PairVectors:
    """The vectors of a pair, of length 1; a single text has no second one."""

    first: Vector
    second: Vector | None = None

    @property
    def similarity(self) -> float:
        assert self.second is not None
        return float(self.first @ self.second)


@dataclass(frozen=True)
class PairTexts:
    """The indices of the texts of a batch; equal texts have the same, and a single text is its own second."""

    firsts_B: Ints
    seconds_B: Ints
    has_second_B: NDArray[np.bool_]

    @property
    def related_BB(self) -> NDArray[np.bool_]:  # noqa: N802 - an array carries its shape in its name
        """Which pairs have a text in common, so that they are not negatives of each other."""
        first_B1, second_B1 = self.firsts_B[:, None], self.seconds_B[:, None]
        is_first_BB = (first_B1 == self.firsts_B) | (first_B1 == self.seconds_B)
        found_BB: NDArray[np.bool_] = is_first_BB | is_first_BB.T | (second_B1 == self.seconds_B)
        return found_BB


Batch = TaskBatch[PairTexts]
Examples = Sequence[TextExample]
Answers = Sequence[PairVectors]


@dataclass(frozen=True)
class EmbeddingTask(Task[TextExample, EncodedPair, PairTexts, PairVectors]):
    """Embeds texts; answers are the vectors of a pair."""

    config: EmbeddingConfig
    config_class: ClassVar[type[TaskConfig]] = EmbeddingConfig
    method = "embed"
    uses_in_batch_negatives = True
    error_order = "Sorted by the difference of ranks, the largest first."

    @property
    def heads(self) -> Heads:
        return {}

    def encode(self, examples: Examples, tokenizer: Tokenizer) -> list[EncodedPair]:
        """Encode each text as `[CLS] text [SEP]`."""
        encode = partial(iter_encoded_texts, tokenizer=tokenizer, max_length=self.config.max_length)
        firsts = encode(TextExample(each.id, each.first) for each in examples)
        seconds = encode(TextExample(each.id, each.second) for each in examples if each.second is not None)
        items = []
        for example, first in zip(examples, firsts, strict=True):
            second = None if example.second is None else next(seconds)
            num_truncated = first.num_truncated + (0 if second is None else second.num_truncated)
            sequence = None if second is None else second.sequence
            items.append(EncodedPair(example.id, first.sequence, sequence, example.label, num_truncated))
        return items

    def has_label(self, item: EncodedPair) -> bool:
        """Return whether a pair has no score or one of at least `min_similarity`."""
        score = item.label
        return score is None or (not isinstance(score, tuple) and score >= self.config.min_similarity)

    def check_train(self, items: Sequence[EncodedPair], model: AlbertModel) -> None:
        """Raise `InputError` for single texts without dropout: both views of a text would be equal."""
        num_single, config = sum(item.second is None for item in items), model.config
        if num_single and not (config.hidden_dropout_prob or config.attention_probs_dropout_prob):
            raise InputError(
                f"dropout is 0, but {num_single:,} of {len(items):,} examples have no second text and are "
                "compared with themselves under another dropout mask; set dropout=0.1, or give pairs"
            )

    def explain_no_labels(self, examples: Examples) -> str:
        scores = [each.label for each in examples if isinstance(each.label, int | float)]
        highest = max(scores, default=0.0)
        enough = min(highest, 0.8 * highest)  # as 4 of STS-B's 5
        return (
            f"None of the {len(examples):,} pairs of {self.config.task} has a score of at least "
            f"min_similarity={self.config.min_similarity:g}; the highest is {highest:g}. Set "
            f"min_similarity={enough:g}."
        )

    def build_batch(self, items: Sequence[EncodedPair]) -> Batch:
        """Collate all first texts, then all second ones; a single text is repeated."""
        sequences = [item.first for item in items] + [item.second or item.first for item in items]
        indices: dict[tuple[int, ...], int] = {}
        texts_S = np.array([indices.setdefault(each.ids, len(indices)) for each in sequences], dtype=np.int64)
        has_second_B = np.array([item.second is not None for item in items], dtype=np.bool_)
        labels = PairTexts(texts_S[: len(items)], texts_S[len(items) :], has_second_B)
        return build_task_batch(sequences, labels)

    def count_labels(self, batch: Batch) -> Mapping[str, int]:
        return {"task": len(batch.labels.firsts_B)}

    def compute_outputs(
        self, model: AlbertModel, batch: Batch, *, target: Tensor | None = None, depth: int | None = None
    ) -> Tensor:
        """Compute the vector of each sequence, of length 1."""
        tokens = batch.build_tokens(model.device)
        parts = model(tokens, depth=depth).last_TD.float().split(tokens.lengths)
        return F.normalize(torch.stack([part_TD.mean(0) for part_TD in parts]), dim=1)

    def compare_labels(self, outputs: Tensor, batch: Batch) -> Losses:
        """Compute InfoNCE in both directions, half of each, summed.

        A prediction is correct if the second text is the nearest. Each process compares only its own share of
        the pairs, so `batch_size` should grow with the number of processes.
        """
        num_pairs = len(batch.labels.firsts_B)
        with torch.autocast(outputs.device.type, enabled=False):  # a cosine in bf16 has two digits
            cosines_BB = outputs[:num_pairs] @ outputs[num_pairs:].T
        is_masked_BB = batch.labels.related_BB & ~np.eye(num_pairs, dtype=np.bool_)
        mask_BB = torch.from_numpy(is_masked_BB).to(cosines_BB.device, non_blocking=True)
        logits_BB = (cosines_BB / self.config.similarity_temperature).masked_fill(mask_BB, -torch.inf)
        labels_B = torch.arange(num_pairs, device=logits_BB.device)
        totals = [F.cross_entropy(each, labels_B, reduction="sum") for each in (logits_BB, logits_BB.T)]
        return {"task": ((totals[0] + totals[1]) / 2, (logits_BB.argmax(1) == labels_B).sum())}

    def predict(self, model: AlbertModel, batch: Batch, *, depth: int | None = None) -> list[PairVectors]:
        """Embed each pair; if all texts are single, each is encoded only once."""
        has_second_B = batch.labels.has_second_B
        num_pairs = len(has_second_B)
        if not has_second_B.any():
            lengths = batch.lengths[:num_pairs]
            end = int(lengths.sum())
            flat = (batch.ids_T[:end], batch.positions_T[:end], batch.segments_T[:end])
            batch = TaskBatch(*flat, lengths, batch.labels)
        vectors_SD = self.compute_outputs(model, batch, depth=depth).detach().cpu().numpy()
        return [
            PairVectors(vectors_SD[index], vectors_SD[num_pairs + index] if has_second else None)
            for index, has_second in enumerate(has_second_B)
        ]

    def ensemble(self, members: Sequence[Answers]) -> list[PairVectors]:
        """Concatenate the vectors, of length 1: their cosine is the mean of the models' cosines."""

        def join(vectors: Sequence[Vector]) -> Vector:
            joined: Vector = np.concatenate(vectors) / np.float32(len(vectors) ** 0.5)
            return joined

        merged = []
        for answers in zip(*members, strict=True):
            seconds = [answer.second for answer in answers if answer.second is not None]
            first = join([answer.first for answer in answers])
            merged.append(PairVectors(first, join(seconds) if seconds else None))
        return merged

    def describe(self, answer: PairVectors, example: TextExample) -> dict[str, Any]:
        """Describe the similarity of a pair, from -1 to 1, or the vector of a single text."""
        if answer.second is None:
            return {"id": example.id, "embedding": answer.first.tolist()}
        return {"id": example.id, "similarity": answer.similarity}

    def prepare_scores(self, answers: Answers, examples: Examples) -> WeightedScores:
        """Prepare Spearman's (the score) and Pearson's correlation of similarities and scores."""
        for example in examples:
            if not isinstance(example.label, int | float):
                raise InputError(
                    f"pair {example.id!r} has no score, but others do; give all pairs a score, or none"
                )
        return prepare_metrics(
            [answer.similarity for answer in answers],
            golds=[example.label for example in examples],
            metrics=EMBEDDING_METRICS,
            score_metrics=EMBEDDING_METRICS[:1],
        )

    def score(self, answers: Answers, examples: Examples) -> dict[str, float]:
        """Compute the correlations with the gold scores, or without them the retrieval accuracy."""
        for example in examples:
            if example.second is None:
                raise InputError(f"text {example.id!r} has no second text; give pairs, such as STS-B's")
        if any(example.label is not None for example in examples):
            return super().score(answers, examples)
        accuracy = 100.0 * measure_retrieval(answers, examples)
        return {"retrieval_accuracy": accuracy, "score": accuracy}

    def find_intervals(self, answers: Answers, examples: Examples, *, seed: int) -> dict[str, Interval]:
        """Estimate the intervals of correlations; retrieval is not a mean over independent examples."""
        if any(example.label is None for example in examples):
            return {}
        return super().find_intervals(answers, examples, seed=seed)

    def explain(self, answers: Answers, examples: Examples) -> tuple[ExampleResult, ...]:
        """Compare ranks, since similarities have their own scale; empty for pairs without scores."""
        if any(example.label is None for example in examples):
            return ()
        similarities = np.array([answer.similarity for answer in answers])
        golds = np.array([example.label for example in examples], np.float64)
        gaps = np.abs(rankdata(similarities) - rankdata(golds)) / len(golds)
        rows = zip(examples, golds.tolist(), similarities.tolist(), gaps.tolist(), strict=True)
        return tuple(
            ExampleResult(
                each.id, each.shown_texts, f"{gold:g}", f"{similarity:.3f}", gap < _MAX_RANK_GAP, gap, None
            )
            for each, gold, similarity, gap in rows
        )

    def build_charts(self, results: Sequence[ExampleResult]) -> list[Chart]:
        return [plot_numbers(results, has_diagonal=False)] if results else []


def measure_retrieval(answers: Answers, examples: Examples) -> float:
    """Compute the share of first texts whose own second text is the nearest of all second texts.

    The second text of another pair with the same first or second text counts as correct, too.
    """
    firsts = np.stack([answer.first for answer in answers])
    seconds = np.stack([answer.second for answer in answers if answer.second is not None])
    num_correct = 0
    for start in range(0, len(firsts), _NUM_ROWS):
        nearest = (firsts[start : start + _NUM_ROWS] @ seconds.T).argmax(1)
        for example, index in zip(examples[start : start + _NUM_ROWS], nearest, strict=True):
            other = examples[index]
            num_correct += example.first == other.first or example.second == other.second
    return num_correct / len(firsts)
