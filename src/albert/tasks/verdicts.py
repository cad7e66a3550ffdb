"""Answers and what is known of their examples come in; what a person reads of each goes out."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import log_expit, log_softmax
from scipy.stats import rankdata

from albert.tasks.decisions import score_spans
from albert.tasks.evaluation_result import Verdict
from albert.tasks.examples import ChoiceExample, SpanExample, TextExample, TokenExample
from albert.tasks.kinds.choices import LETTERS
from albert.tasks.kinds.embedding_scores import PairVectors
from albert.tasks.kinds.span_answers import SpanAnswer
from albert.tasks.kinds.words import WordKind
from albert.tasks.metrics.entities import find_entities
from albert.tasks.task_facts import TaskFacts, build_kind

NO_ANSWER = "(no answer)"
NO_LABEL = "(no label)"
_NEAR = 0.5  # how far a number may be off that is called right, as in training
_NEAR_RANK = 0.1  # how far the rank of a pair may be off, as a share of all pairs


def list_verdicts(facts: TaskFacts, answers: Sequence[Any], examples: Sequence[Any]) -> tuple[Verdict, ...]:
    """One verdict for each example, in their order; none of pairs of which nothing is known."""
    if facts.kind in _JUDGES_OF_ALL:
        return _JUDGES_OF_ALL[facts.kind](facts, answers, examples)
    judge = _JUDGES[facts.label_kind if facts.kind == "texts" else facts.kind]
    return tuple(judge(facts, answer, example) for answer, example in zip(answers, examples, strict=True))


def _judge_one(facts: TaskFacts, answer: Any, example: TextExample) -> Verdict:
    assert isinstance(example.label, int)
    logs, place = log_softmax(answer), int(answer.argmax())
    return Verdict(
        id=example.id,
        texts=_show_texts(example),
        gold=facts.labels[example.label],
        given=facts.labels[place],
        is_right=place == example.label,
        loss=-float(logs[example.label]),
        confidence=float(np.exp(logs[place])),
    )


def _judge_several(facts: TaskFacts, answer: Any, example: TextExample) -> Verdict:
    assert isinstance(example.label, tuple)
    is_gold = np.isin(np.arange(len(facts.labels)), example.label)
    is_given = answer > 0
    return Verdict(
        id=example.id,
        texts=_show_texts(example),
        gold=_name_marked(facts, is_gold),
        given=_name_marked(facts, is_given),
        is_right=bool((is_gold == is_given).all()),
        loss=-float(log_expit(np.where(is_gold, answer, -answer)).sum()),
        confidence=float(np.exp(log_expit(np.abs(answer)).sum())),
    )


def _name_marked(facts: TaskFacts, is_marked: Any) -> str:
    names = [name for name, marked in zip(facts.labels, is_marked, strict=True) if marked]
    return ", ".join(names) or NO_LABEL


def _judge_number(facts: TaskFacts, answer: Any, example: TextExample) -> Verdict:
    assert isinstance(example.label, int | float)
    given = float(answer[0])
    distance = abs(given - example.label)
    texts = _show_texts(example)
    return Verdict(example.id, texts, f"{example.label:g}", f"{given:.3f}", distance < _NEAR, distance, None)


def _judge_pairs(
    facts: TaskFacts, answers: Sequence[PairVectors], examples: Sequence[TextExample]
) -> tuple[Verdict, ...]:
    """Similarities have a scale of their own: a pair is as wrong as its rank among all is off, as a share."""
    if any(example.label is None for example in examples):
        return ()
    similarities = np.array([answer.similarity for answer in answers])
    golds = np.array([example.label for example in examples], np.float64)
    gaps = np.abs(rankdata(similarities) - rankdata(golds)) / len(golds)
    return tuple(
        Verdict(
            example.id, _show_texts(example), f"{gold:g}", f"{given:.3f}", bool(gap < _NEAR_RANK), gap, None
        )
        for example, gold, given, gap in zip(
            examples, golds.tolist(), similarities.tolist(), gaps.tolist(), strict=True
        )
    )


def _show_texts(example: TextExample) -> Mapping[str, str]:
    if example.second is None:
        return {"text": example.first}
    return {"first": example.first, "second": example.second}


def _judge_choice(facts: TaskFacts, answer: Any, example: ChoiceExample) -> Verdict:
    assert example.label is not None
    logs, place = log_softmax(answer), int(answer.argmax())
    options = {_letter(number): option for number, option in enumerate(example.options)}
    passage = {"passage": example.passage} if example.passage else {}
    return Verdict(
        id=example.id,
        texts={**passage, "question": example.question, **options},
        gold=f"{_letter(example.label)}: {example.options[example.label]}",
        given=f"{_letter(place)}: {example.options[place]}",
        is_right=place == example.label,
        loss=-float(logs[example.label]),
        confidence=float(np.exp(logs[place])),
    )


def _letter(place: int) -> str:
    return LETTERS[place] if place < len(LETTERS) else str(place)


def _judge_words(
    facts: TaskFacts, answers: Sequence[Any], examples: Sequence[TokenExample]
) -> tuple[Verdict, ...]:
    """A text is as wrong as its worst word, and as sure as its least sure one."""
    kind = build_kind(facts)
    assert isinstance(kind, WordKind)
    verdicts = []
    for answer, example in zip(answers, examples, strict=True):
        golds, given = np.array(example.labels), answer.argmax(-1)
        logs = log_softmax(answer, axis=-1)
        rows = np.arange(len(golds))
        spelled = [
            _show_labels(example, [facts.labels[place] for place in each], has_entities=kind.has_entities)
            for each in (golds, given)
        ]
        verdicts.append(
            Verdict(
                id=example.id,
                texts={"text": " ".join(example.words)},
                gold=spelled[0],
                given=spelled[1],
                is_right=bool((golds == given).all()),
                loss=-float(logs[rows, golds].min()),
                confidence=float(np.exp(logs[rows, given].min())),
            )
        )
    return tuple(verdicts)


def _show_labels(example: TokenExample, labels: Sequence[str], *, has_entities: bool) -> str:
    """The entities with their kinds, where the labels mark some; else every word with its label."""
    if not has_entities:
        return " ".join(f"{word}/{label}" for word, label in zip(example.words, labels, strict=True))
    found = [
        f"{entity.kind}: {' '.join(example.words[entity.start : entity.stop])}"
        for entity in find_entities(labels)
    ]
    return "; ".join(found) or NO_LABEL


def _judge_spans(
    facts: TaskFacts, answers: Sequence[SpanAnswer], examples: Sequence[SpanExample]
) -> tuple[Verdict, ...]:
    scores = score_spans(facts, answers, examples)
    verdicts = []
    for place, (answer, example) in enumerate(zip(answers, examples, strict=True)):
        is_given = scores.is_answered[place]
        golds = dict.fromkeys(gold.text for gold in example.answers)
        verdicts.append(
            Verdict(
                id=example.id,
                texts={"question": example.question, "context": example.context},
                gold=" | ".join(golds) or NO_ANSWER,
                given=answer.best.text if is_given else NO_ANSWER,
                is_right=scores.exact[place] == 1.0,
                loss=1.0 - scores.f1[place],
                confidence=answer.probabilities[0] if is_given else None,
            )
        )
    return tuple(verdicts)


_JUDGES: Mapping[str, Callable[..., Verdict]] = {
    "one": _judge_one,
    "several": _judge_several,
    "number": _judge_number,
    "choices": _judge_choice,
}
_JUDGES_OF_ALL: Mapping[str, Callable[..., tuple[Verdict, ...]]] = {
    "words": _judge_words,
    "spans": _judge_spans,
    "embedding": _judge_pairs,
}
