"""Models that answer a task together: open them, align their labels, merge their answers, select members."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from albert.errors import InputError
from albert.model.runtime import RuntimeSettings
from albert.pretrained.hub import resolve_source
from albert.progress import Reporter
from albert.tasks.answering import load_answerer
from albert.tasks.evaluation_goal import Goal, find_names, find_questions
from albert.tasks.examples import Example
from albert.tasks.kinds.kind import AnyKind
from albert.tasks.metrics.task_score import find_middle
from albert.tasks.task_facts import TaskConfig, build_kind, describe_labels, read_facts

Source = str | Path
_NEWS_EVERY = 512  # answers between two lines of progress


@dataclass(frozen=True)
class Member:
    """A model of an ensemble; `places` maps the labels of the ensemble to its own outputs.

    `foreign` is the config to open a folder with that has no task.json.
    """

    name: str
    path: Path
    facts: TaskConfig
    foreign: TaskConfig | None = None
    places: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Ensemble:
    """Models that answer one task, and the answers of each to the same examples."""

    goal: Goal
    members: tuple[Member, ...]
    answers: tuple[list[Any], ...]
    examples: tuple[Example, ...]

    @property
    def facts(self) -> TaskConfig:
        """What the models answer together."""
        return describe_whole(self.members, self.goal)

    def keep(self, rows: Sequence[int]) -> "Ensemble":
        """Select examples."""
        answers = tuple([own[row] for row in rows] for own in self.answers)
        return replace(self, answers=answers, examples=tuple(self.examples[row] for row in rows))

    def choose(self, places: Sequence[int]) -> "Ensemble":
        """Select models."""
        members = tuple(self.members[place] for place in places)
        return replace(self, members=members, answers=tuple(self.answers[place] for place in places))

    def merge(self) -> list[Any]:
        """Merge the models' answers into one for each example."""
        return merge_members(build_kind(self.facts), self.answers)

    def score(self) -> dict[str, float]:
        """Score the merged answers."""
        return build_kind(self.facts).score(self.merge(), self.examples)


def open_members(
    goal: Goal,
    models: Sequence[Source],
    *,
    data: Path,
    split: str | None,
    columns: Mapping[str, Any],
    revision: str | None,
    runtime: RuntimeSettings,
) -> tuple[tuple[Member, ...], dict[str, Any]]:
    """Open the models of an evaluation, and find the names of an own table's columns.

    These are the first model's, where it was fine-tuned on such a table, changed by the user's.
    """
    if goal.published is not None and columns:
        raise InputError(f"{goal.name} has files of its own; leave columns out, or name a task of own tables")
    _, path = find_questions(goal, data, split=split)
    known = [read_facts(resolve_source(model, revision=revision)) for model in models]
    # A model of embeddings may be evaluated on a table of pairs, whose columns are not the model's.
    first = known[0]
    names = {**(first.columns if first is not None and first.task == goal.name else {}), **columns}
    # Other libraries' folders may not name their labels: then they are those of the table, in its order.
    labels = find_names(goal, path, columns=names) if None in known else ()
    members = [read_member(model, goal, names=labels, revision=revision, runtime=runtime) for model in models]
    return fit_members(members, goal), names


def read_member(
    source: Source, goal: Goal, *, names: Sequence[str], runtime: RuntimeSettings, revision: str | None = None
) -> Member:
    """Read what a folder was fine-tuned for; without task.json, for this task with the labels `names`."""
    path = resolve_source(source, revision=revision)
    facts, wanted = read_facts(path), goal.facts
    if facts is None:
        wanted = wanted.model_copy(update={"labels": tuple(names)})
        return Member(str(source), path, load_answerer(path, task=wanted, runtime=runtime).facts, wanted)
    # Vectors answer how similar two texts are: STS-B, and any table of pairs with numbers.
    embeds_pairs = facts.kind == "embedding" and wanted.kind == "texts" and wanted.label_kind == "number"
    task = f"{source}: was fine-tuned for {facts.task}"
    if facts.kind != wanted.kind and not embeds_pairs:
        raise InputError(
            f"{task} ({facts.kind}), and {goal.name} is of {wanted.kind}; give a model of {_name_model(goal)}"
        )
    if facts.kind == wanted.kind and facts.label_kind != wanted.label_kind:
        raise InputError(
            f"{task} and gives {describe_labels(facts.label_kind)}, and {goal.name} asks for "
            f"{describe_labels(wanted.label_kind)}; give a model of {_name_model(goal)}"
        )
    if goal.published is not None and wanted.has_impossible and not facts.has_impossible:
        raise InputError(
            f"{task} and answers every question, and {goal.name} has some without an answer; give a model of "
            f"{goal.name}"
        )
    return Member(str(source), path, facts)


def fit_members(members: Sequence[Member], goal: Goal) -> tuple[Member, ...]:
    """Bring the members' outputs into one order: the task's, or the first member's where a table has none."""
    first = members[0].facts
    for member in members:
        if (member.facts.kind, member.facts.has_impossible) != (first.kind, first.has_impossible):
            raise InputError(
                f"{member.name}: was fine-tuned for {member.facts.task}, and {members[0].name} for "
                f"{first.task}; the models of an ensemble must answer the same"
            )
    if first.kind not in ("texts", "words"):
        return tuple(members)
    labels = goal.facts.labels or first.labels
    # A label may be spelled as it is, in lower case, or as the files of a published task have it.
    spellings = {name: place for place, name in enumerate(labels)}
    official = goal.published.labels.names if goal.published and goal.published.labels else ()
    for names in ([name.lower() for name in labels], official):
        for place, name in enumerate(names):
            spellings.setdefault(name, place)
    fitted = []
    for member in members:
        own = member.facts.labels
        found = [spellings.get(name, spellings.get(name.lower(), -1)) for name in own]
        if sorted(found) != list(range(len(labels))):
            raise InputError(
                f"{member.name}: was fine-tuned for {member.facts.task} and answers {', '.join(own)}, but "
                f"{goal.name if goal.facts.labels else members[0].name} has {', '.join(labels)}; "
                f"give a model of {_name_model(goal)}"
            )
        fitted.append(replace(member, places=tuple(found.index(place) for place in range(len(labels)))))
    return tuple(fitted)


def describe_whole(members: Sequence[Member], goal: Goal) -> TaskConfig:
    """Build the config that the merged answers are scored and described by.

    Probabilities are at each member's own temperature before they are merged, so that the whole has none.
    Odds for no answer are averaged, and their threshold is the median of the members'.
    """
    first = members[0].facts
    known = [member.facts.threshold for member in members if member.facts.threshold is not None]
    has_threshold = goal.facts.has_impossible or goal.own is not None
    is_own = goal.own is not None and first.task == goal.name
    return first.model_copy(
        update={
            "task": goal.name,
            "labels": goal.facts.labels or first.labels,
            "metrics": (first.metrics if is_own else ()) or goal.facts.metrics,
            "temperature": 1.0,
            "class_weights": None,
            "has_exits": False,
            "patience": None,
            "has_impossible": first.has_impossible and has_threshold,
            "threshold": find_middle(known) if len(known) == len(members) else None,
        }
    )


def predict_members(
    members: Sequence[Member],
    examples: Sequence[Example],
    *,
    runtime: RuntimeSettings,
    depth: int | None,
    reporter: Reporter,
) -> tuple[list[Any], ...]:
    """Compute the answers of each model to all examples; one model is in memory at a time."""
    found = []
    for number, member in enumerate(members):
        answers: list[Any] = []
        answerer = load_answerer(member.path, task=member.foreign, runtime=runtime)
        for _, answer in answerer.iter_answers(examples, depth=depth):
            answers.append(align_answer(answer, member))
            if len(answers) % _NEWS_EVERY == 0 or len(answers) == len(examples):
                share = (number + len(answers) / len(examples)) / len(members)
                reporter.show("evaluate", f"{member.name}: {len(answers):,} answers", fraction=share)
        found.append(answers)
        if told := answerer.describe_cuts():
            reporter.say(told)
    return tuple(found)


def align_answer(answer: Any, member: Member) -> Any:
    """Bring an answer's labels into the order of the ensemble, at the temperature of its model."""
    if not isinstance(answer, np.ndarray) or member.facts.label_kind == "number":
        return answer
    ordered = answer if member.places is None else answer[..., list(member.places)]
    return ordered / member.facts.temperature


def merge_members(kind: AnyKind, members: Sequence[Sequence[Any]]) -> list[Any]:
    """Merge the answers of each model into one for each example; a single model's are as they are."""
    if len(members) == 1:
        return list(members[0])
    shapes = {getattr(answer, "shape", None) for answers in members for answer in answers}
    if len(shapes) == 1 and isinstance(members[0][0], np.ndarray):
        # Rows of one width are merged all at once: a hundred times as fast as one by one.
        return list(kind.merge([np.stack(answers) for answers in members]))
    return [kind.merge(answers) for answers in zip(*members, strict=True)]


def choose_members(
    num_members: int, score: Callable[[Sequence[int]], float]
) -> tuple[list[int], list[float]]:
    """Select forward: the best model, then each time the one that helps most, until none helps.

    `score` is that of the models at these places together; of equals the first is taken. Returns the places
    in the order in which they were added, and the score after each.
    """
    chosen: list[int] = []
    reached: list[float] = []
    left = list(range(num_members))
    while left:
        scores = [score([*chosen, place]) for place in left]
        best = max(scores)
        if chosen and best <= reached[-1]:
            break
        chosen.append(left.pop(scores.index(best)))
        reached.append(best)
    return chosen, reached


def _name_model(goal: Goal) -> str:
    return goal.name if goal.published is None or goal.published.model_of is None else goal.published.model_of
