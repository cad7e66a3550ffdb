"""An assignment on texts comes in; answers to its development set go out, from words and from none."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge

from albert.tasks.assignment import Assignment
from albert.tasks.baselines.features import Floats, find_cosines, fit_features, fit_vectorizer
from albert.tasks.examples import Label, TextExample, list_places
from albert.tasks.metrics.multilabel import mark_labels
from albert.tasks.task_facts import TaskFacts, build_kind

# How far weights may go from 0: 1 / penalty. The best on a part of the training examples is taken.
STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_HELD_OUT_SHARE = 0.2
_MAX_CHOOSING = 20_000  # examples are enough, and more are slow
_MIN_CHOOSING = 10
_STREAM = 7002
_MAX_ITERATIONS = 2000
T = TypeVar("T")


def answer_majority(assignment: Assignment) -> list[Floats]:
    """The most frequent label, or set of labels, for everything; of numbers the mean."""
    train, facts = _list_texts(assignment.train), assignment.facts
    if facts.label_kind == "number":
        row = np.array([np.mean([example.label for example in train])])
    else:
        row = -np.ones(len(facts.labels))
        places = find_most_frequent([example.label for example in train])
        row[list(places) if isinstance(places, tuple) else int(places or 0)] = 1.0
    return [row] * len(assignment.dev)


def answer_by_words(assignment: Assignment) -> list[Floats]:
    """A linear model of the words: logistic regression, for each label by itself where there are several.

    Numbers are predicted by ridge regression. The strength is chosen on a part of the training examples
    that the model has not seen then; the development set has no say in it.
    """
    train, facts = _list_texts(assignment.train), assignment.facts
    tables = _build_tables(train, _list_texts(assignment.dev))
    return _answer(tables, facts, choose_strength(train, facts))


def answer_by_cosine(assignment: Assignment) -> list[Floats]:
    """How similar the words of a pair are, as a number; nothing is learned but how rare words are."""
    train, dev = _list_texts(assignment.train), _list_texts(assignment.dev)
    vectorizer = fit_vectorizer(
        [text for example in train for text in (example.first, example.second or "")], max_words=1
    )
    firsts = vectorizer.transform([example.first for example in dev])
    seconds = vectorizer.transform([example.second or "" for example in dev])
    return list(find_cosines(firsts, seconds)[:, None])


def choose_strength(train: Sequence[TextExample], facts: TaskFacts) -> float:
    """The strength whose model scores best on examples of `train` kept from it; of equals the lowest."""
    if len(train) < _MIN_CHOOSING:
        return 1.0
    order = np.random.default_rng(_STREAM).permutation(len(train))[:_MAX_CHOOSING]
    number = max(1, round(_HELD_OUT_SHARE * len(order)))
    held, rest = ([train[place] for place in part] for part in (order[:number], order[number:]))
    kind, tables = build_kind(facts), _build_tables(rest, held)
    scores = {strength: kind.score(_answer(tables, facts, strength), held)["score"] for strength in STRENGTHS}
    return max(STRENGTHS, key=lambda strength: (scores[strength], -strength))


def find_most_frequent(values: Sequence[T]) -> T:
    """The value that is there most often; of equals the one that comes first."""
    return Counter(values).most_common(1)[0][0]


@dataclass(frozen=True)
class _Tables:
    """What is learned from, what it means, and what is asked about."""

    train: Any
    labels: list[Label]
    asked: Any


def _build_tables(train: Sequence[TextExample], asked: Sequence[TextExample]) -> _Tables:
    features = fit_features(train)
    return _Tables(features.build(train), [example.label for example in train], features.build(asked))


def _answer(tables: _Tables, facts: TaskFacts, strength: float) -> list[Floats]:
    """Logits or numbers, as the kind of the task has them."""
    if facts.label_kind == "number":
        model = Ridge(alpha=1.0 / strength).fit(tables.train, np.array(tables.labels, dtype=np.float64))
        return list(model.predict(tables.asked)[:, None])
    if facts.label_kind == "one":
        return list(_classify(tables, np.array(tables.labels), len(facts.labels), strength))
    table = mark_labels([list_places(label) for label in tables.labels], num_labels=len(facts.labels))
    columns = [_classify(tables, marks, 2, strength) for marks in table.astype(np.int64).T]
    return list(np.column_stack([column[:, 1] - column[:, 0] for column in columns]))


def _classify(tables: _Tables, labels: NDArray[np.int64], num_labels: int, strength: float) -> Floats:
    """The logits [asked, labels]; a label that nobody has is never given."""
    found = np.unique(labels)
    logits = np.full((tables.asked.shape[0], num_labels), -1e9)
    if len(found) == 1:
        logits[:, found[0]] = 0.0
        return logits
    model = LogisticRegression(C=strength, max_iter=_MAX_ITERATIONS).fit(tables.train, labels)
    decided = model.decision_function(tables.asked)
    logits[:, found] = np.column_stack([-decided, decided]) / 2 if decided.ndim == 1 else decided
    return logits


def _list_texts(examples: Sequence[Any]) -> list[TextExample]:
    return [example for example in examples if isinstance(example, TextExample)]
