"""Evaluate fine-tuned models on a task: predict, score with intervals, and analyze the errors."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from albert.errors import InputError
from albert.model.runtime import RuntimeSettings
from albert.progress import NullReporter, Reporter
from albert.tasks.calibration import measure_calibration, report_threshold
from albert.tasks.decisions import find_classes, find_confusion, list_verdicts
from albert.tasks.ensemble import (
    Ensemble,
    Source,
    choose_members,
    describe_whole,
    open_members,
    predict_members,
)
from albert.tasks.evaluation_goal import find_goal, read_questions
from albert.tasks.evaluation_result import Evaluation, MemberScore, Selection
from albert.tasks.examples import halve_examples, identify_examples
from albert.tasks.task_facts import build_kind


def evaluate(task: str, *, model: Source | Sequence[Source], data: Source, **options: Any) -> Evaluation:
    """Score a fine-tuned model, or several as an ensemble.

    Args:
        task: A published task or a task type, as in `finetune`.
        model: Folder, run or hub name of a fine-tuned model, or a list of them.
        data: Task folder or table.
        **options: Those of `evaluate_task`, such as `split`, `columns`, `depth`, `select` and `device`.

    Returns:
        Scores with intervals, per-example results, calibration and confusions.

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
    """Run models on a split and score what they answer together.

    Args:
        task: A published task or a task type.
        models: Folders, runs or hub names; several are an ensemble.
        data: Task folder or table.
        split: The split to score; the dev set by default.
        columns: Names in an own table that differ from those of the first model.
        depth: The number of layers to run: fewer, or more where they all share their weights.
        select: Choose the members of the ensemble on one half of the examples, and score the other.
        needs_labels: Reject a split without labels, which is otherwise answered and not scored.
        device: auto, cpu, cuda, cuda:N or mps.
        revision: The version of models on the hub.
        seed: Draws the intervals and the halves.
        reporter: Receives progress and warnings.

    Raises:
        InputError: If the models are for another task type or other labels, the table has no labels or ones
            that the models do not know, or there is nothing to select from.
    """
    reporter, runtime, folder = reporter or NullReporter(), RuntimeSettings(device=device), Path(data)
    if not models:
        raise InputError("0 models to evaluate; give at least 1")
    if select and len(models) < 2:
        raise InputError("1 model is nothing to choose from; give at least 2, or do without a selection")
    goal = find_goal(task)
    named = columns or {}
    members, names = open_members(
        goal, models, data=folder, split=split, columns=named, revision=revision, runtime=runtime
    )
    labels = describe_whole(members, goal).labels
    questions = read_questions(goal, folder, split=split, columns=names, labels=labels, named=named)
    asked = identify_examples(questions.examples)
    learned = [
        f"{questions.path}: {member.name} has learned from it, so that its scores say nothing of other "
        "texts; what it scored on those that were kept from it stands in its README.md"
        for member in members
        if asked in member.facts.learned_from
    ]
    problems = (*questions.problems, *learned)
    for problem in problems:
        reporter.say(problem)
    if select and not questions.is_labelled:
        raise InputError(f"{questions.path}: has no labels to choose members by; choose them on dev")
    # Pairs of a user's own need no numbers: each text finds its second.
    is_scorable = questions.is_labelled or (goal.facts.kind == "embedding" and goal.own is not None)
    if needs_labels and not is_scorable:
        raise InputError(f"{questions.path}: has no labels, so that there is nothing to score or report")

    answers = predict_members(members, questions.examples, runtime=runtime, depth=depth, reporter=reporter)
    everyone = Ensemble(goal, members, answers, questions.examples)
    chosen, rows, selection = list(range(len(members))), list(range(len(questions.examples))), None
    if select:
        half, rows = halve_examples(questions.examples, seed=seed)
        judged = everyone.keep(half)
        chosen, reached = choose_members(len(members), lambda places: judged.choose(places).score()["score"])
        steps = tuple((members[place].name, score) for place, score in zip(chosen, reached, strict=True))
        selection = Selection(f"one half of {questions.split}, and scored on the other", len(half), steps)
    whole = everyone.choose(chosen)
    evaluation = Evaluation(
        task=goal.name,
        split=questions.split,
        data=str(questions.path),
        models=tuple(member.name for member in whole.members),
        facts=whole.facts,
        examples=questions.examples,
        answers=tuple(whole.merge()),
        problems=problems,
        selection=selection,
    )
    if not is_scorable:
        return evaluation
    reporter.show("evaluate", "scores and their intervals", fraction=1.0)
    is_tuned_here = any(member.facts.tuned_on == asked for member in whole.members)
    scored = everyone.keep(rows)
    facts, merged = whole.facts, [evaluation.answers[row] for row in rows]
    own = zip(
        scored.choose(chosen).answers, (member.facts.temperature for member in whole.members), strict=True
    )
    rated = (facts, merged, scored.examples)
    kind = build_kind(facts)
    return replace(
        evaluation,
        num_scored=len(rows),
        scores=kind.score(merged, scored.examples),
        intervals=kind.find_intervals(merged, scored.examples, seed=seed),
        member_scores=tuple(
            MemberScore(member.name, scored.choose([place]).score(), is_chosen=place in chosen)
            for place, member in enumerate(members)
            if len(members) > 1
        ),
        classes=find_classes(*rated),
        confusion=find_confusion(*rated),
        calibration=measure_calibration(*rated, members=list(own), is_tuned_here=is_tuned_here, seed=seed),
        threshold=report_threshold(*rated, num_models=len(chosen), seed=seed, is_tuned_here=is_tuned_here),
        verdicts=list_verdicts(*rated),
    )
