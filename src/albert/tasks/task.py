"""The interface of a task type: what fine-tuning, evaluation, prediction and reports call.

A task type is one module: `classification`, `token_classification`, `question_answering`, `multiple_choice`,
`embedding`. It defines its example, the columns of a table, its config (task.json) and its `Task`. Code
outside these modules is independent of the type; `catalogue` has the table of types.
"""

import textwrap
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Protocol, TypeVar, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat
from torch import Tensor
from typing_extensions import Self

from albert.errors import InputError
from albert.model.albert_model import AlbertModel
from albert.model.heads import Heads
from albert.model.tokens import Tokens
from albert.pretrained.folder import Pretrained
from albert.report.content import Chart, Series
from albert.settings import Settings
from albert.tasks.metrics.calibration import fit_temperature
from albert.tasks.metrics.classification import ClassScore, Confusion
from albert.tasks.metrics.intervals import Interval, bootstrap_weighted
from albert.tasks.metrics.scores import WeightedScores
from albert.tasks.metrics.squad import ThresholdReport
from albert.tasks.sequences import TaskSequence
from albert.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from albert.model.early_exit import EarlyExitOutput
    from albert.tasks.finetune_settings import FinetuneSettings

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
UNKNOWN_LABEL = -100  # ignored by cross-entropy
MAX_POINTS = 1500  # of a scatter plot
# For each objective the summed loss and the number of correct predictions: what the training loop adds up.
Losses = dict[str, tuple[Tensor, Tensor]]


@dataclass(frozen=True, slots=True)
class Example:
    """One input of a task and its label, if known; the base class of each type's example.

    Runs and models identify their data by the `repr` of examples, so class names and fields must not change.
    """

    id: str

    @property
    def texts(self) -> tuple[Hashable, ...]:
        """The texts that train and dev set should not share, such as the context of a question."""
        raise NotImplementedError

    @property
    def num_characters(self) -> int:
        raise NotImplementedError

    @property
    def is_labeled(self) -> bool:
        raise NotImplementedError

    @property
    def label_indices(self) -> tuple[int, ...]:
        """The indices of the labels of the example or of its words."""
        return ()

    @property
    def article(self) -> str:
        """The article of the example; a split keeps the examples of an article together."""
        return ""

    @property
    def has_passage(self) -> bool:
        """Whether several questions may share one passage."""
        return False

    @property
    def stratum(self) -> Hashable:
        """The stratum of the example; train and dev set should both have examples of each."""
        return None


class Item(Protocol):
    """One or several input sequences of an encoded example: the unit of batches."""

    @property
    def num_tokens(self) -> int: ...

    @property
    def is_truncated(self) -> bool:
        """Whether text was lost; text in another window of the example is not."""


@dataclass(frozen=True)
class ExampleResult:
    """The gold label and the prediction of one example, as text.

    Args:
        id: The id of the example.
        texts: The parts of the example by name, in the order to show them.
        gold: The gold label.
        predicted: The predicted label.
        is_correct: Whether the prediction counts as correct.
        loss: -log p of the gold label, 1 - F1 for spans, the absolute error for numbers.
        confidence: The probability of the prediction; None for numbers.
    """

    id: str
    texts: Mapping[str, str]
    gold: str
    predicted: str
    is_correct: bool
    loss: float
    confidence: float | None


ExampleT = TypeVar("ExampleT", bound=Example)
ItemT = TypeVar("ItemT", bound=Item)
LabelsT = TypeVar("LabelsT")  # the labels of a batch
AnswerT = TypeVar("AnswerT")  # the prediction for an item or an example: logits, spans or vectors
Decisions = tuple[Floats, Ints]  # logits [decisions, classes], and the gold classes
Baseline = Callable[[Sequence[ExampleT], Sequence[ExampleT]], list[AnswerT]]  # train, dev -> answers to dev


@dataclass(frozen=True)
class TaskBatch(Generic[LabelsT]):
    """Concatenated sequences without padding, and their labels in the form of the task type.

    Without `has_labels`, as for the unlabeled examples of a student, the labels are not used.
    """

    ids_T: Ints
    positions_T: Ints
    segments_T: Ints
    lengths: Ints
    labels: LabelsT
    has_labels: bool = True

    def build_tokens(self, device: torch.device | str = "cpu") -> Tokens:
        """Build the input of the model on a device."""
        flat = (torch.from_numpy(part) for part in (self.ids_T, self.positions_T, self.segments_T))
        ids_T, positions_T, segments_T = (part.to(device, non_blocking=True) for part in flat)
        return Tokens(ids_T, positions_T, segments_T, tuple(self.lengths.tolist()))


def build_task_batch(sequences: Sequence[TaskSequence], labels: LabelsT) -> TaskBatch[LabelsT]:
    """Concatenate the sequences in their order."""
    lengths = np.array([len(sequence.ids) for sequence in sequences], dtype=np.int64)
    starts = np.cumsum(lengths) - lengths
    positions_T = np.arange(int(lengths.sum()), dtype=np.int64) - np.repeat(starts, lengths)
    firsts = np.array([sequence.num_first for sequence in sequences], dtype=np.int64)
    return TaskBatch(
        ids_T=np.fromiter((i for sequence in sequences for i in sequence.ids), np.int64, int(lengths.sum())),
        positions_T=positions_T,
        segments_T=(positions_T >= np.repeat(firsts, lengths)).astype(np.int64),
        lengths=lengths,
        labels=labels,
    )


class TaskConfig(Settings):
    """The config of a fine-tuned model (task.json); each type adds its own settings.

    Args:
        task: A published task or a task type.
        labels: The names of the model's outputs, if they have names.
        metrics: The metrics whose mean is the score.
        columns: The columns of the table that the model was trained on.
        max_length: The maximum length of a sequence, in tokens.
        temperature: Divides the logits to calibrate the probabilities.
        learned_from: Hashes of the training examples, alone and with the dev set.
        tuned_on: The hash of the dev set, on which temperature and threshold were chosen.
    """

    task: str
    task_type: str
    labels: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    columns: dict[str, Any] = Field(default_factory=dict)
    max_length: Annotated[int, Field(ge=8)] = 128
    temperature: PositiveFloat = 1.0
    learned_from: tuple[str, ...] = ()
    tuned_on: str = ""
    is_scorable_without_labels: ClassVar[bool] = False
    can_have_teacher: ClassVar[bool] = True  # in fine-tuning

    @property
    def has_numeric_label(self) -> bool:
        """Whether the label is a number, which the similarity of two vectors can predict, too."""
        return False

    @property
    def has_classes(self) -> bool:
        """Whether each prediction is one of several classes, which may be weighted (`class_weights`)."""
        return False

    @property
    def has_early_exits(self) -> bool:
        return False

    @property
    def max_embedded(self) -> int | None:
        """The number of tokens at which `embed` truncates a text; None for all positions of the model."""
        return None

    def fit_length(self, length: int) -> dict[str, Any]:
        """Return the changes of this config for sequences of `length` tokens."""
        return {"max_length": length}

    def complete(self, settings: "FinetuneSettings", *, train: Sequence[Example], max_positions: int) -> Self:
        """Add the length and options of a recipe; reject options that the task type does not have."""
        for option, is_set in (
            ("has_exits=true", settings.has_exits),
            (f"classifier_pooling={settings.classifier_pooling}", settings.classifier_pooling != "cls"),
        ):
            if is_set and option.partition("=")[0] not in type(self).model_fields:
                raise InputError(
                    f"{option} is only for classification and regression, not for {self.task}; remove it"
                )
        update = self.fit_length(min(settings.max_length, max_positions))
        if settings.class_weights == "balanced":
            if not self.has_classes:
                raise InputError(
                    f"class_weights=balanced is only for tasks with one label, not for {self.task}; remove it"
                )
            update["class_weights"] = balance_classes(train, num_classes=len(self.labels))
        return self.model_copy(update=update)

    def fit_table(self, train: Sequence[Example]) -> Self:
        """Add what is inferred from the examples of a user's table."""
        return self

    def check_data(
        self, train: Sequence[Example], dev: Sequence[Example], *, source: str, dev_source: str
    ) -> Iterator[str]:
        """Check the examples of a user's table; yield warnings, and raise `InputError` for unusable data."""
        yield from ()

    def with_patience(self, patience: int) -> Self:
        """Skip the remaining layers after one that agrees with the `patience` layers before it."""
        raise InputError(
            f"patience is {patience}, but this model has no early exits; fine-tune it with has_exits=true"
        )

    def without_exits(self) -> Self:
        """Return the config of a model that always runs all its layers, as in an exported graph."""
        return self

    def adapt(self, loaded: Pretrained) -> Self:
        """Adapt the config to a folder without task.json: its positions, labels and head."""
        length = min(self.max_length, loaded.config.max_position_embeddings)
        return self.model_copy(update=self.fit_length(length))

    def check_outputs(self, source: str, loaded: Pretrained) -> None:
        """Raise `InputError` if the outputs of a folder without task.json have another meaning."""

    def has_same_outputs(self, other: "TaskConfig") -> bool:
        """Return whether a head that was trained with the other config fits this one."""
        return (self.task_type, self.labels) == (other.task_type, other.labels)

    def check_teacher(self, teacher: "TaskConfig", *, source: str, has_same_tokens: bool) -> None:
        """Raise `InputError` unless a student of this config can follow a teacher, from `source`.

        The teacher may have the labels in another order. With `has_same_tokens`, it reads the tokens of the
        student; otherwise it tokenizes the examples itself.
        """
        aligned = teacher.model_copy(update={"labels": self.labels})
        if sorted(self.labels) != sorted(teacher.labels) or not self.has_same_outputs(aligned):
            named = [f"{each.task} ({', '.join(each.labels) or 'no labels'})" for each in (teacher, self)]
            theirs, ours = (textwrap.shorten(name, 200, placeholder=" …)") for name in named)
            raise InputError(
                f"{source}: was fine-tuned for {theirs}, but the student is for {ours}; give a teacher of "
                "the same task and labels"
            )

    def check_answers(self, target: "TaskConfig", *, source: str, model_task: str) -> None:
        """Raise `InputError` unless the model of this config, from `source`, can solve the target task."""
        if self.task_type != target.task_type:
            raise InputError(
                f"{source}: fine-tuned for {self.task} ({self.task_type}), but {target.task} needs a model "
                f"for {target.task_type}; give a model of {model_task}"
            )

    def merge(self, members: Sequence["TaskConfig"], target: "TaskConfig", *, is_published: bool) -> Self:
        """Build the config of an ensemble whose first member has this config, for the target task.

        Its temperature is 1, because each member applies its own before the probabilities are averaged.
        """
        own_metrics = self.metrics if self.task == target.task and not is_published else ()
        return self.model_copy(
            update={
                "task": target.task,
                "labels": target.labels or self.labels,
                "metrics": own_metrics or target.metrics,
                "temperature": 1.0,
            }
        )

    @classmethod
    def from_folder(cls, loaded: Pretrained) -> Self:
        """Infer the config of a folder of another library by its head."""
        raise NotImplementedError

    def list_folder_options(self, model: AlbertModel, *, labels: Sequence[str]) -> dict[str, Any]:
        """Return further arguments of `save_model`: `labels`, `problem_type`, `extras` (other files).

        `labels` are the folder's names of the outputs, used if the config has none.
        """
        return {}


@dataclass(frozen=True)
class Task(ABC, Generic[ExampleT, ItemT, LabelsT, AnswerT]):
    """A task type with its config.

    Examples are encoded into items: one each, or one for each window of a long text. A batch of items has
    losses, or one answer (prediction) for each item. The answers to the items of an example are aggregated;
    answers to examples are scored, explained and described.
    """

    config: TaskConfig
    config_class: ClassVar[type[TaskConfig]]
    head_names: ClassVar[tuple[str, ...]] = ()  # by which a folder without task.json is recognized

    @property
    @abstractmethod
    def method(self) -> str:
        """The method of `TaskPredictor` for this task, such as `classify`."""

    # The model and training.

    @property
    @abstractmethod
    def heads(self) -> Heads:
        """The heads that the model needs, with their numbers of outputs."""

    @property
    def objectives(self) -> tuple[str, ...]:
        """The names of the losses."""
        return ("task",)

    @property
    def uses_in_batch_negatives(self) -> bool:
        """Whether a step must be one batch, because its items are compared with each other."""
        return False

    @abstractmethod
    def encode(self, examples: Sequence[ExampleT], tokenizer: Tokenizer) -> list[ItemT]:
        """Tokenize the examples.

        Returns:
            The items in the order of the examples; those of one example are adjacent.
        """

    @abstractmethod
    def has_label(self, item: ItemT) -> bool:
        """Return whether an item can be trained on."""

    @abstractmethod
    def build_batch(self, items: Sequence[ItemT]) -> TaskBatch[LabelsT]:
        """Collate items."""

    @abstractmethod
    def count_labels(self, batch: TaskBatch[LabelsT]) -> Mapping[str, int]:
        """Count the labels of a batch for each objective, before the model runs."""

    @abstractmethod
    def compute_outputs(
        self,
        model: AlbertModel,
        batch: TaskBatch[LabelsT],
        *,
        target: Tensor | None = None,
        depth: int | None = None,
    ) -> Tensor:
        """Compute the outputs from which the losses follow, with the labels in the last dimension.

        Args:
            model: The model with the heads of the task.
            batch: A batch from `build_batch`.
            target: The outputs of a teacher, if the model is its student.
            depth: The number of layers to run; None for all.
        """

    @abstractmethod
    def compare_labels(self, outputs: Tensor, batch: TaskBatch[LabelsT]) -> Losses:
        """Compute for each objective the summed loss and the number of correct predictions."""

    def compute_losses(
        self, model: AlbertModel, batch: TaskBatch[LabelsT], *, depth: int | None = None
    ) -> Losses:
        """Compute the losses of a batch; arguments as in `compute_outputs`, result as in `compare_labels`."""
        return self.compare_labels(self.compute_outputs(model, batch, depth=depth), batch)

    # A student and its teacher.

    def match_items(self, items: Sequence[ItemT], others: Sequence[ItemT]) -> list[tuple[ItemT, ...]]:
        """Find for each item the items of the same outputs among those of the teacher's tokenizer.

        By default an example has one item.
        """
        return [(other,) for other in others]

    def count_outputs(self, batch: TaskBatch[LabelsT]) -> int:
        """Count the outputs of a batch that `compare_outputs` compares, before the model runs."""
        return len(batch.lengths)

    def compare_outputs(
        self, outputs: Tensor, target: Tensor, *, temperature: float
    ) -> tuple[Tensor, Tensor]:
        """Compare the outputs of a student with those of its teacher, by default softmaxes.

        Returns:
            The summed loss, and the number of outputs in which both predict the same.
        """
        return compare_softmaxes(outputs, target, temperature=temperature)

    def check_train(self, items: Sequence[ItemT], model: AlbertModel) -> None:
        """Raise `InputError` if the model cannot be trained on these items."""

    def explain_no_labels(self, examples: Sequence[ExampleT]) -> str:
        """Format the error for training examples without any usable label."""
        return f"None of the {len(examples):,} examples of {self.config.task} has a label; check the columns."

    def describe_truncated(self, num_truncated: int, num_examples: int, *, max_positions: int) -> str:
        """Format the warning about truncated texts, with the setting that keeps more of them."""
        length = self.config.max_length
        message = f"Truncated {num_truncated:,} of {num_examples:,} texts to {length} tokens."
        hint = f" Set max_length (up to {max_positions}) to keep more." if length < max_positions else ""
        return message + hint

    # Prediction.

    @abstractmethod
    def predict(
        self, model: AlbertModel, batch: TaskBatch[LabelsT], *, depth: int | None = None
    ) -> list[AnswerT]:
        """Compute one answer for each item of a batch; arguments as in `compute_outputs`."""

    def predict_early(
        self, model: AlbertModel, batch: TaskBatch[LabelsT], *, patience: int | None, depth: int | None
    ) -> "EarlyExitOutput":
        """Compute logits, and the number of layers that each sequence used, with or without early exit."""
        raise InputError(f"a model for {self.config.task} has no early exits; remove patience")

    def aggregate(self, items: Sequence[ItemT], answers: Sequence[AnswerT]) -> list[AnswerT]:
        """Aggregate the answers to the items of each example; by default each example has one item."""
        return list(answers)

    def align(self, answer: AnswerT, order: Sequence[int] | None) -> AnswerT:
        """Reorder the labels of an answer for an ensemble, at this model's temperature."""
        return answer

    @abstractmethod
    def ensemble(self, members: Sequence[Sequence[AnswerT]]) -> list[AnswerT]:
        """Merge the answers of several models to the same examples, aligned by `align`."""

    @abstractmethod
    def describe(self, answer: AnswerT, example: ExampleT) -> dict[str, Any]:
        """Describe an answer as JSON: names instead of indices, texts instead of positions."""

    def parse_inputs(self, *inputs: Any) -> Sequence[ExampleT]:
        """Convert the arguments of the predictor's method to examples."""
        raise NotImplementedError

    def build_record(self, row: Mapping[str, Any], example: ExampleT) -> Any:
        """Convert a described answer to the return value of the predictor's method."""
        return dict(row)

    # Scores and analysis.

    def prepare_scores(self, answers: Sequence[AnswerT], examples: Sequence[ExampleT]) -> WeightedScores:
        """Prepare the metrics.

        Returns:
            A function from the weight of each example to the metrics, in points of 100, and the main `score`.
        """
        raise NotImplementedError  # unless `score` and `find_intervals` are overridden

    def score(self, answers: Sequence[AnswerT], examples: Sequence[ExampleT]) -> dict[str, float]:
        """Compute the metrics, in points of 100, and the main `score`."""
        return self.prepare_scores(answers, examples)(np.ones(len(examples)))

    def find_intervals(
        self, answers: Sequence[AnswerT], examples: Sequence[ExampleT], *, seed: int
    ) -> dict[str, Interval]:
        """Estimate 95% bootstrap intervals of the metrics over examples (texts, not words)."""
        return bootstrap_weighted(len(examples), measure=self.prepare_scores(answers, examples), seed=seed)

    def list_decisions(self, answers: Sequence[AnswerT], examples: Sequence[ExampleT]) -> Decisions | None:
        """List all decisions between classes, for calibration; None if the task has none."""
        return None

    def tune(self, answers: Sequence[AnswerT], examples: Sequence[ExampleT]) -> TaskConfig:
        """Fit the temperature (or threshold) on a dev set and return the changed config."""
        decisions = self.list_decisions(answers, examples)
        if decisions is None:
            return self.config
        update: dict[str, Any] = {"temperature": fit_temperature(decisions[0], golds=decisions[1])}
        if self.config.has_classes:
            update["class_weights"] = None  # of the loss only
        return self.config.model_copy(update=update)

    def score_classes(
        self, answers: Sequence[AnswerT], examples: Sequence[ExampleT]
    ) -> tuple[ClassScore, ...]:
        """Score each class, label or entity type."""
        return ()

    def count_confusions(self, answers: Sequence[AnswerT], examples: Sequence[ExampleT]) -> Confusion | None:
        """Build the confusion matrix; None if the task has none."""
        return None

    def report_threshold(
        self,
        answers: Sequence[AnswerT],
        examples: Sequence[ExampleT],
        *,
        num_models: int,
        is_tuned_here: bool,
        seed: int,
    ) -> ThresholdReport | None:
        """Report the no-answer threshold, for tasks that have one."""
        return None

    @abstractmethod
    def explain(self, answers: Sequence[AnswerT], examples: Sequence[ExampleT]) -> tuple[ExampleResult, ...]:
        """Compare the answer to each example with its gold label, as text."""

    @property
    def has_label_filters(self) -> bool:
        """Whether the report has a filter of errors by label."""
        return False

    @property
    def error_order(self) -> str:
        """The order of errors in the report."""
        return "Sorted by loss: confident errors come first."

    def build_charts(self, results: Sequence[ExampleResult]) -> list[Chart]:
        """Build charts that the report has for this type only."""
        return []

    def list_baselines(self) -> "dict[str, Baseline[ExampleT, AnswerT]]":
        """Return the baselines by name: functions of the train and dev examples to answers to the latter."""
        return {}


# A task of any type, for code that passes it only its own examples, items and answers.
AnyTask = Task[Example, Item, object, object]


def compare_softmaxes(logits_NC: Tensor, target_NC: Tensor, *, temperature: float) -> tuple[Tensor, Tensor]:
    """Sum the divergences of rows of logits from the teacher's, and count rows with the same maximum.

    Both are divided by the temperature, and the loss is multiplied by its square, so that gradients keep
    their scale (Hinton et al. 2015). Logits of −inf are padding.
    """
    is_padding_NC = target_NC == -torch.inf
    ours_NC, theirs_NC = (
        (each_NC / temperature).log_softmax(-1).masked_fill(is_padding_NC, 0.0)
        for each_NC in (logits_NC, target_NC)
    )
    total = F.kl_div(ours_NC, theirs_NC, reduction="sum", log_target=True) * temperature**2
    return total, (logits_NC.argmax(-1) == target_NC.argmax(-1)).sum()


def plot_numbers(results: Sequence[ExampleResult], *, has_diagonal: bool) -> Chart:
    """Plot predicted over gold numbers, of many examples every n-th."""
    shown = results[:: -(-len(results) // MAX_POINTS)]
    points = Series(
        "an example", [float(each.gold) for each in shown], [float(each.predicted) for each in shown]
    )
    return Chart(
        "scatter",
        "Predicted by gold value",
        "gold",
        "predicted",
        [points],
        kind="points",
        has_diagonal=has_diagonal,
    )


def balance_classes(examples: Sequence[Example], *, num_classes: int) -> tuple[float, ...]:
    """Compute weights by which all classes have the same total weight, with a mean of 1 over labels."""
    counts = Counter(label for example in examples for label in example.label_indices)
    total = counts.total()
    # A class without training examples has no loss to weight.
    return tuple(
        total / (num_classes * counts[index]) if counts[index] else 1.0 for index in range(num_classes)
    )


def choose_label_names(labels: tuple[str, ...], loaded: Pretrained, *, head: str) -> tuple[str, ...]:
    """Choose the names of the outputs of a folder without task.json; `labels` are the task's.

    The folder's names are used, unless they are LABEL_0, LABEL_1, … and the task has names. If both have the
    same labels in another order or case, the order is the folder's and the spelling the task's.
    """
    names = loaded.folder_config.labels
    if labels and (not names or all(name.startswith("LABEL_") for name in names)):
        return labels
    if not names:
        return tuple(f"LABEL_{index}" for index in range(count_outputs(loaded.model, head) or 0))
    spelled = {name.lower(): name for name in labels}
    if sorted(name.lower() for name in names) == sorted(spelled):
        return tuple(spelled[name.lower()] for name in names)
    return names


def count_outputs(model: AlbertModel, head: str) -> int | None:
    """Return the number of outputs of a head; None if it is not a single linear layer."""
    linear = getattr(model.head(head), "linear", None)
    return None if linear is None else int(linear.out_features)


def require_list(texts: Any, wanted: str) -> Iterable[Any]:
    """Reject a single string, which would be read as a list of characters."""
    if isinstance(texts, str):
        raise InputError(f"expected a list of {wanted}, got {repr(texts)[:40]}")
    return cast("Iterable[Any]", texts)


def require_texts(texts: Any, name: str) -> list[str]:
    """Return one or several texts as a list; raise `InputError` for other values."""
    is_one = isinstance(texts, str) or not isinstance(texts, Iterable)
    listed: list[Any] = [texts] if is_one else list(texts)
    for number, text in enumerate(listed, start=1):
        if not isinstance(text, str):
            raise InputError(f"{name} {number} is {repr(text)[:80]}; give a text (str)")
    return listed
