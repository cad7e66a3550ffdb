"""Score all baselines of a task: those of `albert.tasks.baselines`, and ones for the other task types."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from albert.tasks.assignment import Assignment
from albert.tasks.baselines import (
    Baseline,
    Floats,
    answer_by_words,
    answer_majority,
    find_cosines,
    fit_vectorizer,
    list_texts,
    list_words,
)
from albert.tasks.examples import ChoiceExample, TokenExample
from albert.tasks.kinds.embedding import PairVectors
from albert.tasks.task_facts import build_kind
from bench.baselines import spans

# Those that do not read the question or the text.
TRIVIAL = frozenset({"majority", "mean", "first_name", "no_answer", "same_place", "random"})
_STREAM = 7003
_MAX_FEATURES = 2048  # the vectors of embeddings are dense


def score_baseline(assignment: Assignment) -> dict[str, dict[str, float]]:
    """Score every baseline of the task on its dev set, with the metrics of the task type.

    They learn from the training examples alone. Only the no-answer threshold of SQuAD 2.0 is the best one for
    the dev set, as for fine-tuned models.
    """
    kind = build_kind(assignment.facts)
    return {
        name: kind.score(answer(assignment), assignment.dev)
        for name, answer in list_baselines(assignment).items()
    }


def list_baselines(assignment: Assignment) -> dict[str, Baseline]:
    """Return the baselines of a task by name, trivial ones first."""
    facts = assignment.facts
    if facts.kind == "spans":
        trivial: dict[str, Baseline] = (
            {"no_answer": answer_majority}
            if facts.has_impossible
            else {"first_name": spans.answer_first_name}
        )
        return {**trivial, "bag_of_words": spans.answer_by_words}
    if facts.kind == "choices":
        return {
            "same_place": answer_majority,
            "random": answer_at_random,
            "sliding_window": answer_by_sliding_window,
        }
    if facts.kind == "words":
        return {"majority": answer_majority, "label_of_word": answer_by_word}
    if facts.kind == "embedding":
        return {"cosine": answer_by_tfidf}
    is_number = facts.label_kind == "number"
    found: dict[str, Baseline] = {
        "mean" if is_number else "majority": answer_majority,
        "bag_of_words": answer_by_words,
    }
    has_pairs = any(example.second is not None for example in list_texts(assignment.train))
    return {**found, "cosine": answer_by_cosine} if is_number and has_pairs else found


def answer_at_random(assignment: Assignment) -> list[Floats]:
    """Choose any option, always the same ones."""
    draw = np.random.default_rng(_STREAM)
    counts = [len(each.options) for each in _list_choices(assignment.dev)]
    return [np.eye(count)[int(draw.integers(count))] for count in counts]


def answer_by_sliding_window(assignment: Assignment) -> list[Floats]:
    """Choose the option with the best window of the passage: the baseline of the RACE paper.

    A window has as many words as question and option have different ones (Richardson et al. 2013). It counts
    those of its words that are theirs, rare ones for more.
    """
    return [_score_options(each) for each in _list_choices(assignment.dev)]


def _score_options(example: ChoiceExample) -> Floats:
    passage, question = list_words(example.passage), list_words(example.question.replace("_", " "))
    rarities = {word: math.log1p(1.0 / count) for word, count in Counter(passage).items()}
    scores = []
    for option in example.options:
        wanted = {*question, *list_words(option)}
        weights = [rarities[word] if word in wanted else 0.0 for word in passage]
        sums = np.concatenate([[0.0], np.cumsum(weights)])
        size = min(len(wanted), len(passage))
        scores.append(float((sums[size:] - sums[: len(sums) - size]).max()))
    return np.array(scores)


def _list_choices(examples: Sequence[Any]) -> list[ChoiceExample]:
    return [example for example in examples if isinstance(example, ChoiceExample)]


def answer_by_word(assignment: Assignment) -> list[Floats]:
    """Give each word its most frequent label, cased or else in lower case; unknown words the overall one."""
    overall: Counter[int] = Counter()
    known: dict[str, Counter[int]] = defaultdict(Counter)
    for example in _list_tokens(assignment.train):
        for word, label in zip(example.words, example.labels or (), strict=False):
            overall[label] += 1
            for form in {word, word.lower()}:
                known[form][label] += 1
    rows = np.eye(len(assignment.facts.labels))

    def find_row(word: str) -> Floats:
        counts = known.get(word) or known.get(word.lower()) or overall
        row: Floats = rows[max(counts, key=lambda label: (counts[label], -label))]
        return row

    return [np.stack([find_row(word) for word in example.words]) for example in _list_tokens(assignment.dev)]


def _list_tokens(examples: Sequence[Any]) -> list[TokenExample]:
    return [example for example in examples if isinstance(example, TokenExample)]


def answer_by_cosine(assignment: Assignment) -> list[Floats]:
    """Answer with the TF-IDF cosine of a pair; only the document frequencies are learned."""
    train, dev = list_texts(assignment.train), list_texts(assignment.dev)
    texts = [text for example in train for text in (example.first, example.second or "")]
    vectorizer = fit_vectorizer(texts, max_words=1)
    firsts = vectorizer.transform([example.first for example in dev])
    seconds = vectorizer.transform([example.second or "" for example in dev])
    return list(find_cosines(firsts, seconds)[:, None])


def answer_by_tfidf(assignment: Assignment) -> list[PairVectors]:
    """Embed texts as TF-IDF vectors of the most frequent words."""
    train, dev = list_texts(assignment.train), list_texts(assignment.dev)
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
