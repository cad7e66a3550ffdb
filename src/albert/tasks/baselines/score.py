"""An assignment comes in; what it scores without a model of language goes out, for each simple way."""

from collections.abc import Callable, Mapping
from typing import Any

from albert.tasks.assignment import Assignment
from albert.tasks.baselines import choices, embeddings, spans, texts, words
from albert.tasks.examples import TextExample
from albert.tasks.task_facts import build_kind

Baseline = Callable[[Assignment], list[Any]]
# Those that do not look at what is asked.
TRIVIAL = frozenset({"majority", "mean", "first_name", "no_answer", "same_place", "random"})


def score_baseline(assignment: Assignment) -> dict[str, dict[str, float]]:
    """The metrics of every baseline of the task on its development set, by the kind's own scoring.

    They learn from the training examples alone. Only the no-answer threshold of SQuAD 2.0 is the best for
    the development set, as it is for fine-tuned models.
    """
    kind = build_kind(assignment.facts)
    return {
        name: kind.score(answer(assignment), assignment.dev)
        for name, answer in list_baselines(assignment).items()
    }


def list_baselines(assignment: Assignment) -> Mapping[str, Baseline]:
    """The baselines of a task by name, those without learning first."""
    facts = assignment.facts
    if facts.kind == "texts":
        return _list_for_texts(assignment)
    if facts.kind == "spans":
        silent: dict[str, Baseline] = {"no_answer": spans.answer_nothing}
        naming: dict[str, Baseline] = {"first_name": spans.answer_first_name}
        return {**(silent if facts.has_impossible else naming), "bag_of_words": spans.answer_by_words}
    if facts.kind == "choices":
        return {
            "same_place": choices.answer_same_place,
            "random": choices.answer_at_random,
            "sliding_window": choices.answer_by_sliding_window,
        }
    if facts.kind == "words":
        return {"majority": words.answer_most_frequent, "label_of_word": words.answer_by_word}
    return {"cosine": embeddings.answer_by_tfidf}


def _list_for_texts(assignment: Assignment) -> dict[str, Baseline]:
    is_number = assignment.facts.label_kind == "number"
    found: dict[str, Baseline] = {
        "mean" if is_number else "majority": texts.answer_majority,
        "bag_of_words": texts.answer_by_words,
    }
    has_pairs = any(isinstance(each, TextExample) and each.second is not None for each in assignment.train)
    return {**found, "cosine": texts.answer_by_cosine} if is_number and has_pairs else found
