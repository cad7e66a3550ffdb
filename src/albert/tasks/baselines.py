"""Baselines that need no language model: the most frequent label, and a linear model of the words.

Every fine-tuned model has to beat them. They learn from the training examples alone. scikit-learn is imported
only when the linear model is used, because that takes half a second.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from albert.tasks.assignment import Assignment
from albert.tasks.examples import ChoiceExample, TextExample, TokenExample, list_places
from albert.tasks.metrics.classification import mark_labels
from albert.tasks.task_facts import TaskConfig, build_kind

Floats = NDArray[np.float64]
T = TypeVar("T")
Baseline = Callable[[Assignment], list[Any]]
WORD = r"\w+|[^\w\s]"  # punctuation is informative, too: question marks, quotes
# Inverse regularization strengths; the best one on a part of the training examples is used.
STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_HELD_OUT_SHARE = 0.2
_MAX_CHOOSING = 20_000  # examples are enough to choose, and more are slow
_MIN_CHOOSING = 10
_STREAM = 7002
_MAX_ITERATIONS = 2000


def list_baselines(assignment: Assignment) -> dict[str, Baseline]:
    """Return the baselines of a task by name: "majority" and "bag_of_words", where the task type has them."""
    facts = assignment.facts
    found: dict[str, Baseline] = {}
    if facts.kind in ("texts", "words", "choices") or (facts.kind == "spans" and facts.has_impossible):
        found["majority"] = answer_majority
    if facts.kind == "texts":
        found["bag_of_words"] = answer_by_words
    return found


def score_baseline(assignment: Assignment) -> dict[str, dict[str, float]]:
    """Score every baseline of the task on the dev set, with the metrics of the task type."""
    kind = build_kind(assignment.facts)
    return {
        name: kind.score(answer(assignment), assignment.dev)
        for name, answer in list_baselines(assignment).items()
    }


def score_majority(assignment: Assignment) -> float:
    """Score the majority baseline on the dev set; 0 where there is none."""
    if "majority" not in list_baselines(assignment):
        return 0.0
    return build_kind(assignment.facts).score(answer_majority(assignment), assignment.dev)["score"]


def answer_majority(assignment: Assignment) -> list[Any]:
    """Give the most frequent label to every example or word; the mean of numbers; no answer to questions."""
    facts, dev = assignment.facts, assignment.dev
    if facts.kind == "spans":
        from albert.tasks.kinds.span_answers import SpanAnswer

        return [SpanAnswer(())] * len(dev)
    if facts.kind == "words":
        found = Counter(
            label
            for each in assignment.train
            if isinstance(each, TokenExample)
            for label in each.labels or ()
        )
        best = max(found, key=lambda label: (found[label], -label))
        row = np.eye(len(facts.labels))[best]
        return [np.tile(row, (len(each.words), 1)) for each in dev if isinstance(each, TokenExample)]
    if facts.kind == "choices":
        labels = [each.label for each in assignment.train if isinstance(each, ChoiceExample)]
        best = find_most_frequent([label for label in labels if label is not None])
        counts = [len(each.options) for each in dev if isinstance(each, ChoiceExample)]
        return [np.eye(count)[min(best, count - 1)] for count in counts]
    texts = list_texts(assignment.train)
    if facts.label_kind == "number":
        return [np.array([np.mean([example.label for example in texts])])] * len(dev)
    label = find_most_frequent([example.label for example in texts])
    row = -np.ones(len(facts.labels))
    row[list(label) if isinstance(label, tuple) else int(label or 0)] = 1.0
    return [row] * len(dev)


def answer_by_words(assignment: Assignment) -> list[Floats]:
    """Answer with a linear model of TF-IDF features: logistic regression, per label where there are several.

    Numbers are predicted by ridge regression. The regularization is chosen on a part of the training examples
    that the model has not seen; the dev set is not used.
    """
    train, dev = list_texts(assignment.train), list_texts(assignment.dev)
    strength = choose_strength(train, assignment.facts)
    return _fit_and_answer(train, *build_features(train, dev), assignment.facts, strength)


def choose_strength(train: Sequence[TextExample], facts: TaskConfig) -> float:
    """Choose the strength that scores best on held-out examples of `train`; the lowest one of equals."""
    if len(train) < _MIN_CHOOSING:
        return 1.0
    order = np.random.default_rng(_STREAM).permutation(len(train))[:_MAX_CHOOSING]
    number = max(1, round(_HELD_OUT_SHARE * len(order)))
    held, rest = ([train[index] for index in part] for part in (order[:number], order[number:]))
    kind, features = build_kind(facts), build_features(rest, held)
    scores = {
        strength: kind.score(_fit_and_answer(rest, *features, facts, strength), held)["score"]
        for strength in STRENGTHS
    }
    return max(STRENGTHS, key=lambda strength: (scores[strength], -strength))


def _fit_and_answer(
    train: Sequence[TextExample], x_train: Any, x_dev: Any, facts: TaskConfig, strength: float
) -> list[Floats]:
    """Return logits or numbers, as the task type has them."""
    labels = [example.label for example in train]
    if facts.label_kind == "number":
        from sklearn.linear_model import Ridge

        model = Ridge(alpha=1.0 / strength).fit(x_train, np.array(labels, dtype=np.float64))
        return list(model.predict(x_dev)[:, None])
    if facts.label_kind == "one":
        return list(_classify(x_train, np.array(labels), x_dev, len(facts.labels), strength))
    table = mark_labels([list_places(label) for label in labels], num_labels=len(facts.labels))
    columns = [_classify(x_train, marks, x_dev, 2, strength) for marks in table.astype(np.int64).T]
    return list(np.column_stack([column[:, 1] - column[:, 0] for column in columns]))


def _classify(
    x_train: Any, labels: NDArray[np.int64], x_dev: Any, num_labels: int, strength: float
) -> Floats:
    """Return logits [examples, labels]; a label without training examples is never given."""
    from sklearn.linear_model import LogisticRegression

    found = np.unique(labels)
    logits = np.full((x_dev.shape[0], num_labels), -1e9)
    if len(found) == 1:
        logits[:, found[0]] = 0.0
        return logits
    model = LogisticRegression(C=strength, max_iter=_MAX_ITERATIONS).fit(x_train, labels)
    decided = model.decision_function(x_dev)
    logits[:, found] = np.column_stack([-decided, decided]) / 2 if decided.ndim == 1 else decided
    return logits


def build_features(train: Sequence[TextExample], dev: Sequence[TextExample]) -> tuple[Any, Any]:
    """Build sparse features of both sets, fitted on `train`.

    A text is its TF-IDF row. A pair is the rows of both texts, their minimum and difference, and measures
    of overlap, standardized over `train`.
    """
    from scipy import sparse

    texts = [text for each in train for text in (each.first, each.second) if text is not None]
    vectorizer = fit_vectorizer(texts)
    firsts = [vectorizer.transform([each.first for each in examples]) for examples in (train, dev)]
    if all(each.second is None for each in train):
        return firsts[0], firsts[1]
    seconds = [vectorizer.transform([each.second or "" for each in examples]) for examples in (train, dev)]
    overlaps = [_measure_pairs(*each) for each in zip((train, dev), firsts, seconds, strict=True)]
    mean, deviation = overlaps[0].mean(axis=0), overlaps[0].std(axis=0)
    deviation[deviation == 0] = 1.0
    x_train, x_dev = (
        sparse.hstack(
            [
                first,
                second,
                first.minimum(second),
                abs(first - second),
                sparse.csr_matrix((overlap - mean) / deviation),
            ],
            format="csr",
        )
        for first, second, overlap in zip(firsts, seconds, overlaps, strict=True)
    )
    return x_train, x_dev


def fit_vectorizer(texts: Sequence[str], *, max_features: int | None = None, max_words: int = 2) -> Any:
    """Fit TF-IDF of words and n-grams."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(
        token_pattern=WORD, ngram_range=(1, max_words), sublinear_tf=True, max_features=max_features
    )
    return vectorizer.fit(texts)


def find_cosines(firsts: Any, seconds: Any) -> Floats:
    """Return the cosine similarity of the rows of two TF-IDF tables."""
    found: Floats = np.asarray(firsts.multiply(seconds).sum(axis=1), dtype=np.float64).ravel()
    return found


def _measure_pairs(examples: Sequence[TextExample], firsts: Any, seconds: Any) -> Floats:
    """Return the cosine, shares of common words, the ratio of lengths, and whether the numbers agree."""
    rows = []
    for example in examples:
        first, second = list_words(example.first), list_words(example.second or "")
        one, other = set(first), set(second)
        numbers = [{word for word in side if word.isdigit()} for side in (one, other)]
        shares = [len(one & other) / max(1, len(side)) for side in (one | other, one, other)]
        ratio = math.log((len(first) + 1) / (len(second) + 1))
        rows.append([*shares, ratio, abs(ratio), float(numbers[0] == numbers[1])])
    return np.column_stack([find_cosines(firsts, seconds), np.array(rows, dtype=np.float64)])


def list_words(text: str) -> list[str]:
    """Split a text into lower-case words and punctuation marks."""
    return re.findall(WORD, text.lower())


def list_texts(examples: Sequence[Any]) -> list[TextExample]:
    """Return the examples as texts, for the type checker."""
    return [example for example in examples if isinstance(example, TextExample)]


def find_most_frequent(values: Sequence[T]) -> T:
    """Return the most frequent value, the first one of equals."""
    return Counter(values).most_common(1)[0][0]
