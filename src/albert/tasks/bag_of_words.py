"""The bag-of-words baseline of fine-tuned classifiers: a linear model of TF-IDF features.

scikit-learn is imported where it is used, which takes half a second.
"""

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
Floats = NDArray[np.float64]
Features = tuple[Any, Any]  # sparse tables of the train and the dev examples
TextPair = tuple[str, str | None]
WORD = r"\w+|[^\w\s]"  # with punctuation, such as question marks
STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # inverse regularization strengths
_HELD_OUT_SHARE = 0.2
_MAX_EXAMPLES = 20_000  # to choose the strength with; more are slow and change nothing
_MIN_EXAMPLES = 10
_STREAM = 7002
_MAX_ITERATIONS = 2000


def choose_strength(
    train: Sequence[T], prepare: Callable[[Sequence[T], Sequence[T]], Callable[[float], float]]
) -> float:
    """Choose the strength with the best score on held-out examples of `train`; of equals the lowest.

    Args:
        train: The training examples.
        prepare: Returns a function from a strength to the score, given examples to fit and to score.
    """
    if len(train) < _MIN_EXAMPLES:
        return 1.0
    order = np.random.default_rng(_STREAM).permutation(len(train))[:_MAX_EXAMPLES]
    number = max(1, round(_HELD_OUT_SHARE * len(order)))
    held_out, rest = ([train[index] for index in part] for part in (order[:number], order[number:]))
    score = prepare(rest, held_out)
    scores = {strength: score(strength) for strength in STRENGTHS}
    return max(STRENGTHS, key=lambda strength: (scores[strength], -strength))


def fit_ridge(features: Features, numbers: Floats, *, strength: float) -> Floats:
    """Fit ridge regression and predict the numbers [examples, 1] of the dev examples."""
    from sklearn.linear_model import Ridge

    model = Ridge(alpha=1.0 / strength).fit(features[0], numbers)
    predicted: Floats = model.predict(features[1])[:, None]
    return predicted


def fit_logistic(
    features: Features, labels: NDArray[np.int64], num_labels: int, *, strength: float
) -> Floats:
    """Fit logistic regression and predict logits [examples, labels]; unseen labels are never predicted."""
    from sklearn.linear_model import LogisticRegression

    found = np.unique(labels)
    logits = np.full((features[1].shape[0], num_labels), -1e9)
    if len(found) == 1:
        logits[:, found[0]] = 0.0
        return logits
    model = LogisticRegression(C=strength, max_iter=_MAX_ITERATIONS).fit(features[0], labels)
    scores = model.decision_function(features[1])
    logits[:, found] = np.column_stack([-scores, scores]) / 2 if scores.ndim == 1 else scores
    return logits


def build_features(train: Sequence[TextPair], dev: Sequence[TextPair]) -> Features:
    """Build sparse features of both sets, fitted on `train`.

    The features of a text are its TF-IDF row; those of a pair are the rows of both texts, their minimum and
    difference, and measures of overlap, standardized over `train`.
    """
    from scipy import sparse

    vectorizer = fit_vectorizer([text for pair in train for text in pair if text is not None])
    firsts = [vectorizer.transform([first for first, _ in pairs]) for pairs in (train, dev)]
    if all(second is None for _, second in train):
        return firsts[0], firsts[1]
    seconds = [vectorizer.transform([second or "" for _, second in pairs]) for pairs in (train, dev)]
    overlaps = [_measure_overlap(*each) for each in zip((train, dev), firsts, seconds, strict=True)]
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
    """Compute the cosine similarity of the rows of two TF-IDF tables."""
    cosines: Floats = np.asarray(firsts.multiply(seconds).sum(axis=1), dtype=np.float64).ravel()
    return cosines


def _measure_overlap(pairs: Sequence[TextPair], firsts: Any, seconds: Any) -> Floats:
    """Measure cosine, shares of common words, ratio of lengths, and whether the numbers agree."""
    rows = []
    for pair in pairs:
        first, second = (list_words(text or "") for text in pair)
        one, other = set(first), set(second)
        numbers = [{word for word in side if word.isdigit()} for side in (one, other)]
        shares = [len(one & other) / max(1, len(side)) for side in (one | other, one, other)]
        ratio = math.log((len(first) + 1) / (len(second) + 1))
        rows.append([*shares, ratio, abs(ratio), float(numbers[0] == numbers[1])])
    return np.column_stack([find_cosines(firsts, seconds), np.array(rows, dtype=np.float64)])


def list_words(text: str) -> list[str]:
    """Split a text into lower-case words and punctuation marks."""
    return re.findall(WORD, text.lower())
