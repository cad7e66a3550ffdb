"""Predict with fine-tuned models: a line of JSON for each example of a table or a stream."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import Field

from albert.data.storage import PathOrUrl
from albert.errors import InputError
from albert.files import dump_json, open_output
from albert.model.runtime import RuntimeSettings
from albert.progress import NullReporter, Reporter
from albert.settings import Settings
from albert.tasks.answering import Answerer, load_answerer
from albert.tasks.encoding.sequence import iter_groups
from albert.tasks.ensemble import (
    Member,
    align_answer,
    describe_whole,
    fit_members,
    merge_members,
    read_member,
)
from albert.tasks.evaluation_goal import Goal, find_goal
from albert.tasks.examples import ChoiceExample, Example, SpanExample, TokenExample
from albert.tasks.kinds.kind import AnyKind
from albert.tasks.prediction_input import PredictionInput, Stream, iter_arrived, open_input
from albert.tasks.task_facts import build_kind

# What is in memory at a time: enough to sort by length, and never much.
MAX_EXAMPLES = 2048
MAX_CHARACTERS = 1 << 22
_SECONDS_IN_SILENCE = 2.0  # what is done by then needs no words


class PredictionSettings(Settings):
    """Settings of `albert predict`: the names of a table's columns."""

    columns: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True)
class PredictionSummary:
    """How many examples were answered, how many rows were skipped, and why."""

    num_answers: int
    num_skipped: int
    problems: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class LoadedEnsemble:
    """Models in memory that answer together; `kind` merges and describes their answers."""

    members: tuple[tuple[Member, Answerer], ...]
    kind: AnyKind

    def answer(self, examples: Sequence[Example], *, depth: int | None = None) -> list[Any]:
        """Answer each example with all models."""
        answers = [
            [align_answer(answer, member) for answer in answerer.answer(examples, depth=depth)]
            for member, answerer in self.members
        ]
        return merge_members(self.kind, answers)


def predict(
    task: str,
    *,
    models: Sequence[str | Path],
    source: PathOrUrl | Stream,
    target: Path | BinaryIO,
    columns: Mapping[str, Any] | None = None,
    split: str | None = None,
    format: str | None = None,
    depth: int | None = None,
    patience: int | None = None,
    runtime: RuntimeSettings | None = None,
    reporter: Reporter | None = None,
) -> PredictionSummary:
    """Answer every example, in order, in a line of JSON; several models are an ensemble.

    The lines go to a stream as they are found, or to a file that is written whole or not at all. Rows that
    cannot be read are skipped and counted: each answer has its row's id or line. `columns` are names in a
    table, where they differ from those that the first model was fine-tuned with.
    """
    reporter, runtime = reporter or NullReporter(), runtime or RuntimeSettings()
    begin = time.monotonic()
    if task.lower() == "pretraining":
        raise InputError("predict has no task 'pretraining'; fill-mask and sentence-order ask such a model")
    if not models:
        raise InputError("no model to ask; give at least one with --model")
    goal = find_goal(task)
    members = fit_members(
        [read_member(model, goal, names=goal.facts.labels, runtime=runtime) for model in models], goal
    )
    first = members[0].facts
    names = {**(first.columns if first.task == goal.name else {}), **(columns or {})}
    found = open_input(source, goal, columns=names, named=columns or (), split=split, format=format)
    with open_target(target, source=source) as file:
        ensemble = load_ensemble(members, goal, patience=patience, runtime=runtime)
        num_answers = 0
        for lines in iter_lines(ensemble, found, depth=depth):
            file.write("".join(lines).encode())
            file.flush()
            num_answers += len(lines)
            if time.monotonic() - begin > _SECONDS_IN_SILENCE:
                speed = num_answers / (time.monotonic() - begin)
                share = None if found.find_share is None else found.find_share()
                reporter.show("predict", f"{num_answers:,} answers, {speed:,.0f} a second", fraction=share)
        if not num_answers and found.problems.num_skipped:
            found.problems.check(0)
    cuts = [told for _, answerer in ensemble.members if (told := answerer.describe_cuts())]
    problems = (*found.problems.describe(), *cuts)
    for problem in problems:
        reporter.say(problem)
    return PredictionSummary(num_answers, found.problems.num_skipped, problems, time.monotonic() - begin)


def load_ensemble(
    members: Sequence[Member], goal: Goal, *, patience: int | None, runtime: RuntimeSettings
) -> LoadedEnsemble:
    """Load the models; with `patience`, each skips layers once so many in a row agree."""
    opened = [load_answerer(member.path, task=member.foreign, runtime=runtime) for member in members]
    if patience is not None:
        opened = [answerer.with_patience(patience) for answerer in opened]
    return LoadedEnsemble(tuple(zip(members, opened, strict=True)), build_kind(describe_whole(members, goal)))


def iter_lines(
    ensemble: LoadedEnsemble, found: PredictionInput, *, depth: int | None = None
) -> Iterator[list[str]]:
    """Format lines of JSON, some at a time; of a live stream, one for each example that has arrived."""
    iterate = iter_arrived if found.is_live else iter_groups
    groups = iterate(
        found.examples,
        count_characters=lambda each: count_characters(each.example),
        max_items=MAX_EXAMPLES,
        max_characters=MAX_CHARACTERS,
    )
    for group in groups:
        examples = [each.example for each in group]
        answers = ensemble.answer(examples, depth=depth)
        yield [
            format_line(ensemble.kind.describe(answer, each.example), None if found.has_names else each.line)
            for answer, each in zip(answers, group, strict=True)
        ]


def count_characters(example: Example) -> int:
    """Count the characters of an example of any task type."""
    if isinstance(example, TokenExample):
        return sum(map(len, example.words))
    if isinstance(example, SpanExample):
        return len(example.question) + len(example.context)
    if isinstance(example, ChoiceExample):
        return len(example.passage) + len(example.question) + sum(map(len, example.options))
    return len(example.first) + len(example.second or "")


def format_line(answer: Mapping[str, Any], line: int | None) -> str:
    """Format an answer as a line of JSON, with its line number where it has no id."""
    record = dict(answer)
    if line is not None:
        del record["id"]
        record = {"line": line, **record}
    text = dump_json(record, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can hold and UTF-8 cannot
        text = dump_json(record)
    return text + "\n"


@contextmanager
def open_target(target: Path | BinaryIO, *, source: PathOrUrl | Stream) -> Iterator[BinaryIO]:
    """What lines are written to: the stream, or a file that takes its name when all is well."""
    if not isinstance(target, Path):
        yield target
        return
    if isinstance(source, str | Path) and target.exists() and target.resolve() == Path(source).resolve():
        raise InputError(f"{target}: is the file that is read; choose another --out")
    with open_output(target) as file:
        yield file
