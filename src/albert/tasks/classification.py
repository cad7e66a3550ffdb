"""Classification and regression of texts and pairs: one label, several labels or a number, with early exit.

Shapes: T tokens, B sequences, D hidden width, K labels, L layers.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat, PositiveInt
from scipy.special import expit, log_expit, log_softmax
from torch import Tensor
from typing_extensions import Self

from albert.data.rows import BadRow, Problems, Row, Wanted
from albert.errors import FileFormatError, InputError
from albert.model.albert_model import AlbertModel
from albert.model.early_exit import EarlyExitOutput, classify_after, classify_every_layer, classify_with_exits
from albert.model.heads import HEADS, Heads
from albert.pretrained.folder import Pretrained
from albert.report.content import Chart
from albert.tasks import bag_of_words, tables
from albert.tasks.finetune_settings import ClassifierPooling, FinetuneSettings
from albert.tasks.metrics.calibration import calibrate, merge_sigmoid, merge_softmax
from albert.tasks.metrics.classification import (
    ClassScore,
    Confusion,
    count_classes,
    count_confusions,
    count_labels,
    mark_labels,
)
from albert.tasks.metrics.scores import WeightedScores, prepare_metrics
from albert.tasks.sequences import Frame, TaskSequence, check_length, iter_groups, truncate_pair
from albert.tasks.task import (
    Baseline,
    Decisions,
    Example,
    ExampleResult,
    Floats,
    Losses,
    Task,
    TaskBatch,
    TaskConfig,
    build_task_batch,
    choose_label_names,
    compare_softmaxes,
    count_outputs,
    plot_numbers,
    require_list,
)
from albert.text.tokenizer import Tokenizer

HEAD = "classification"
_HEADS: dict[ClassifierPooling, str] = {
    "cls": HEAD, "mean": "mean_classification", "segments": "segment_classification",
}  # fmt: skip
# What the outputs of the model mean: one label of several, any of several, or a number.
LabelKind = Literal["one", "several", "number"]
# The index of a class, a number, or the indices of several classes; None if unknown.
Label = int | float | tuple[int, ...] | None
PROBLEM_TYPES: dict[LabelKind, str] = {  # in config.json, as `transformers` calls them
    "one": "single_label_classification", "several": "multi_label_classification", "number": "regression",
}  # fmt: skip
_OUTPUTS: dict[LabelKind, str] = {"one": "one label", "several": "several labels", "number": "a number"}
_TASKS: dict[LabelKind, str] = {"one": "classification", "several": "multilabel", "number": "regression"}
_METHODS: dict[LabelKind, str] = {"one": "classify", "several": "find_labels", "number": "rate"}
NO_LABEL = "(no label)"
MAX_CONFUSED = 200  # classes of a confusion matrix
MAX_NUMBER = 1e15  # sums of squares of larger numbers overflow 32-bit floats
_WIDE_NUMBER = 100.0  # a new head predicts about 0 and changes by a few units in 100 steps
_TOLERANCE = 0.5  # the absolute error below which a number counts as correct


@dataclass(frozen=True, slots=True)
class TextExample(Example):
    """A text or a pair of texts with its label."""

    first: str
    second: str | None = None
    label: Label = None

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.first,) if self.second is None else (self.first, self.second)

    @property
    def num_characters(self) -> int:
        return len(self.first) + len(self.second or "")

    @property
    def is_labeled(self) -> bool:
        return self.label is not None

    @property
    def label_indices(self) -> tuple[int, ...]:
        if self.label is None:
            return ()
        return self.label if isinstance(self.label, tuple) else (int(self.label),)

    @property
    def shown_texts(self) -> dict[str, str]:
        """The texts by name, for reports."""
        return {"text": self.first} if self.second is None else {"first": self.first, "second": self.second}


class TextColumns(tables.Columns):
    """The columns of a text or pair and its label: one, several or a number (`label_kind`).

    Several labels are a list, or a text that is split at `label_separator`.
    """

    text: str = "text"
    text_pair: str | None = None
    label: str = "label"
    label_kind: LabelKind = "one"
    label_separator: str = Field(default=",", min_length=1)
    id: str | None = None

    def wanted(self, *, is_labeled: bool) -> Wanted:
        return tables.select_columns((self.text, self.text_pair, self.id, self.label if is_labeled else None))

    def build(
        self, row: Row, labels: tables.Labels | None, *, is_labeled: bool, keeps_empty: bool = False
    ) -> TextExample:
        first = tables.read_text(row, self.text)
        second = tables.read_text(row, self.text_pair) if self.text_pair is not None else None
        label = self._read_label(row, labels) if is_labeled else None
        example = TextExample(tables.read_id(row, self.id), first, second, label)
        if not keeps_empty and not f"{first}{second or ''}".strip():
            raise BadRow("an empty text")
        return example

    def _read_label(self, row: Row, labels: tables.Labels | None) -> Label:
        if self.label_kind == "number":
            number = tables.read_number(row, self.label)
            if abs(number) > MAX_NUMBER:
                raise BadRow(f"a number in column {self.label!r} above {MAX_NUMBER:g}", f"{number:g}")
            return number
        assert labels is not None
        indices = [labels.index(name) for name in self.list_labels(row)]
        return indices[0] if self.label_kind == "one" else tuple(sorted(set(indices)))

    def note(self, example: TextExample, line: int, problems: Problems) -> None:
        if not example.first.strip() or (example.second is not None and not example.second.strip()):
            problems.note("an empty text", line=line)

    def list_labels(self, row: Row) -> list[str]:
        if self.label_kind == "several":
            return tables.read_label_list(row, self.label, separator=self.label_separator)
        return [tables.normalize_label(tables.read_label(row.values.get(self.label), self.label))]

    @property
    def min_labels(self) -> int:
        return {"one": 2, "several": 1, "number": 0}[self.label_kind]


@dataclass(frozen=True, slots=True)
class EncodedText:
    """The sequence of an example, its label, and the number of tokens that were truncated."""

    id: str
    sequence: TaskSequence
    label: Label
    num_truncated: int

    @property
    def num_tokens(self) -> int:
        return len(self.sequence.ids)

    @property
    def is_truncated(self) -> bool:
        return self.num_truncated > 0


def iter_encoded_texts(
    examples: Iterable[TextExample], *, tokenizer: Tokenizer, max_length: int
) -> Iterator[EncodedText]:
    """Encode `[CLS] first [SEP]` or `[CLS] first [SEP] second [SEP]`, of at most `max_length` tokens."""
    check_length(max_length, minimum=5)
    frame = Frame.of(tokenizer)
    for group in iter_groups(examples, count_characters=lambda each: each.num_characters):
        firsts = tokenizer.encode_ids([example.first for example in group])
        seconds = iter(tokenizer.encode_ids([each.second for each in group if each.second is not None]))
        for example, first in zip(group, firsts, strict=True):
            if example.second is None:
                kept = first[: max_length - 2]
                sequence, num_truncated = frame.join(frame.intern(kept)), len(first) - len(kept)
            else:
                second = next(seconds)
                keep = truncate_pair(len(first), len(second), max_tokens=max_length - 3)
                sequence = frame.join(frame.intern(first[: keep[0]]), frame.intern(second[: keep[1]]))
                num_truncated = len(first) + len(second) - sum(keep)
            yield EncodedText(example.id, sequence, example.label, num_truncated)


class ClassificationConfig(TaskConfig):
    """The config of a classifier.

    Args:
        label_kind: What is predicted: one label, several labels, or a number.
        class_weights: The weight of each class in the loss, with a mean of 1 over the training examples.
        classifier_pooling: The input of the classifier: cls, mean or segments (`FinetuneSettings`).
        has_exits: The model has a classifier after each layer (early exit by patience, Zhou et al. 2020).
        patience: Skip the remaining layers after one that agrees with so many layers before it; None runs
            all layers.
        exit_tolerance: Two layers agree if their numbers differ by less than this.
    """

    task_type: Literal["classification"] = "classification"
    label_kind: LabelKind = "one"
    class_weights: tuple[float, ...] | None = None
    classifier_pooling: ClassifierPooling = "cls"
    has_exits: bool = False
    patience: PositiveInt | None = None
    exit_tolerance: PositiveFloat = 0.5

    @property
    def num_outputs(self) -> int:
        return len(self.labels) or 1

    @property
    def head(self) -> str:
        return _HEADS[self.classifier_pooling]

    @property
    def has_numeric_label(self) -> bool:
        return self.label_kind == "number"

    @property
    def has_classes(self) -> bool:
        return self.label_kind == "one"

    @property
    def has_early_exits(self) -> bool:
        return self.has_exits

    def complete(self, settings: FinetuneSettings, *, train: Sequence[Example], max_positions: int) -> Self:
        completed = super().complete(settings, train=train, max_positions=max_positions)
        return completed.model_copy(
            update={"classifier_pooling": settings.classifier_pooling, "has_exits": settings.has_exits}
        )

    def check_data(
        self, train: Sequence[Example], dev: Sequence[Example], *, source: str, dev_source: str
    ) -> Iterator[str]:
        if self.label_kind != "number":
            return
        for examples, name in ((train, source), (dev, dev_source)):
            numbers = {each.label for each in examples if isinstance(each, TextExample)}
            if len(numbers) == 1:
                raise FileFormatError(
                    f"{name}: all {len(examples):,} examples have the number {numbers.pop()}, but at least 2 "
                    "different numbers are needed. Check the label column."
                )
        labels = [each.label for each in train if isinstance(each, TextExample)]
        widest = max((abs(label) for label in labels if isinstance(label, int | float)), default=0.0)
        if widest > _WIDE_NUMBER:
            yield (
                f"{source}: labels reach {widest:,.0f}, but models learn small numbers best; divide them by "
                f"about {widest / 5:,.0f}"
            )

    def with_patience(self, patience: int) -> Self:
        if not self.has_exits:
            return super().with_patience(patience)
        if patience < 1:
            raise InputError(f"patience is {patience}; set it to at least 1")
        return self.model_copy(update={"patience": patience})

    def without_exits(self) -> Self:
        return self.model_copy(update={"has_exits": False, "patience": None})

    def adapt(self, loaded: Pretrained) -> Self:
        adapted = super().adapt(loaded)
        if self.label_kind == "number":
            return adapted
        return adapted.model_copy(update={"labels": choose_label_names(self.labels, loaded, head=HEAD)})

    def check_outputs(self, source: str, loaded: Pretrained) -> None:
        if HEAD not in loaded.model.heads:
            return
        found = read_label_kind(loaded)
        if found is not None and found != self.label_kind:
            raise InputError(
                f"{source}: predicts {_OUTPUTS[found]} (problem_type {PROBLEM_TYPES[found]}), but "
                f"{self.task} needs {_OUTPUTS[self.label_kind]}; give a model of {self.task}, or use the "
                f"task {_TASKS[found]}"
            )

    def has_same_outputs(self, other: TaskConfig) -> bool:
        return isinstance(other, ClassificationConfig) and (self.labels, self.label_kind) == (
            other.labels,
            other.label_kind,
        )

    def check_answers(self, target: TaskConfig, *, source: str, model_task: str) -> None:
        super().check_answers(target, source=source, model_task=model_task)
        assert isinstance(target, ClassificationConfig)
        if self.label_kind != target.label_kind:
            raise InputError(
                f"{source}: was fine-tuned for {self.task} and predicts {_OUTPUTS[self.label_kind]}, but "
                f"{target.task} needs {_OUTPUTS[target.label_kind]}; give a model of {model_task}"
            )

    def merge(self, members: Sequence[TaskConfig], target: TaskConfig, *, is_published: bool) -> Self:
        merged = super().merge(members, target, is_published=is_published)
        return merged.model_copy(update={"class_weights": None}).without_exits()

    def list_folder_options(self, model: AlbertModel, *, labels: Sequence[str]) -> dict[str, Any]:
        return {"labels": self.labels or labels, "problem_type": PROBLEM_TYPES[self.label_kind]}

    @classmethod
    def from_folder(cls, loaded: Pretrained) -> Self:
        return cls(
            task="classification",
            label_kind=read_label_kind(loaded) or "one",
            max_length=max(8, loaded.config.max_position_embeddings),
        )


def read_label_kind(loaded: Pretrained) -> LabelKind | None:
    """Read the problem type of a folder; without one, a single output is a number, as in `transformers`."""
    kinds = {name: kind for kind, name in PROBLEM_TYPES.items()}
    is_number = count_outputs(loaded.model, HEAD) == 1
    return kinds.get(loaded.folder_config.problem_type or "", "number" if is_number else None)


@dataclass(frozen=True)
class Classification:
    """The most probable label of a text, and the probabilities of all labels, which sum to 1."""

    label: str
    probability: float
    probabilities: Mapping[str, float]


@dataclass(frozen=True)
class LabelSet:
    """All labels of a text with a probability above 0.5; the probabilities are independent."""

    labels: tuple[str, ...]
    probabilities: Mapping[str, float]


TextOrPair = str | tuple[str, str]
Batch = TaskBatch[NDArray[np.float32]]
Examples = Sequence[TextExample]
Answers = Sequence[Floats]


@dataclass(frozen=True)
class ClassificationTask(Task[TextExample, EncodedText, NDArray[np.float32], Floats]):
    """Predicts a label, several labels or a number for each text or pair; answers are logits [K]."""

    config: ClassificationConfig
    config_class: ClassVar[type[TaskConfig]] = ClassificationConfig
    head_names: ClassVar[tuple[str, ...]] = (HEAD,)

    @property
    def method(self) -> str:
        return _METHODS[self.config.label_kind]

    @property
    def heads(self) -> Heads:
        """A classifier; with exits, also one after each layer before the last."""
        head, number = self.config.head, self.config.num_outputs
        return {head: number, "exits": number} if self.config.has_exits else {head: number}

    def encode(self, examples: Examples, tokenizer: Tokenizer) -> list[EncodedText]:
        return list(iter_encoded_texts(examples, tokenizer=tokenizer, max_length=self.config.max_length))

    def has_label(self, item: EncodedText) -> bool:
        return item.label is not None

    def build_batch(self, items: Sequence[EncodedText]) -> Batch:
        """Collate items; labels are class indices, rows of 0 and 1, or numbers, and 0 if unknown."""
        labels = self._tabulate([item.label for item in items]).astype(np.float32)
        return build_task_batch([item.sequence for item in items], labels)

    def _tabulate(self, labels: Sequence[Label]) -> Floats:
        if self.config.label_kind != "several":
            return np.array([label or 0 for label in labels], dtype=np.float64)
        rows = [label if isinstance(label, tuple) else () for label in labels]
        return mark_labels(rows, num_labels=self.config.num_outputs).astype(np.float64)

    def count_labels(self, batch: Batch) -> Mapping[str, int]:
        return {"task": len(batch.lengths)}

    def compute_outputs(
        self, model: AlbertModel, batch: Batch, *, target: Tensor | None = None, depth: int | None = None
    ) -> Tensor:
        """Compute logits [L, B, K] after each layer that has a classifier: with exits all, otherwise one."""
        if not self.config.has_exits:
            return self._compute_logits(model, batch, depth=depth).unsqueeze(0)
        return torch.stack(classify_every_layer(model, batch.build_tokens(model.device), depth=depth))

    def compare_labels(self, outputs: Tensor, batch: Batch) -> Losses:
        """Compute the cross-entropy, the binary cross-entropy or the squared error."""
        return {"task": _average_layers([self._compare(logits_BK, batch) for logits_BK in outputs])}

    def count_outputs(self, batch: Batch) -> int:
        """Count the sequences, or of several labels all."""
        is_several = self.config.label_kind == "several"
        return len(batch.lengths) * (self.config.num_outputs if is_several else 1)

    def compare_outputs(
        self, outputs: Tensor, target: Tensor, *, temperature: float
    ) -> tuple[Tensor, Tensor]:
        """Compare each layer with the teacher's last: softmaxes, each of several labels, or numbers."""
        if self.config.label_kind == "number":
            errors_LB = (outputs - target[-1]).pow(2).squeeze(-1)
            return _average_layers([(each.sum(), (each < _TOLERANCE**2).sum()) for each in errors_LB])
        if self.config.label_kind == "several":  # as a choice between the logits 0 and x
            outputs, target = (torch.stack([torch.zeros_like(x), x], -1) for x in (outputs, target))
        return _average_layers(
            [compare_softmaxes(each, target[-1], temperature=temperature) for each in outputs]
        )

    def _compare(self, logits_BK: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the summed loss and the number of correct predictions."""
        labels = torch.from_numpy(batch.labels).to(logits_BK.device, non_blocking=True)
        if self.config.label_kind == "number":
            error_B = (logits_BK.squeeze(1) - labels).pow(2)
            return error_B.sum(), (error_B < _TOLERANCE**2).sum()
        if self.config.label_kind == "several":
            total = F.binary_cross_entropy_with_logits(logits_BK, labels, reduction="none").mean(1).sum()
            return total, ((logits_BK > 0) == (labels > 0)).all(1).sum()
        labels_B, weights = labels.long(), self.config.class_weights
        weights_K = None if weights is None else logits_BK.new_tensor(weights)
        total = F.cross_entropy(logits_BK, labels_B, weight=weights_K, reduction="sum")
        return total, (logits_BK.argmax(1) == labels_B).sum()

    def _compute_logits(self, model: AlbertModel, batch: Batch, *, depth: int | None) -> Tensor:
        """Compute the logits; the last layer runs on [CLS] only, unless the pooling needs all tokens."""
        if self.config.has_exits:
            return self.predict_early(model, batch, patience=self.config.patience, depth=depth).logits_BK
        tokens, pool = batch.build_tokens(model.device), HEADS[self.config.head].pool
        last_TD = model(tokens, depth=depth, first_only=pool is None).last_TD
        pooled = model.pool_first(last_TD) if pool is None else pool(last_TD, tokens)
        logits_BK: Tensor = model.head(self.config.head)(pooled).float()
        return logits_BK

    def predict_early(
        self, model: AlbertModel, batch: Batch, *, patience: int | None, depth: int | None
    ) -> EarlyExitOutput:
        tokens = batch.build_tokens(model.device)
        if patience is not None:
            return classify_with_exits(model, tokens, patience=patience, agree=self._agree, depth=depth)
        num_layers = depth or model.config.num_hidden_layers
        first_BD = model(tokens, depth=depth, first_only=True).last_TD
        logits_BK = classify_after(model, first_BD, num_layers=num_layers)
        return EarlyExitOutput(logits_BK, np.full(len(tokens.lengths), num_layers))

    def _agree(self, before_BK: Tensor, now_BK: Tensor) -> Tensor:
        """Return for each sequence whether two layers predict the same."""
        if self.config.label_kind == "number":
            return (now_BK - before_BK).abs().squeeze(1) < self.config.exit_tolerance
        if self.config.label_kind == "several":
            return ((now_BK > 0) == (before_BK > 0)).all(1)
        return now_BK.argmax(1) == before_BK.argmax(1)

    def predict(self, model: AlbertModel, batch: Batch, *, depth: int | None = None) -> list[Floats]:
        logits_BK = self._compute_logits(model, batch, depth=depth)
        return list(logits_BK.detach().cpu().numpy().astype(np.float64))

    def align(self, answer: Floats, order: Sequence[int] | None) -> Floats:
        if self.config.label_kind == "number":
            return answer
        return (answer if order is None else answer[list(order)]) / self.config.temperature

    def ensemble(self, members: Sequence[Answers]) -> list[Floats]:
        """Average the probabilities, or the numbers."""
        stacked = [np.stack(answers) for answers in members]
        if self.config.label_kind == "number":
            return list(np.stack(stacked).mean(0))
        return list(merge_softmax(stacked) if self.config.label_kind == "one" else merge_sigmoid(stacked))

    def describe(self, answer: Floats, example: TextExample) -> dict[str, Any]:
        """Describe the number, or the label or labels and all probabilities."""
        names, temperature = self.config.labels, self.config.temperature
        described: dict[str, Any] = {"id": example.id}
        if self.config.label_kind == "number":
            return {**described, "number": float(answer[0])}
        if self.config.label_kind == "one":
            described["label"] = names[int(answer.argmax())]
            probabilities = calibrate(answer, temperature=temperature)
        else:
            described["labels"] = [name for name, value in zip(names, answer, strict=True) if value > 0]
            probabilities = expit(answer / temperature)
        return {**described, "probabilities": dict(zip(names, probabilities.tolist(), strict=True))}

    def parse_inputs(self, *inputs: Any) -> list[TextExample]:
        examples = []
        for number, text in enumerate(require_list(inputs[0], "texts or of pairs"), start=1):
            parts: Any = (text,) if isinstance(text, str) else text
            is_tuple = isinstance(parts, tuple | list) and len(parts) in (1, 2)
            if not is_tuple or not all(isinstance(part, str) for part in parts):
                raise InputError(f"text {number} is {repr(text)[:80]}; give a text (str) or a pair of texts")
            examples.append(TextExample(str(number), *parts))
        return examples

    def build_record(self, row: Mapping[str, Any], example: TextExample) -> Classification | LabelSet | float:
        if self.config.label_kind == "number":
            return float(row["number"])
        probabilities = row["probabilities"]
        if self.config.label_kind == "one":
            return Classification(row["label"], probabilities[row["label"]], probabilities)
        return LabelSet(tuple(row["labels"]), probabilities)

    def _decide(self, answers: Answers) -> NDArray[Any]:
        """Convert logits to class indices, tables of 0 and 1, or numbers."""
        logits = np.stack(answers)
        if self.config.label_kind == "number":
            return logits[:, 0]
        return logits.argmax(1) if self.config.label_kind == "one" else (logits > 0).astype(np.int64)

    def _list_golds(self, examples: Examples) -> NDArray[Any]:
        golds = self._tabulate([example.label for example in examples])  # in float64, as in the table
        return golds if self.config.label_kind == "number" else golds.astype(np.int64)

    def prepare_scores(self, answers: Answers, examples: Examples) -> WeightedScores:
        golds = self._list_golds(examples)
        return prepare_metrics(self._decide(answers), golds=golds, metrics=self.config.metrics)

    def list_decisions(self, answers: Answers, examples: Examples) -> Decisions | None:
        """List a decision for each example; of several labels, a binary one each, with logits [0, logit]."""
        if self.config.label_kind == "number":
            return None
        logits, golds = np.stack(answers), self._list_golds(examples)
        if self.config.label_kind == "one":
            return logits, golds
        flat = logits.ravel()
        return np.stack([np.zeros_like(flat), flat], axis=1), golds.ravel()

    def score_classes(self, answers: Answers, examples: Examples) -> tuple[ClassScore, ...]:
        if self.config.label_kind == "number":
            return ()
        predicted, golds, labels = self._decide(answers), self._list_golds(examples), self.config.labels
        if self.config.label_kind == "one":
            count = count_classes(predicted, golds, num_classes=len(labels))
        else:
            count = count_labels(predicted, golds)
        return count(np.ones(len(golds))).list_scores(labels)

    def count_confusions(self, answers: Answers, examples: Examples) -> Confusion | None:
        if self.config.label_kind != "one" or len(self.config.labels) > MAX_CONFUSED:
            return None
        golds = self._list_golds(examples)
        return count_confusions(self._decide(answers), golds=golds, labels=self.config.labels)

    def explain(self, answers: Answers, examples: Examples) -> tuple[ExampleResult, ...]:
        return tuple(self._explain(*pair) for pair in zip(answers, examples, strict=True))

    def _explain(self, answer: Floats, example: TextExample) -> ExampleResult:
        texts, label = example.shown_texts, example.label
        if self.config.label_kind == "one":
            assert isinstance(label, int)
            return explain_choice(example.id, texts, self.config.labels, answer, label)
        if self.config.label_kind == "number":
            assert isinstance(label, int | float)
            predicted = float(answer[0])
            error = abs(predicted - label)
            is_correct = error < _TOLERANCE
            return ExampleResult(example.id, texts, f"{label:g}", f"{predicted:.3f}", is_correct, error, None)
        is_gold = np.isin(np.arange(len(self.config.labels)), example.label_indices)
        is_predicted = answer > 0
        names = np.array(self.config.labels, object)
        return ExampleResult(
            id=example.id,
            texts=texts,
            gold=", ".join(names[is_gold]) or NO_LABEL,
            predicted=", ".join(names[is_predicted]) or NO_LABEL,
            is_correct=bool((is_gold == is_predicted).all()),
            loss=-float(log_expit(np.where(is_gold, answer, -answer)).sum()),
            confidence=float(np.exp(log_expit(np.abs(answer)).sum())),
        )

    @property
    def has_label_filters(self) -> bool:
        return self.config.label_kind != "number"

    @property
    def error_order(self) -> str:
        if self.config.label_kind == "number":
            return "Sorted by absolute error, the largest first."
        return super().error_order

    def build_charts(self, results: Sequence[ExampleResult]) -> list[Chart]:
        return [plot_numbers(results, has_diagonal=True)] if self.config.label_kind == "number" else []

    def list_baselines(self) -> dict[str, Baseline[TextExample, Floats]]:
        return {"majority": self.predict_majority, "bag_of_words": self.predict_by_words}

    def predict_majority(self, train: Examples, dev: Examples) -> list[Floats]:
        """Predict the most frequent label (or set of labels), or the mean number, for every example."""
        labels = [example.label for example in train]
        if self.config.label_kind == "number":
            return [np.array([np.mean(self._tabulate(labels))])] * len(dev)
        label = Counter(labels).most_common(1)[0][0]
        row = -np.ones(len(self.config.labels))
        row[list(label) if isinstance(label, tuple) else int(label or 0)] = 1.0
        return [row] * len(dev)

    def predict_by_words(self, train: Examples, dev: Examples) -> list[Floats]:
        """Predict with a linear model of TF-IDF features.

        Its regularization is chosen on a part of the training examples.
        """

        def fit(train: Examples, features: bag_of_words.Features, strength: float) -> list[Floats]:
            labels = self._list_golds(train)
            if self.config.label_kind == "number":
                return list(bag_of_words.fit_ridge(features, labels, strength=strength))
            if self.config.label_kind == "one":
                num_labels = len(self.config.labels)
                return list(bag_of_words.fit_logistic(features, labels, num_labels, strength=strength))
            binary = [bag_of_words.fit_logistic(features, row, 2, strength=strength) for row in labels.T]
            return list(np.column_stack([logits[:, 1] - logits[:, 0] for logits in binary]))

        def prepare(train: Examples, held_out: Examples) -> Callable[[float], float]:
            features = self._build_features(train, held_out)
            return lambda strength: self.score(fit(train, features, strength), held_out)["score"]

        strength = bag_of_words.choose_strength(train, prepare)
        return fit(train, self._build_features(train, dev), strength)

    @staticmethod
    def _build_features(train: Examples, dev: Examples) -> bag_of_words.Features:
        pairs = ([(each.first, each.second) for each in examples] for examples in (train, dev))
        return bag_of_words.build_features(*pairs)


def _average_layers(terms: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Average the losses of the layers, layer i with weight i, as published for early exit.

    The correct predictions are those of the last layer.
    """
    totals, num_correct = zip(*terms, strict=True)
    weights_L = torch.arange(1.0, len(totals) + 1, device=totals[0].device)
    return (torch.stack(totals) * weights_L).sum() / weights_L.sum(), num_correct[-1]


def explain_choice(
    id: str, texts: Mapping[str, str], names: Sequence[str], logits: Floats, gold: int
) -> ExampleResult:
    """Build the result of an example with one of several classes or options."""
    predicted, logs = int(logits.argmax()), log_softmax(logits)
    loss, confidence = -float(logs[gold]), float(np.exp(logs[predicted]))
    return ExampleResult(id, texts, names[gold], names[predicted], predicted == gold, loss, confidence)
