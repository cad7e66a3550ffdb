"""Ensembles: load models, align their labels, average their predictions, select members."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from albert.errors import InputError
from albert.model.runtime import RuntimeSettings
from albert.pretrained.hub import resolve_source
from albert.progress import Reporter
from albert.tasks.catalogue import TaskDefinition, build_task, read_config
from albert.tasks.models import FinetunedModel, load_finetuned
from albert.tasks.task import AnyTask, Example, TaskConfig

Source = str | Path
_CHUNK = 2048  # examples that are encoded at a time


@dataclass(frozen=True)
class Member:
    """A model of an ensemble."""

    name: str  # as given by the user
    path: Path
    config: TaskConfig
    foreign: TaskConfig | None = None  # the task of a folder without task.json
    order: tuple[int, ...] | None = None  # for each label of the ensemble the index of the model's output
    backend: str = "torch"

    def load(self, runtime: RuntimeSettings, *, is_shared: bool = False) -> FinetunedModel:
        return load_finetuned(
            self.path, target=self.foreign, runtime=runtime, backend=self.backend, is_shared=is_shared
        )

    def align(self, answers: Sequence[object]) -> list[object]:
        """Reorder the labels of answers for the ensemble, and apply the model's temperature."""
        task = build_task(self.config)
        return [task.align(answer, self.order) for answer in answers]


def open_members(
    definition: TaskDefinition,
    models: Sequence[Source],
    *,
    runtime: RuntimeSettings,
    columns: Mapping[str, Any],
    data: tuple[Path, str | None] | None = None,
    revision: str | None = None,
    backend: str = "torch",
) -> tuple[tuple[Member, ...], dict[str, Any]]:
    """Open the models of an evaluation or a prediction, and find the columns of a user's table.

    Args:
        definition: The task.
        models: Folders, runs or hub names.
        runtime: Device and precision.
        columns: The columns that the user set; others are those of the first model, if it was fine-tuned on
            such a table.
        data: The data and the split, from which the labels of folders without names are inferred.
        revision: The version of models on the hub.
        backend: torch, or onnx or onnx-int8 for exported folders.

    Returns:
        The members of the ensemble, and the columns of the table.
    """
    if definition.is_published and columns and data is not None:
        raise InputError(f"columns do not apply to the official files of {definition.name}; remove them")
    paths = [resolve_source(model, revision=revision) for model in models]
    known = [read_config(path) for path in paths]
    first = known[0]
    names = {**(first.columns if first is not None and first.task == definition.name else {}), **columns}
    labels = definition.config.labels
    if data is not None:
        _, path = definition.find_split(*data)
        if None in known:
            labels = definition.find_label_names(path, columns=names)
    members = []
    for model, path, config in zip(models, paths, known, strict=True):
        if config is None:
            target = definition.config.model_copy(update={"labels": tuple(labels)})
            loaded = load_finetuned(path, target=target, runtime=runtime, backend=backend)
            members.append(Member(str(model), path, loaded.task.config, target, backend=backend))
        else:
            config.check_answers(definition.config, source=str(model), model_task=definition.model_task)
            members.append(Member(str(model), path, config, backend=backend))
    return align_members(members, definition), names


def align_members(members: Sequence[Member], definition: TaskDefinition) -> tuple[Member, ...]:
    """Align the outputs of all members with the task's labels, or for a table with the first member's."""
    first = members[0].config
    for member in members:
        if member.config.task_type != first.task_type:
            raise InputError(
                f"{member.name}: was fine-tuned for {member.config.task}, but {members[0].name} for "
                f"{first.task}; give models of one task type"
            )
    labels = definition.config.labels or first.labels
    if not labels:
        return tuple(members)
    # Labels may also be in lower case, or spelled as in the files of a published task.
    spellings = {name: index for index, name in enumerate(labels)}
    for names in ([name.lower() for name in labels], definition.official_labels):
        for index, name in enumerate(names):
            spellings.setdefault(name, index)
    aligned = []
    for member in members:
        own = member.config.labels
        found = [spellings.get(name, spellings.get(name.lower(), -1)) for name in own]
        if sorted(found) != list(range(len(labels))):
            owner = definition.name if definition.config.labels else members[0].name
            raise InputError(
                f"{member.name}: was fine-tuned for {member.config.task} with the labels {', '.join(own)}, "
                f"but {owner} has {', '.join(labels)}; give a model of {definition.model_task}"
            )
        aligned.append(replace(member, order=tuple(found.index(index) for index in range(len(labels)))))
    return tuple(aligned)


def merge_configs(members: Sequence[Member], definition: TaskDefinition) -> TaskConfig:
    """Build the config by which merged answers are scored and described."""
    configs = [member.config for member in members]
    return configs[0].merge(configs, definition.config, is_published=definition.is_published)


def merge_answers(task: AnyTask, members: Sequence[Sequence[object]]) -> list[object]:
    """Merge the answers of several models into one for each example; those of one model are unchanged."""
    return list(members[0]) if len(members) == 1 else task.ensemble(members)


@dataclass(frozen=True)
class Ensemble:
    """Several models and their answers to the same examples."""

    definition: TaskDefinition
    members: tuple[Member, ...]
    answers: tuple[list[object], ...]
    examples: tuple[Example, ...]

    @property
    def task(self) -> AnyTask:
        return build_task(merge_configs(self.members, self.definition))

    def select_examples(self, rows: Sequence[int]) -> "Ensemble":
        answers = tuple([own[row] for row in rows] for own in self.answers)
        return replace(self, answers=answers, examples=tuple(self.examples[row] for row in rows))

    def select_members(self, indices: Sequence[int]) -> "Ensemble":
        members = tuple(self.members[index] for index in indices)
        return replace(self, members=members, answers=tuple(self.answers[index] for index in indices))

    def merge(self) -> list[object]:
        return merge_answers(self.task, self.answers)

    def score(self) -> dict[str, float]:
        return self.task.score(self.merge(), self.examples)


def predict_ensemble(
    definition: TaskDefinition,
    members: tuple[Member, ...],
    examples: tuple[Example, ...],
    *,
    runtime: RuntimeSettings,
    depth: int | None,
    reporter: Reporter,
) -> Ensemble:
    """Predict all examples with each model; one model is in memory at a time."""
    all_answers = []
    for number, member in enumerate(members):
        answers: list[object] = []
        model = member.load(runtime)
        for start in range(0, len(examples), _CHUNK):
            answers += model.predict(examples[start : start + _CHUNK], depth=depth)
            share = (number + len(answers) / len(examples)) / len(members)
            reporter.show("evaluate", f"{member.name}: {len(answers):,} answers", fraction=share)
        all_answers.append(member.align(answers))
        for warning in model.describe_truncated(len(examples)):
            reporter.say(warning)
    return Ensemble(definition, members, tuple(all_answers), examples)


def choose_members(
    num_members: int, score: Callable[[Sequence[int]], float]
) -> tuple[list[int], list[float]]:
    """Select members greedily: the best model, then each time the one that improves the score most.

    Args:
        num_members: The number of candidates.
        score: Returns the score of the ensemble of the models with these indices.

    Returns:
        The indices in the order in which they were added, and the score after each.
    """
    chosen: list[int] = []
    steps: list[float] = []
    remaining = list(range(num_members))
    while remaining:
        scores = [score([*chosen, index]) for index in remaining]
        best = max(scores)
        if chosen and best <= steps[-1]:
            break
        chosen.append(remaining.pop(scores.index(best)))
        steps.append(best)
    return chosen, steps
