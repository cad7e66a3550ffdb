"""Models and examples come in; all that the models say, alone and together, goes out with its scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert.errors import InputError
from albert.model.runtime import RuntimeSettings
from albert.pretrained.hub import resolve_source
from albert.reporting import Reporter
from albert.tasks.answering import load_answerer
from albert.tasks.evaluation_goal import Goal, find_names, find_questions
from albert.tasks.examples import Example
from albert.tasks.members import Member, align_answer, describe_whole, fit_members, read_member
from albert.tasks.selection import merge_members
from albert.tasks.task_facts import TaskFacts, build_kind, read_facts

Source = str | Path
_NEWS_EVERY = 512  # answers between two words about them


@dataclass(frozen=True)
class Panel:
    """Models that answer one task, and what each says of the same examples."""

    goal: Goal
    members: tuple[Member, ...]
    answers: tuple[list[Any], ...]
    examples: tuple[Example, ...]

    @property
    def facts(self) -> TaskFacts:
        """What the models answer together."""
        return describe_whole(self.members, self.goal)

    def keep(self, places: Sequence[int]) -> "Panel":
        """The examples at these places alone."""
        answers = tuple([own[place] for place in places] for own in self.answers)
        return Panel(self.goal, self.members, answers, tuple(self.examples[place] for place in places))

    def choose(self, places: Sequence[int]) -> "Panel":
        """The models at these places alone."""
        members = tuple(self.members[place] for place in places)
        return Panel(self.goal, members, tuple(self.answers[place] for place in places), self.examples)

    def merge(self) -> list[Any]:
        """One answer of all models for each example."""
        return merge_members(build_kind(self.facts), self.answers)

    def score(self) -> dict[str, float]:
        """The metrics of the merged answers."""
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
    """The models of an evaluation, fitted to each other, and the names of an own table's columns.

    These are the first model's, where it was fine-tuned on such a table, changed by the user's.
    """
    if goal.published is not None and columns:
        raise InputError(f"{goal.name} has files of its own; leave columns out, or name a task of own tables")
    _, path = find_questions(goal, data, split=split)
    known = [read_facts(resolve_source(model, revision=revision)) for model in models]
    # A model of embeddings may be asked about a table of pairs: its own columns are others.
    is_own = known[0] is not None and known[0].task == goal.name
    names = {**(known[0].columns if is_own and known[0] is not None else {}), **columns}
    # Folders of others may not name their labels: then they are those of the table, in its order.
    labels = find_names(goal, path, columns=names) if None in known else ()
    members = [read_member(model, goal, names=labels, revision=revision, runtime=runtime) for model in models]
    return fit_members(members, goal), names


def ask_members(
    members: Sequence[Member],
    examples: Sequence[Example],
    *,
    runtime: RuntimeSettings,
    depth: int | None,
    reporter: Reporter,
) -> list[list[Any]]:
    """The answers of each model to all examples; one model is in memory at a time."""
    found = []
    for number, member in enumerate(members, start=1):
        answers: list[Any] = []
        answerer = load_answerer(member.path, task=member.foreign, runtime=runtime)
        for _, answer in answerer.iter_answers(examples, depth=depth):
            answers.append(align_answer(answer, member))
            if len(answers) % _NEWS_EVERY == 0 or len(answers) == len(examples):
                share = (number - 1 + len(answers) / len(examples)) / len(members)
                reporter.show("evaluate", f"{member.name}: {len(answers):,} answers", fraction=share)
        found.append(answers)
        if told := answerer.describe_cuts():
            reporter.say(told)
    return found
