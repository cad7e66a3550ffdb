"""Fine-tuned folders and a task come in; models that can answer it together, and what they say, go out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from albert.errors import InputError
from albert.model.runtime import RuntimeSettings
from albert.pretrained.hub import resolve_source
from albert.tasks.answering import load_answerer
from albert.tasks.evaluation_goal import Goal
from albert.tasks.metrics.figures import find_middle
from albert.tasks.task_facts import TaskFacts, describe_labels, read_facts


@dataclass(frozen=True)
class Member:
    """A model by its name and its facts; `places` lead from the labels of the whole to its own outputs.

    `foreign` are the facts to open a folder with that has none itself.
    """

    name: str
    path: Path
    facts: TaskFacts
    foreign: TaskFacts | None = None
    places: tuple[int, ...] | None = None


def read_member(
    source: str | Path,
    goal: Goal,
    *,
    names: Sequence[str],
    runtime: RuntimeSettings,
    revision: str | None = None,
) -> Member:
    """What a folder was fine-tuned for; one that does not say is taken to be for the task, with `names`.

    Refused: a model of another kind of task.
    """
    path = resolve_source(source, revision=revision)
    facts = read_facts(path)
    if facts is None:
        wanted = goal.facts.model_copy(update={"labels": tuple(names)})
        return Member(str(source), path, load_answerer(path, task=wanted, runtime=runtime).facts, wanted)
    if facts.kind != goal.facts.kind and not _embeds_pairs(facts, goal):
        raise InputError(
            f"{source}: was fine-tuned for {facts.task} ({facts.kind}), and {goal.name} is of "
            f"{goal.facts.kind}; give a model of {_name_model(goal)}"
        )
    if facts.kind == goal.facts.kind and facts.label_kind != goal.facts.label_kind:
        raise InputError(
            f"{source}: was fine-tuned for {facts.task} and gives {describe_labels(facts.label_kind)}, and "
            f"{goal.name} asks for {describe_labels(goal.facts.label_kind)}; give a model of "
            f"{_name_model(goal)}"
        )
    if goal.published is not None and goal.facts.has_impossible and not facts.has_impossible:
        raise InputError(
            f"{source}: was fine-tuned for {facts.task} and answers every question, and {goal.name} has some "
            f"without an answer; give a model of {goal.name}"
        )
    return Member(str(source), path, facts)


def fit_members(members: Sequence[Member], goal: Goal) -> tuple[Member, ...]:
    """The members with their outputs in one order: the task's, or that of the first where a table has none.

    Refused: other labels than these, and members that do not answer alike.
    """
    first = members[0].facts
    for member in members:
        if (member.facts.kind, member.facts.has_impossible) != (first.kind, first.has_impossible):
            raise InputError(
                f"{member.name}: was fine-tuned for {member.facts.task}, and {members[0].name} for "
                f"{first.task}; the models of an ensemble must answer the same"
            )
    labels = goal.facts.labels or first.labels
    owner = goal.name if goal.facts.labels else members[0].name
    spellings = _spell(goal, labels)
    return tuple(_fit(member, labels, spellings, owner=owner, goal=goal) for member in members)


def describe_whole(members: Sequence[Member], goal: Goal) -> TaskFacts:
    """The facts that the answers of the members together are scored and described by.

    Probabilities are at each member's own temperature before they are merged, so that the whole has none.
    Odds for no answer are means, and their threshold is the median: it says nothing where most do.
    """
    first = members[0].facts
    thresholds = [member.facts.threshold for member in members]
    known = [value for value in thresholds if value is not None]
    has_threshold = goal.facts.has_impossible or goal.own is not None
    is_own = goal.own is not None and first.task == goal.name
    metrics = (first.metrics if is_own else ()) or goal.facts.metrics
    return first.model_copy(
        update={
            "task": goal.name,
            "labels": goal.facts.labels or first.labels,
            "metrics": metrics,
            "temperature": 1.0,
            "class_weights": None,
            "has_exits": False,
            "patience": None,
            "has_impossible": first.has_impossible and has_threshold,
            "threshold": find_middle(known) if len(known) == len(members) else None,
        }
    )


def align_answer(answer: Any, member: Member) -> Any:
    """An answer with its labels in the order of the whole, at the temperature of the model that gave it."""
    if not isinstance(answer, np.ndarray) or member.facts.label_kind == "number":
        return answer
    ordered = answer if member.places is None else answer[..., list(member.places)]
    return ordered / member.facts.temperature


def _fit(
    member: Member, labels: Sequence[str], spellings: Mapping[str, int], *, owner: str, goal: Goal
) -> Member:
    if member.facts.kind not in ("texts", "words"):
        return member
    names = member.facts.labels
    found = [spellings.get(name, spellings.get(name.lower())) for name in names]
    if sorted(place for place in found if place is not None) != list(range(len(labels))) or None in found:
        raise InputError(
            f"{member.name}: was fine-tuned for {member.facts.task} and answers {', '.join(names)}, but "
            f"{owner} has {', '.join(labels)}; give a model of {_name_model(goal)}"
        )
    return replace(member, places=tuple(found.index(place) for place in range(len(labels))))


def _spell(goal: Goal, labels: Sequence[str]) -> dict[str, int]:
    """The ways to write a label: as it is, in small letters, and as the files of a published task have it."""
    spellings = {name: place for place, name in enumerate(labels)}
    for place, name in enumerate(labels):
        spellings.setdefault(name.lower(), place)
    if goal.published is not None and goal.published.labels is not None:
        for place, name in enumerate(goal.published.labels.names):
            spellings.setdefault(name, place)
    return spellings


def _embeds_pairs(facts: TaskFacts, goal: Goal) -> bool:
    """Vectors answer how similar two texts are: STS-B, and any table of pairs with numbers."""
    return facts.kind == "embedding" and goal.facts.kind == "texts" and goal.facts.label_kind == "number"


def _name_model(goal: Goal) -> str:
    return goal.name if goal.published is None or goal.published.model_of is None else goal.published.model_of
