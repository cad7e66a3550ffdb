"""An assignment on embeddings comes in; vectors of words, without a model, go out for its development set."""

import numpy as np

from albert.tasks.assignment import Assignment
from albert.tasks.baselines.features import fit_vectorizer
from albert.tasks.examples import TextExample
from albert.tasks.kinds.embedding_scores import PairVectors

_MAX_FEATURES = 2048  # vectors are dense


def answer_by_tfidf(assignment: Assignment) -> list[PairVectors]:
    """TF-IDF of the most frequent words, at length 1."""
    train, dev = (
        [example for example in part if isinstance(example, TextExample)]
        for part in (assignment.train, assignment.dev)
    )
    texts = [text for each in train for text in (each.first, each.second) if text is not None]
    vectorizer = fit_vectorizer(texts, max_features=_MAX_FEATURES, max_words=1)
    firsts, seconds = (
        vectorizer.transform(side).toarray().astype(np.float32)
        for side in ([each.first for each in dev], [each.second or "" for each in dev])
    )
    return [
        PairVectors(first, None if example.second is None else second)
        for example, first, second in zip(dev, firsts, seconds, strict=True)
    ]
