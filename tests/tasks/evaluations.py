"""Evaluations without a model, for tests of the report."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from albert.tasks.catalogue import build_task, find_task
from albert.tasks.classification import ClassificationConfig, TextExample
from albert.tasks.ensemble import Ensemble, Member
from albert.tasks.evaluate import Evaluation, MemberScore, Selection, measure_calibration
from albert.tasks.metrics.intervals import Interval
from albert.tasks.task import TaskConfig

LABELS = ("entailment", "neutral", "contradiction")
WORDS = ("the", "old", "harbor", "lay", "still", "under", "fog", "while", "a", "bell", "rang", "beyond")
RIGHT_TO_LEFT = "הספינה עזבה את הנמל, and השמש שקעה"
HOSTILE = (
    '<img src=x onerror="document.title=1"></article><script>alert("1")</script> & \u202eedoc\u202c a\u200bb'
)


def evaluate_texts(
    texts: Sequence[str], *, labels: tuple[str, ...] = LABELS, scale: float = 2.0, seed: int = 0
) -> Evaluation:
    """Golds are drawn from the predicted probabilities at temperature 1.6: the model is overconfident."""
    rng = np.random.default_rng(seed)
    config = ClassificationConfig(task="classification", labels=labels, metrics=("accuracy", "macro_f1"))
    logits = rng.normal(scale=scale, size=(len(texts), len(labels)))
    shares = np.exp(logits / 1.6)
    golds = [int(rng.choice(len(labels), p=row / row.sum())) for row in shares]
    pairs = enumerate(zip(texts, golds, strict=True))
    examples = tuple(TextExample(str(i), text, None, gold) for i, (text, gold) in pairs)
    return complete(config, examples, tuple(logits))


def evaluate_numbers(number: int = 60) -> Evaluation:
    rng = np.random.default_rng(1)
    config = ClassificationConfig(task="sts-b", label_kind="number", metrics=("pearson", "spearman"))
    golds = rng.uniform(0, 5, number)
    examples = tuple(TextExample(str(i), "a ship", "a boat", float(gold)) for i, gold in enumerate(golds))
    return complete(config, examples, tuple(np.array([gold + rng.normal(scale=0.8)]) for gold in golds))


def complete(config: TaskConfig, examples: tuple[Any, ...], answers: tuple[Any, ...]) -> Evaluation:
    task = build_task(config)
    scores = task.score(answers, examples)
    member = Member("runs/reviews", Path(), config.model_copy(update={"temperature": 1.3}))
    ensemble = Ensemble(find_task(config.task), (member,), (list(answers),), examples)
    return Evaluation(
        task=config.task,
        split="dev",
        data="data/reviews",
        models=(member.name,),
        built=task,
        examples=examples,
        answers=answers,
        num_scored=len(examples),
        scores=scores,
        intervals={name: Interval(value, value - 2.1, value + 2.4, 0.95) for name, value in scores.items()},
        classes=task.score_classes(answers, examples),
        confusion=task.count_confusions(answers, examples),
        calibration=measure_calibration(ensemble, answers),
        threshold=task.report_threshold(answers, examples, num_models=1, is_tuned_here=False, seed=0),
        results=task.explain(answers, examples),
    )


def make_ensemble(evaluation: Evaluation) -> Evaluation:
    scores = evaluation.scores
    members = tuple(
        MemberScore(f"runs/seed-{seed}", {name: value - seed for name, value in scores.items()}, seed < 3)
        for seed in (1, 2, 3)
    )
    return replace(
        evaluation,
        models=("runs/seed-1", "runs/seed-2"),
        member_scores=members,
        selection=Selection("one half of dev", 200, (("runs/seed-1", 80.2), ("runs/seed-2", 81.9))),
        problems=("dev.tsv: skipped 2 lines: an empty text (first in line 7)",),
    )
