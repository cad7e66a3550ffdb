"""Answers and examples come in; what was decided, what is right, and where the two are confused go out."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albert.tasks.examples import SpanExample
from albert.tasks.kinds.logits import decide
from albert.tasks.kinds.span_scores import build_part
from albert.tasks.kinds.words import WordKind
from albert.tasks.metrics.classification import ClassScore, Confusion, count_confusions, score_classes
from albert.tasks.metrics.entities import score_entities
from albert.tasks.metrics.multilabel import mark_labels
from albert.tasks.metrics.squad import QuestionScores, score_questions
from albert.tasks.metrics.squad_threshold import apply_threshold, choose_threshold
from albert.tasks.task_facts import TaskFacts, build_kind

MAX_CONFUSED = 200  # classes; a larger matrix is no picture, and a file of its own
ANSWERABLE = ("no answer", "answer")


@dataclass(frozen=True)
class Decisions:
    """One row for each decision: places of classes, zeros and ones of labels, or numbers."""

    given: NDArray[Any]
    golds: NDArray[Any]

    @property
    def is_right(self) -> NDArray[np.float64]:
        """1 where all of a row is right."""
        same = np.asarray(self.given == self.golds, np.float64)
        return same if same.ndim == 1 else same.min(axis=1)


def list_decided(facts: TaskFacts, answers: Sequence[Any], examples: Sequence[Any]) -> Decisions:
    """What was decided of each text, each word of all texts, each question with options, or each pair."""
    if facts.kind == "words":
        golds = np.fromiter(chain.from_iterable(example.labels for example in examples), np.int64)
        return Decisions(np.concatenate([answer.argmax(-1) for answer in answers]), golds)
    labels = [example.label for example in examples]
    if facts.kind == "choices":
        return Decisions(np.array([int(answer.argmax()) for answer in answers]), np.array(labels))
    if facts.kind == "embedding":
        return Decisions(np.array([answer.similarity for answer in answers]), np.array(labels, np.float64))
    given = decide(np.stack(answers), facts.label_kind)
    if facts.label_kind == "several":
        return Decisions(given, mark_labels(labels, num_labels=len(facts.labels)).astype(np.int64))
    return Decisions(given, np.array(labels, np.int64 if facts.label_kind == "one" else np.float64))


def score_spans(facts: TaskFacts, answers: Sequence[Any], examples: Sequence[SpanExample]) -> QuestionScores:
    """Exact match and F1 of each question, as the whole is scored: under the threshold, if there is one."""
    if not facts.has_impossible:
        golds = [[answer.text for answer in example.answers] for example in examples]
        return score_questions([answer.best.text for answer in answers], golds=golds, version="1.1")
    part = build_part(answers, examples)
    threshold = choose_threshold(part) if facts.threshold is None else facts.threshold
    return apply_threshold(part, threshold=threshold)


def find_confusion(facts: TaskFacts, answers: Sequence[Any], examples: Sequence[Any]) -> Confusion | None:
    """Which class is taken for which, of texts and of words; of questions, whether there is an answer.

    None where there are no classes to confuse, or too many of them.
    """
    if facts.kind == "spans" and facts.has_impossible:
        questions = score_spans(facts, answers, examples)
        given, golds = np.array(questions.is_answered), np.array(questions.is_answerable)
        return _name(count_confusions(given * 1, golds=golds * 1, labels=(0, 1)), ANSWERABLE)
    if facts.kind not in ("texts", "words") or facts.label_kind != "one":
        return None
    if len(facts.labels) > MAX_CONFUSED:
        return None
    decided = list_decided(facts, answers, examples)
    places = range(len(facts.labels))
    return _name(count_confusions(decided.given, golds=decided.golds, labels=places), facts.labels)


def find_classes(facts: TaskFacts, answers: Sequence[Any], examples: Sequence[Any]) -> tuple[ClassScore, ...]:
    """How well each class, each of several labels, or each kind of entity is found."""
    if facts.kind == "words":
        kind = build_kind(facts)
        assert isinstance(kind, WordKind)
        if kind.has_entities:
            return _score_entities(facts, answers, examples)
    if facts.kind not in ("texts", "words") or facts.label_kind == "number":
        return ()
    decided = list_decided(facts, answers, examples)
    if facts.label_kind == "one":
        places = range(len(facts.labels))
        found = score_classes(decided.given, golds=decided.golds, labels=places)
        return tuple(_rename(each, facts.labels[each.label]) for each in found)
    return tuple(
        _rename(score_classes(decided.given[:, place], golds=decided.golds[:, place], labels=(0, 1))[1], name)
        for place, name in enumerate(facts.labels)
    )


def _score_entities(
    facts: TaskFacts, answers: Sequence[Any], examples: Sequence[Any]
) -> tuple[ClassScore, ...]:
    given = [[facts.labels[place] for place in answer.argmax(-1)] for answer in answers]
    golds = [[facts.labels[place] for place in example.labels] for example in examples]
    found = score_entities(given, golds=golds).by_kind
    return tuple(
        ClassScore(name, each.precision, each.recall, each.f1, each.num_gold) for name, each in found.items()
    )


def _rename(score: ClassScore, name: str) -> ClassScore:
    return ClassScore(name, score.precision, score.recall, score.f1, score.support)


def _name(confusion: Confusion, labels: Sequence[str]) -> Confusion:
    return Confusion(tuple(labels), confusion.counts)
