"""Losses of fine-tuning: those of the labels, and those of a student against a fine-tuned teacher.

The teacher runs on the same micro-batches. With the student's vocabulary it reads the same tokens; otherwise
it tokenizes the examples itself. Losses are sums with counts that are known before the models run.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, cast

import torch
from torch import Tensor, nn

from albert.errors import InputError
from albert.model.albert_model import AlbertModel
from albert.model.config import ModelConfig
from albert.model.encoder import EncoderOutput
from albert.model.tokens import Tokens
from albert.tasks.finetune_settings import FinetuneSettings, TeacherSettings
from albert.tasks.models import FinetunedModel, load_finetuned
from albert.tasks.task import (
    AnswerT,
    AnyTask,
    Example,
    ExampleT,
    Item,
    ItemT,
    LabelsT,
    Losses,
    Task,
    TaskBatch,
    TaskConfig,
)
from albert.text.tokenizer import Tokenizer
from albert.training.distillation import compare_states, match_layers
from albert.training.settings import DistillationSettings

SOFT, HIDDEN = "soft", "hidden"


class TaskLosses(nn.Module, Generic[ExampleT, ItemT, LabelsT, AnswerT]):
    """A module that computes the losses of a task, with the model as a submodule."""

    def __init__(self, model: AlbertModel, task: Task[ExampleT, ItemT, LabelsT, AnswerT]) -> None:
        super().__init__()
        self.model, self.task = model, task

    @property
    def weights(self) -> dict[str, float]:
        """The weights of the losses by name."""
        return dict.fromkeys(self.task.objectives, 1.0)

    def count(self, batch: TaskBatch[LabelsT]) -> Mapping[str, int]:
        """Count what each loss is summed over, before the model runs."""
        return self.task.count_labels(batch)

    def build_batch(self, items: Sequence[ItemT]) -> TaskBatch[LabelsT]:
        return self.task.build_batch(items)

    def forward(self, batch: TaskBatch[LabelsT], *, depth: int | None = None) -> Losses:
        return self.task.compute_losses(self.model, batch, depth=depth)


@dataclass(frozen=True, slots=True)
class StudentItem:
    """An item of the student, and the teacher's items with the same outputs if it reads other tokens."""

    item: Item
    others: tuple[Item, ...]
    has_label: bool

    @property
    def num_tokens(self) -> int:
        return self.item.num_tokens

    @property
    def is_truncated(self) -> bool:
        return self.item.is_truncated


@dataclass(frozen=True)
class StudentBatch(TaskBatch[object]):
    """A batch of the student, and the teacher's batch of the same examples if it reads other tokens."""

    other: TaskBatch[object] | None = None


@dataclass(frozen=True)
class FinetuneTeacher:
    """A frozen fine-tuned model that a student follows.

    `order` has for each label of the student the index of the teacher's output; it is empty without labels.
    With `has_same_tokens`, the teacher reads the tokens of the student.
    """

    finetuned: FinetunedModel
    order: tuple[int, ...]
    has_same_tokens: bool
    settings: TeacherSettings

    def pair_items(
        self, task: AnyTask, items: Sequence[Item], examples: Sequence[Example], *, has_labels: bool
    ) -> list[StudentItem]:
        """Pair the student's items of the examples with those of the teacher, which have the same outputs.

        An item without outputs, such as a window inside a long word, may be left out.
        """
        if self.has_same_tokens:
            return [StudentItem(item, (), has_labels) for item in items]
        matched = task.match_items(items, self.finetuned.task.encode(examples, self.finetuned.tokenizer))
        pairs = zip(items, matched, strict=True)
        return [StudentItem(item, others, has_labels) for item, others in pairs if others]

    def compute_outputs(self, model: AlbertModel, batch: TaskBatch[object]) -> Tensor:
        """Compute the outputs in the order of the student's labels."""
        outputs = self.finetuned.task.compute_outputs(model, batch)
        return outputs[..., list(self.order)] if self.order else outputs


def load_teacher(
    source: str | Path,
    config: TaskConfig,
    settings: FinetuneSettings,
    *,
    student: ModelConfig,
    tokenizer: Tokenizer,
) -> FinetuneTeacher:
    """Load a teacher for a student with this task, model config and tokenizer.

    Raises:
        InputError: If it is not fine-tuned, has other outputs, or cannot be compared by the settings.
    """
    if settings.rename_share:
        raise InputError(
            f"rename_share is {settings.rename_share}, but a teacher reads the original tokens; set "
            "rename_share=0"
        )
    if not config.can_have_teacher:
        raise InputError(
            f"--teacher {source}: {config.task} is not fine-tuned with a teacher; use `albert distill`, "
            "which compares vectors of texts"
        )
    found = load_finetuned(source, runtime=settings.runtime)
    theirs, model = found.task.config, found.model.config
    has_same_vocabulary = found.tokenizer.fingerprint == tokenizer.fingerprint
    has_same_tokens = has_same_vocabulary and config.max_length <= model.max_position_embeddings
    config.check_teacher(theirs, source=str(source), has_same_tokens=has_same_tokens)
    if settings.teacher.hidden_weight:
        has_same_width = model.hidden_size == student.hidden_size
        if not has_same_tokens or not has_same_width or config.has_early_exits or theirs.has_early_exits:
            raise InputError(
                f"teacher.hidden_weight is {settings.teacher.hidden_weight}, but {source} has another "
                "vocabulary or width than the student, fewer positions, or one of them has early exits; set "
                "teacher.hidden_weight=0"
            )
    found.model.requires_grad_(False)
    order = tuple(theirs.labels.index(name) for name in config.labels)
    return FinetuneTeacher(found, order, has_same_tokens, settings.teacher)


class StudentLosses(TaskLosses[Example, Item, object, object]):
    """The losses of a task, and those against a teacher, which also unlabeled examples have.

    - soft: the divergence from the teacher's probabilities, or the squared difference of numbers.
    - hidden: the squared distance of matched hidden states, in units of the teacher's variance.
    """

    def __init__(self, model: AlbertModel, task: AnyTask, teacher: FinetuneTeacher) -> None:
        super().__init__(model, task)
        self.teacher = teacher  # no module, so that it is neither saved nor sharded
        self.layers: tuple[tuple[int, int], ...] = ()
        if teacher.settings.hidden_weight:
            ours, theirs = model.config, teacher.finetuned.model.config
            self.layers = match_layers(
                DistillationSettings(), student=ours.num_hidden_layers, teacher=theirs.num_hidden_layers
            )

    @property
    def weights(self) -> dict[str, float]:
        settings = self.teacher.settings
        weights = {**dict.fromkeys(self.task.objectives, settings.label_weight), SOFT: settings.soft_weight}
        return {**weights, HIDDEN: settings.hidden_weight} if self.layers else weights

    def count(self, batch: TaskBatch[object]) -> Mapping[str, int]:
        labels = self.task.count_labels(batch) if batch.has_labels else {}
        hidden = {HIDDEN: len(batch.ids_T) * len(self.layers)} if self.layers else {}
        return {**labels, SOFT: self.task.count_outputs(batch), **hidden}

    def build_batch(self, items: Sequence[Item]) -> StudentBatch:
        """Collate items that all have labels, or none."""
        students = cast(Sequence[StudentItem], items)
        has_labels = students[0].has_label

        def build(task: AnyTask, items: Sequence[Item]) -> TaskBatch[object]:
            return replace(task.build_batch(items), has_labels=has_labels)

        ours, other = build(self.task, [each.item for each in students]), None
        if not self.teacher.has_same_tokens:
            other = build(
                self.teacher.finetuned.task, [each for student in students for each in student.others]
            )
        return StudentBatch(**vars(ours), other=other)

    def forward(self, batch: TaskBatch[object], *, depth: int | None = None) -> Losses:
        assert isinstance(batch, StudentBatch)
        task, settings = self.task, self.teacher.settings
        student, teacher = self.model, self.teacher.finetuned.model
        ours, theirs = _HiddenStates(student), _HiddenStates(teacher)
        if self.layers:
            student, teacher = cast(AlbertModel, ours), cast(AlbertModel, theirs)
        with torch.no_grad():
            target = self.teacher.compute_outputs(teacher, batch.other or batch)
        outputs = task.compute_outputs(student, batch, target=target, depth=depth)
        losses = task.compare_labels(outputs, batch) if batch.has_labels else {}
        losses[SOFT] = task.compare_outputs(outputs, target, temperature=settings.temperature)
        if self.layers:
            distances = [compare_states(ours.states[i], theirs.states[k]) for i, k in self.layers]
            total = torch.stack(distances).sum()
            losses[HIDDEN] = total, total.new_full((), math.nan)
        return losses


class _HiddenStates:
    """Runs a model as a task does, and keeps the hidden states, for which all layers run on all tokens."""

    def __init__(self, model: AlbertModel) -> None:
        self.model = model
        self.states: tuple[Tensor, ...] = ()

    def __call__(
        self,
        tokens: Tokens,
        *,
        depth: int | None = None,
        indices_P: Tensor | None = None,
        first_only: bool = False,
    ) -> EncoderOutput:
        output = self.model(tokens, depth=depth, with_hidden_states=True)
        self.states = output.hidden_states or ()
        rows_P = tokens.first_B if first_only else indices_P
        return output if rows_P is None else EncoderOutput(output.last_TD[rows_P])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)
