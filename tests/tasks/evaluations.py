"""Evaluations made by hand, without a model: what the page of each kind of task is built from."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from albert.tasks.calibration import measure_calibration, report_threshold
from albert.tasks.decisions import find_classes, find_confusion, list_verdicts
from albert.tasks.evaluation_result import Evaluation, MemberScore, Selection
from albert.tasks.examples import Answer, SpanExample, TextExample
from albert.tasks.kinds.span_answers import FoundSpan, SpanAnswer
from albert.tasks.metrics.intervals import Interval
from albert.tasks.task_facts import TaskConfig, build_kind

LABELS = ("entailment", "neutral", "contradiction")
WORDS = (
    "the",
    "old",
    "harbour",
    "lay",
    "still",
    "under",
    "fog",
    "while",
    "a",
    "bell",
    "rang",
    "beyond",
    "quay",
)
RIGHT_TO_LEFT = "הספינה עזבה את הנמל, and השמש שקעה"
HOSTILE = (
    '<img src=x onerror="document.title=1"></article><script>alert("1")</script> & \u202eedoc\u202c a\u200bb'
)


def evaluate_texts(
    texts: Sequence[str], *, labels: tuple[str, ...] = LABELS, scale: float = 2.0, seed: int = 0
) -> Evaluation:
    """Answers that are right as often as such logits are, and a little too sure."""
    rng = np.random.default_rng(seed)
    facts = TaskConfig(task="classification", kind="texts", labels=labels, metrics=("accuracy", "macro_f1"))
    logits = rng.normal(scale=scale, size=(len(texts), len(labels)))
    shares = np.exp(logits / 1.6)
    golds = [int(rng.choice(len(labels), p=row / row.sum())) for row in shares]
    examples = tuple(
        TextExample(str(i), text, None, g) for i, (text, g) in enumerate(zip(texts, golds, strict=True))
    )
    return complete(facts, examples, tuple(logits))


def evaluate_numbers(number: int = 60) -> Evaluation:
    rng = np.random.default_rng(1)
    facts = TaskConfig(task="sts-b", kind="texts", label_kind="number", metrics=("pearson", "spearman"))
    golds = rng.uniform(0, 5, number)
    examples = tuple(TextExample(str(i), "a ship", "a boat", float(gold)) for i, gold in enumerate(golds))
    return complete(facts, examples, tuple(np.array([gold + rng.normal(scale=0.8)]) for gold in golds))


def evaluate_spans(number: int = 12) -> Evaluation:
    draw = random.Random(2)
    facts = TaskConfig(task="squad-2.0", kind="spans", has_impossible=True, threshold=0.0)
    examples, answers = [], []
    for place in range(number):
        context = " ".join(draw.choices(WORDS, k=200))
        word = context.split()[7]
        golds = (Answer(word, context.index(word)),) if place % 3 else ()
        examples.append(
            SpanExample(str(place), "What lay still?", context, golds, not golds, f"title {place % 4}")
        )
        text = word if draw.random() < 0.5 else "the fog"
        answers.append(SpanAnswer((FoundSpan(text, 0, len(text), 2.0),), draw.uniform(-3, 3)))
    return complete(facts, tuple(examples), tuple(answers))


def complete(facts: TaskConfig, examples: tuple[Any, ...], answers: tuple[Any, ...]) -> Evaluation:
    scores = build_kind(facts).score(answers, examples)
    return Evaluation(
        task=facts.task,
        split="dev",
        data="data/reviews",
        models=("runs/reviews",),
        facts=facts,
        examples=examples,
        answers=answers,
        num_scored=len(examples),
        scores=scores,
        intervals={name: Interval(value, value - 2.1, value + 2.4, 0.95) for name, value in scores.items()},
        classes=find_classes(facts, answers, examples),
        confusion=find_confusion(facts, answers, examples),
        calibration=measure_calibration(facts, answers, examples, members=[(answers, 1.3)]),
        threshold=report_threshold(facts, answers, examples, num_models=1, seed=0),
        verdicts=list_verdicts(facts, answers, examples),
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
        problems=("dev.tsv: left out 2 lines: an empty text (first in line 7)",),
    )
