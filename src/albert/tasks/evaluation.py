"""A task, models and data come in; what they say, how right it is, and how surely, go out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from albert.errors import InputError
from albert.model.runtime import RuntimeSettings
from albert.reporting import Reporter, Silence
from albert.tasks.decisions import find_classes, find_confusion
from albert.tasks.evaluation_goal import Goal, Questions, find_goal, read_questions
from albert.tasks.evaluation_result import Evaluation, MemberScore, Selection
from albert.tasks.examples import identify_examples
from albert.tasks.honesty import measure_calibration, report_threshold
from albert.tasks.members import Member, describe_whole
from albert.tasks.panel import Panel, Source, ask_members, open_members
from albert.tasks.selection import choose_members, halve_examples
from albert.tasks.uncertainty import find_intervals
from albert.tasks.verdicts import list_verdicts


@dataclass(frozen=True)
class _Jury:
    """The models that are kept, the examples that they are scored on, and how they were chosen."""

    chosen: tuple[int, ...]
    scored: tuple[int, ...]
    selection: Selection | None = None


def evaluate(task: str, *, model: Source | Sequence[Source], data: Source, **options: Any) -> Evaluation:
    """Score a fine-tuned model, or several as an ensemble; the options are those of `evaluate_task`.

    `task` and `data` are as in `finetune`, `model` is one source or a list of them.

    >>> found = albert.evaluate("classification", model="mood", data="reviews.csv")
    >>> print(found.scores["score"], found.intervals["score"].low)
    """
    models = [model] if isinstance(model, str | Path) else list(model)
    return evaluate_task(task, models=models, data=data, **options)


def evaluate_task(
    task: str,
    *,
    models: Sequence[Source],
    data: Source,
    split: str | None = None,
    columns: Mapping[str, Any] | None = None,
    depth: int | None = None,
    select: bool = False,
    needs_labels: bool = False,
    device: str = "auto",
    revision: str | None = None,
    seed: int = 0,
    reporter: Reporter | None = None,
) -> Evaluation:
    """Ask models about a split (the development set, unless one is named), and score what they say together.

    `depth` runs fewer layers, or more where they are all one; `revision` is that of models on the hub; `seed`
    draws the intervals and the halves. With `select` the members of an ensemble are chosen on one half of the
    examples, and the scores are of the other half. `columns` are names in an own table that differ from those
    of the first model. A split of a published task without labels is answered and not scored; with
    `needs_labels` it is rejected. Refused: models of another kind of task or with other labels, labels that
    they do not know, an own table without the column of its labels (`albert predict` answers it), and a
    choice among less than two models or by examples without labels.
    """
    reporter, runtime, folder = reporter or Silence(), RuntimeSettings(device=device), Path(data)
    _check_models(models, is_selecting=select)
    goal = find_goal(task)
    named = columns or {}
    members, names = open_members(
        goal, models, data=folder, split=split, columns=named, revision=revision, runtime=runtime
    )
    labels = describe_whole(members, goal).labels
    questions = read_questions(goal, folder, split=split, columns=names, labels=labels, named=named)
    questions = replace(questions, problems=(*questions.problems, *_list_learned(members, questions)))
    for problem in questions.problems:
        reporter.say(problem)
    if select and not questions.is_labelled:
        raise InputError(f"{questions.path}: has no labels to choose members by; choose them on dev")
    if needs_labels and not _is_scorable(goal, questions):
        raise InputError(f"{questions.path}: has no labels, so that there is nothing to score or report")

    size = len(questions.examples)
    answers = ask_members(members, questions.examples, runtime=runtime, depth=depth, reporter=reporter)
    panel = Panel(goal, members, tuple(answers), questions.examples)
    jury = _Jury(tuple(range(len(members))), tuple(range(size)))
    if select:
        first, second = halve_examples(questions.examples, seed=seed)
        half = f"one half of {questions.split}, and scored on the other"
        jury = _select(panel.keep(first), chosen_on=half, scored=tuple(second))
    return _conclude(panel, questions, jury, seed=seed, reporter=reporter)


def _list_learned(members: Sequence[Member], questions: Questions) -> list[str]:
    """Which models have learned from what they are asked."""
    asked = identify_examples(questions.examples)
    return [
        f"{questions.path}: {member.name} has learned from it, so that its scores say nothing of other "
        "texts; what it scored on those that were kept from it stands in its README.md"
        for member in members
        if asked in member.facts.learned_from
    ]


def _check_models(models: Sequence[Source], *, is_selecting: bool) -> None:
    if not models:
        raise InputError("0 models to evaluate; give at least 1")
    if is_selecting and len(models) < 2:
        raise InputError("1 model is nothing to choose from; give at least 2, or do without a selection")


def _is_scorable(goal: Goal, questions: Questions) -> bool:
    """Whether there are labels; pairs of a user's own that mean the same need none."""
    return questions.is_labelled or (goal.facts.kind == "embedding" and goal.own is not None)


def _select(judged: Panel, *, chosen_on: str, scored: tuple[int, ...]) -> _Jury:
    def score(places: Sequence[int]) -> float:
        return judged.choose(places).score()["score"]

    choices = choose_members(len(judged.members), score)
    steps = tuple((judged.members[choice.place].name, choice.score) for choice in choices)
    selection = Selection(chosen_on, len(judged.examples), steps)
    return _Jury(tuple(choice.place for choice in choices), scored, selection)


def _conclude(
    panel: Panel, questions: Questions, jury: _Jury, *, seed: int, reporter: Reporter
) -> Evaluation:
    whole = panel.choose(jury.chosen)
    answers = whole.merge()
    evaluation = Evaluation(
        task=panel.goal.name,
        split=questions.split,
        data=str(questions.path),
        models=tuple(member.name for member in whole.members),
        facts=whole.facts,
        examples=questions.examples,
        answers=tuple(answers),
        problems=questions.problems,
        selection=jury.selection,
    )
    if not _is_scorable(panel.goal, questions):
        return evaluation
    reporter.show("evaluate", "scores and their intervals", fraction=1.0)
    return _judge(evaluation, panel, jury, seed=seed)


def _judge(evaluation: Evaluation, panel: Panel, jury: _Jury, *, seed: int) -> Evaluation:
    """The evaluation with all that can be said of its scored examples."""
    scored = panel.keep(jury.scored)
    whole = scored.choose(jury.chosen)
    facts, examples = whole.facts, whole.examples
    answers = [evaluation.answers[place] for place in jury.scored]
    temperatures = [member.facts.temperature for member in whole.members]
    asked = identify_examples(evaluation.examples)
    is_tuned_here = any(member.facts.tuned_on == asked for member in whole.members)
    return replace(
        evaluation,
        num_scored=len(examples),
        scores=whole.score(),
        intervals=find_intervals(facts, answers, examples, seed=seed),
        member_scores=_score_members(scored, jury) if len(panel.members) > 1 else (),
        classes=find_classes(facts, answers, examples),
        confusion=find_confusion(facts, answers, examples),
        calibration=measure_calibration(
            facts,
            answers,
            examples,
            members=list(zip(whole.answers, temperatures, strict=True)),
            is_tuned_here=is_tuned_here,
            seed=seed,
        ),
        threshold=report_threshold(
            facts,
            answers,
            examples,
            num_models=len(whole.members),
            seed=seed,
            is_tuned_here=is_tuned_here,
        ),
        verdicts=list_verdicts(facts, answers, examples),
    )


def _score_members(scored: Panel, jury: _Jury) -> tuple[MemberScore, ...]:
    return tuple(
        MemberScore(member.name, scored.choose([place]).score(), is_chosen=place in jury.chosen)
        for place, member in enumerate(scored.members)
    )
