"""Evaluate fine-tuned models on a task: predict, score with intervals, analyze errors, write files.

A figure is never computed on the examples that it was tuned on without a mark: a selection is scored on the
other half, and calibration on the training dev set is cross-fitted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax

from albert.errors import InputError
from albert.files import (
    atomic_dir,
    dump_json,
    read_json,
    reject_other_content,
    require_folder,
    write_json,
    write_text,
)
from albert.model.runtime import Precision, build_runtime
from albert.pretrained.huggingface import CARD_NAME
from albert.progress import Reporter, StderrReporter
from albert.tasks.catalogue import find_task
from albert.tasks.ensemble import (
    Ensemble,
    Source,
    choose_members,
    merge_configs,
    open_members,
    predict_ensemble,
)
from albert.tasks.metrics.calibration import (
    ReliabilityBin,
    expected_calibration_error,
    fit_temperature,
    list_reliability,
    merge_softmax,
    negative_log_likelihood,
)
from albert.tasks.metrics.classification import ClassScore, Confusion
from albert.tasks.metrics.intervals import Interval
from albert.tasks.metrics.squad import ThresholdReport
from albert.tasks.splits import halve_examples, identify_examples
from albert.tasks.task import AnyTask, Example, ExampleResult, TaskConfig

SCORES_NAME = "scores.json"
PREDICTIONS_NAME = "predictions.jsonl"
REPORT_NAME = "report.html"
EXITS_NAME = "exits.json"


@dataclass(frozen=True)
class MemberScore:
    """The scores of one model of an ensemble, on the same examples as the ensemble."""

    name: str
    scores: Mapping[str, float]
    is_chosen: bool = True


@dataclass(frozen=True)
class Selection:
    """The selection of an ensemble's members, on examples that are not in its scores.

    `steps` are the names of the members in the order in which they were added, with the score after each.
    """

    chosen_on: str
    num_chosen_on: int
    steps: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Calibration:
    """The calibration of the probabilities.

    Args:
        temperature: The temperature in use; None if each member has its own.
        ece: The expected calibration error, from 0 to 1.
        loss: The mean -log p of the gold labels.
        best_temperature: The further temperature that fits these examples best; above 1 the model is
            overconfident.
        bins: The predictions by confidence.
        is_tuned_here: Whether a temperature was chosen on these examples; then `ece`, `loss` and `bins` are
            cross-fitted, each half at temperatures chosen on the other half.
    """

    temperature: float | None
    ece: float
    loss: float
    best_temperature: float
    bins: tuple[ReliabilityBin, ...] = ()
    is_tuned_here: bool = False


@dataclass(frozen=True)
class Evaluation:
    """The predictions of a model or an ensemble for a split, and their scores.

    Args:
        models: The names of the models; with a selection, the selected ones.
        built: The task that scores and describes the predictions.
        answers: The predictions for all examples, in the form of the task type.
        num_scored: The number of examples that were not used for the selection; only these are scored.
        scores: Metrics in points of 100, of which `score` is the main one; empty without labels.
        intervals: The 95% bootstrap intervals of the metrics.
    """

    task: str
    split: str
    data: str
    models: tuple[str, ...]
    built: AnyTask
    examples: tuple[Example, ...]
    answers: tuple[object, ...]
    problems: tuple[str, ...] = ()
    num_scored: int = 0
    scores: Mapping[str, float] = field(default_factory=dict)
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    member_scores: tuple[MemberScore, ...] = ()
    selection: Selection | None = None
    classes: tuple[ClassScore, ...] = ()
    confusion: Confusion | None = None
    calibration: Calibration | None = None
    threshold: ThresholdReport | None = None
    results: tuple[ExampleResult, ...] = ()

    @property
    def config(self) -> TaskConfig:
        return self.built.config


def evaluate(
    task: str,
    *,
    model: Source | Sequence[Source],
    data: Source,
    split: str | None = None,
    columns: Mapping[str, Any] | None = None,
    depth: int | None = None,
    select: bool = False,
    needs_labels: bool = False,
    device: str = "auto",
    precision: Precision = "float32",
    revision: str | None = None,
    seed: int = 0,
    reporter: Reporter | None = None,
) -> Evaluation:
    """Evaluate a fine-tuned model, or several as an ensemble.

    Args:
        task: A published task or a task type, as in `finetune`.
        model: Folder, run or hub name of a fine-tuned model; a list of them is an ensemble.
        data: Task folder or table.
        split: The split; the dev set by default.
        columns: Columns of a table that differ from those of the first model.
        depth: The number of layers to run; more than the model has only if they share their weights.
        select: Select the members of the ensemble on one half of the examples, and score the other half.
        needs_labels: Reject a split without labels instead of predicting it without scores.
        device: auto, cpu, cuda, cuda:N or mps.
        precision: float32, bf16 where the hardware supports it, or int8 on the CPU.
        revision: The version of models on the hub.
        seed: The seed of the intervals and the halves.
        reporter: Receives progress and warnings; by default, messages are printed to stderr.

    Returns:
        Scores with intervals, per-example results, calibration and the confusion matrix. The command
        `albert evaluate` writes them as a report (`--report`) or with all predictions (`--out`).

    Raises:
        InputError: If the models have another task type or other labels, the data have unknown or missing
            labels, or there is only one model to select from.

    >>> found = albert.evaluate("classification", model="mood", data="reviews.csv")
    >>> print(found.scores["score"], found.intervals["score"].low)
    """
    models = [model] if isinstance(model, str | Path) else list(model)
    reporter, folder = reporter or StderrReporter(), Path(data)
    runtime = build_runtime(device, precision, source="albert.evaluate")
    if not models:
        raise InputError("no model to evaluate; give at least one")
    if select and len(models) < 2:
        raise InputError("cannot select from 1 model; give at least 2, or remove the selection")
    definition = find_task(task)
    members, names = open_members(
        definition, models, runtime=runtime, columns=columns or {}, data=(folder, split), revision=revision
    )
    labels = merge_configs(members, definition).labels
    found = definition.read_split(folder, split, columns=names, labels=labels, named=columns or ())
    identity = identify_examples(found.examples)
    problems = (
        *found.problems,
        *(
            f"{found.path}: {member.name} was trained on these examples, so its scores are too high; see "
            f"{member.path / CARD_NAME} for the scores on its dev set"
            for member in members
            if identity in member.config.learned_from
        ),
    )
    for problem in problems:
        reporter.say(problem)
    if select and not found.is_labeled:
        raise InputError(f"{found.path}: has no labels, so members cannot be selected; use the dev set")
    is_scorable = found.is_labeled or definition.config.is_scorable_without_labels
    if needs_labels and not is_scorable:
        raise InputError(f"{found.path}: has no labels, so it cannot be scored; use a labeled split")

    candidates = predict_ensemble(
        definition, members, found.examples, runtime=runtime, depth=depth, reporter=reporter
    )
    chosen, rows, selection = list(range(len(members))), list(range(len(found.examples))), None
    if select:
        half, rows = halve_examples(found.examples, seed=seed)
        on_half = candidates.select_examples(half)
        chosen, scores = choose_members(
            len(members), lambda indices: on_half.select_members(indices).score()["score"]
        )
        steps = tuple((members[index].name, score) for index, score in zip(chosen, scores, strict=True))
        selection = Selection(f"one half of {found.name}, and scored on the other", len(half), steps)
    ensemble = candidates.select_members(chosen)
    evaluation = Evaluation(
        task=definition.name,
        split=found.name,
        data=str(found.path),
        models=tuple(member.name for member in ensemble.members),
        built=ensemble.task,
        examples=found.examples,
        answers=tuple(ensemble.merge()),
        problems=problems,
        selection=selection,
    )
    if not is_scorable:
        return evaluation
    reporter.show("evaluate", "scores and their intervals", fraction=1.0)
    return _analyze(evaluation, candidates, chosen=chosen, rows=rows, identity=identity, seed=seed)


def _analyze(
    evaluation: Evaluation,
    candidates: Ensemble,
    *,
    chosen: Sequence[int],
    rows: Sequence[int],
    identity: str,
    seed: int,
) -> Evaluation:
    """Score the answers to the examples at `rows`, and analyze the errors."""
    scored = candidates.select_examples(rows)
    ensemble = scored.select_members(chosen)
    task, examples = evaluation.built, scored.examples
    answers = [evaluation.answers[row] for row in rows]
    is_tuned_here = any(member.config.tuned_on == identity for member in ensemble.members)
    return replace(
        evaluation,
        num_scored=len(rows),
        scores=task.score(answers, examples),
        intervals=task.find_intervals(answers, examples, seed=seed),
        member_scores=tuple(
            MemberScore(member.name, scored.select_members([index]).score(), is_chosen=index in chosen)
            for index, member in enumerate(scored.members)
            if len(scored.members) > 1
        ),
        classes=task.score_classes(answers, examples),
        confusion=task.count_confusions(answers, examples),
        calibration=measure_calibration(ensemble, answers, is_tuned_here=is_tuned_here, seed=seed),
        threshold=task.report_threshold(
            answers, examples, num_models=len(chosen), is_tuned_here=is_tuned_here, seed=seed
        ),
        results=task.explain(answers, examples),
    )


def measure_calibration(
    ensemble: Ensemble, answers: Sequence[object], *, is_tuned_here: bool = False, seed: int = 0
) -> Calibration | None:
    """Measure the calibration; None if the task has no decisions between classes.

    A temperature chosen on the same examples (`is_tuned_here`) would be optimistic. Then each half of the
    examples is measured at the temperatures that are best on the other half.
    """
    task, examples, members = ensemble.task, ensemble.examples, ensemble.members
    all_decisions = task.list_decisions(answers, examples)
    if all_decisions is None:
        return None
    logits, golds = all_decisions
    temperatures = [member.config.temperature for member in members]
    temperature = temperatures[0] if len(members) == 1 else None
    # On the logits before the temperature, for which the prior of 1 is meant.
    own = 1.0 if temperature is None else temperature
    best = fit_temperature(logits * own, golds=golds) / own
    if is_tuned_here and len(golds) > 1:
        tables = []
        for member_answers, each in zip(ensemble.answers, temperatures, strict=True):
            decisions = task.list_decisions(member_answers, examples)
            assert decisions is not None
            tables.append(decisions[0] * each)
        order = np.random.default_rng(seed).permutation(len(golds))
        first, second = order[: len(order) // 2], order[len(order) // 2 :]
        logits = np.empty_like(tables[0])
        for rows, others in ((first, second), (second, first)):
            scaled = [table[rows] / fit_temperature(table[others], golds=golds[others]) for table in tables]
            logits[rows] = merge_softmax(scaled)
    probabilities = softmax(logits, axis=-1)
    return Calibration(
        temperature=temperature,
        ece=expected_calibration_error(probabilities, golds=golds),
        loss=negative_log_likelihood(logits, golds=golds),
        best_temperature=best,
        bins=list_reliability(probabilities, golds=golds),
        is_tuned_here=is_tuned_here,
    )


def write_evaluation(folder: Path, evaluation: Evaluation) -> list[Path]:
    """Write all files of an evaluation to a folder, atomically.

    An evaluation of the same split in `folder` is replaced.

    Returns:
        The paths of the files.

    Raises:
        InputError: If the folder holds anything else.
    """
    from albert.tasks.report import write_report

    definition = find_task(evaluation.task)
    check_folder(folder, task=evaluation.task, split=evaluation.split)
    with atomic_dir(folder) as aside:
        write_json(aside / SCORES_NAME, summarize_evaluation(evaluation))
        pairs = zip(evaluation.answers, evaluation.examples, strict=True)
        # In ASCII, because a text may have half a surrogate pair or a line break of Unicode.
        lines = [f"{dump_json(evaluation.built.describe(answer, example))}\n" for answer, example in pairs]
        write_text(aside / PREDICTIONS_NAME, "".join(lines))
        if evaluation.scores:
            write_report(aside / REPORT_NAME, evaluation)
        definition.write_files(
            aside, evaluation.built, evaluation.answers, evaluation.examples, split=evaluation.split
        )
        names = sorted(path.name for path in aside.iterdir())
    return [folder / name for name in names]


def check_folder(folder: Path, *, task: str, split: str) -> None:
    """Raise `InputError` if a folder holds anything but an evaluation of the same split."""
    if not require_folder(folder, hint="choose another name"):
        return
    path = folder / SCORES_NAME
    scores = read_json(path) if path.is_file() else None
    if not isinstance(scores, dict) or (scores.get("task"), scores.get("split")) != (task, split):
        raise InputError(
            f"{folder}: is not empty and not an evaluation of {task} on {split}; choose another folder"
        )
    known = {SCORES_NAME, PREDICTIONS_NAME, REPORT_NAME, EXITS_NAME, *find_task(task).file_names}
    reject_other_content(folder, frozenset(known), doing="writing an evaluation there")


def summarize_evaluation(evaluation: Evaluation) -> dict[str, Any]:
    """Summarize an evaluation as JSON, without per-example results."""
    parts = {
        "selection": evaluation.selection,
        "calibration": evaluation.calibration,
        "threshold": evaluation.threshold,
        "confusion": evaluation.confusion,
    }
    return {
        "task": evaluation.task,
        "split": evaluation.split,
        "data": evaluation.data,
        "models": list(evaluation.models),
        "num_examples": len(evaluation.examples),
        "num_scored": evaluation.num_scored,
        "scores": dict(evaluation.scores),
        "intervals": {name: [each.low, each.high] for name, each in evaluation.intervals.items()},
        "member_scores": [asdict(each) for each in evaluation.member_scores],
        "classes": [asdict(each) for each in evaluation.classes],
        **{name: None if part is None else asdict(part) for name, part in parts.items()},
        "problems": list(evaluation.problems),
    }
