"""Score the baselines of a task: those of its task type, and others that only the comparison needs."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from albert.tasks.bag_of_words import find_cosines, fit_vectorizer, list_words
from albert.tasks.catalogue import build_task
from albert.tasks.classification import ClassificationConfig, TextExample
from albert.tasks.data import TaskData
from albert.tasks.embedding import EmbeddingConfig, PairVectors
from albert.tasks.multiple_choice import ChoiceExample, MultipleChoiceConfig
from albert.tasks.question_answering import QuestionAnsweringConfig
from albert.tasks.task import Floats
from albert.tasks.token_classification import TokenClassificationConfig, TokenExample
from bench.baselines import spans

# They do not read the question or the text.
TRIVIAL = frozenset({"majority", "mean", "first_name", "no_answer", "same_place", "random"})
Predict = Callable[[Any, Any], Sequence[Any]]  # train and dev examples -> answers to the dev examples
Texts = Sequence[TextExample]
_STREAM = 7003
_MAX_FEATURES = 2048  # the vectors of embeddings are dense


def score_baselines(data: TaskData) -> dict[str, dict[str, float]]:
    """Score every baseline of the task on its dev set, with the metrics of the task type.

    They are fitted on the training examples. Only the no-answer threshold of SQuAD 2.0 is chosen on the dev
    set, as for fine-tuned models.
    """
    task = build_task(data.config)
    found = list_baselines(data)
    return {name: task.score(predict(data.train, data.dev), data.dev) for name, predict in found.items()}


def list_baselines(data: TaskData) -> dict[str, Predict]:
    """List the baselines of a task by name, trivial ones first."""
    config, own = data.config, build_task(data.config).list_baselines()
    if isinstance(config, QuestionAnsweringConfig):
        by_words = partial(spans.predict_by_words, has_impossible=config.has_impossible)
        if config.has_impossible:
            return {"no_answer": own["majority"], "bag_of_words": by_words}
        return {"first_name": spans.predict_first_name, "bag_of_words": by_words}
    if isinstance(config, MultipleChoiceConfig):
        return {
            "same_place": own["majority"],
            "random": predict_random,
            "sliding_window": predict_by_sliding_window,
        }
    if isinstance(config, TokenClassificationConfig):
        return {**own, "label_of_word": partial(predict_by_word, num_labels=len(config.labels))}
    if isinstance(config, EmbeddingConfig):
        return {"cosine": embed_by_tfidf}
    if isinstance(config, ClassificationConfig) and config.label_kind == "number":
        found: dict[str, Predict] = {"mean": own["majority"], "bag_of_words": own["bag_of_words"]}
        has_pairs = any(len(example.texts) > 1 for example in data.train)
        return {**found, "cosine": predict_cosine} if has_pairs else found
    return {**own}


def predict_random(train: Sequence[ChoiceExample], dev: Sequence[ChoiceExample]) -> list[Floats]:
    """Choose a random option, always the same one."""
    draw = np.random.default_rng(_STREAM)
    counts = [len(each.options) for each in dev]
    return [np.eye(count)[int(draw.integers(count))] for count in counts]


def predict_by_sliding_window(train: Sequence[ChoiceExample], dev: Sequence[ChoiceExample]) -> list[Floats]:
    """Choose the option with the best window of the passage: the baseline of the RACE paper.

    A window has as many words as question and option have distinct ones (Richardson et al. 2013). Its score
    is the sum of the rarities of the words that they share.
    """
    answers = []
    for example in dev:
        passage, question = list_words(example.passage), list_words(example.question.replace("_", " "))
        rarities = {word: math.log1p(1.0 / count) for word, count in Counter(passage).items()}
        scores = []
        for option in example.options:
            wanted = {*question, *list_words(option)}
            weights = [rarities[word] if word in wanted else 0.0 for word in passage]
            sums = np.concatenate([[0.0], np.cumsum(weights)])
            size = min(len(wanted), len(passage))
            scores.append(float((sums[size:] - sums[: len(sums) - size]).max()))
        answers.append(np.array(scores))
    return answers


def predict_by_word(
    train: Sequence[TokenExample], dev: Sequence[TokenExample], *, num_labels: int
) -> list[Floats]:
    """Predict the most frequent label of each word, cased or else lower-cased, or else the overall one."""
    overall: Counter[int] = Counter()
    known: dict[str, Counter[int]] = defaultdict(Counter)
    for example in train:
        for word, label in zip(example.words, example.labels or (), strict=False):
            overall[label] += 1
            for form in {word, word.lower()}:
                known[form][label] += 1
    rows = np.eye(num_labels)

    def find_row(word: str) -> Floats:
        counts = known.get(word) or known.get(word.lower()) or overall
        row: Floats = rows[max(counts, key=lambda label: (counts[label], -label))]
        return row

    return [np.stack([find_row(word) for word in example.words]) for example in dev]


def predict_cosine(train: Texts, dev: Texts) -> list[Floats]:
    """Predict the TF-IDF cosine of a pair; only the document frequencies are fitted."""
    vectorizer = fit_vectorizer([text for each in train for text in each.texts], max_words=1)
    firsts = vectorizer.transform([each.first for each in dev])
    seconds = vectorizer.transform([each.second or "" for each in dev])
    return list(find_cosines(firsts, seconds)[:, None])


def embed_by_tfidf(train: Texts, dev: Texts) -> list[PairVectors]:
    """Embed texts as TF-IDF vectors of the most frequent words."""
    texts = [text for each in train for text in each.texts]
    vectorizer = fit_vectorizer(texts, max_features=_MAX_FEATURES, max_words=1)
    firsts, seconds = (
        vectorizer.transform(side).toarray().astype(np.float32)
        for side in ([each.first for each in dev], [each.second or "" for each in dev])
    )
    return [
        PairVectors(first, None if example.second is None else second)
        for example, first, second in zip(dev, firsts, seconds, strict=True)
    ]
