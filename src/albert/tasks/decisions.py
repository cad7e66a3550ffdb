"""What models decided on each example: decisions, confusions, scores of classes, and results for a person."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, log_softmax
from scipy.stats import rankdata

from albert.tasks.calibration import list_logits
from albert.tasks.evaluation_result import Verdict
from albert.tasks.examples import ChoiceExample, SpanExample, TextExample, TokenExample
from albert.tasks.kinds.choices import name_option
from albert.tasks.kinds.logits import decide
from albert.tasks.kinds.span_answers import SpanAnswer, score_spans
from albert.tasks.kinds.words import has_entities
from albert.tasks.metrics.classification import (
    ClassScore,
    Confusion,
    count_classes,
    count_confusions,
    count_entities,
    count_labels,
    find_entities,
    mark_labels,
)
from albert.tasks.task_facts import TaskConfig

MAX_CONFUSED = 200  # classes; a larger matrix cannot be shown
ANSWERABLE = ("no answer", "answer")
NO_ANSWER = "(no answer)"
NO_LABEL = "(no label)"
_NEAR = 0.5  # how far a number may be off that counts as right, as in training
_NEAR_RANK = 0.1  # how far the rank of a pair may be off, as a share of all pairs


@dataclass(frozen=True)
class Decisions:
    """One row for each decision: class numbers, zeros and ones of labels, or numbers."""

    given: NDArray[Any]
    golds: NDArray[Any]

    @property
    def is_right(self) -> NDArray[np.float64]:
        """1 where all of a row is right."""
        same = np.asarray(self.given == self.golds, np.float64)
        return same if same.ndim == 1 else same.min(axis=1)


def list_decided(facts: TaskConfig, answers: Sequence[Any], examples: Sequence[Any]) -> Decisions:
    """List the decision on each text, each word of all texts, each question with options, or each pair."""
    if facts.label_kind == "one" and (found := list_logits(facts, answers, examples)) is not None:
        return Decisions(found[0].argmax(1), found[1])
    labels = [example.label for example in examples]
    if facts.kind == "embedding":
        return Decisions(np.array([answer.similarity for answer in answers]), np.array(labels, np.float64))
    given = decide(np.stack(answers), facts.label_kind)
    if facts.label_kind == "several":
        return Decisions(given, mark_labels(labels, num_labels=len(facts.labels)).astype(np.int64))
    return Decisions(given, np.array(labels, np.float64))


def find_confusion(facts: TaskConfig, answers: Sequence[Any], examples: Sequence[Any]) -> Confusion | None:
    """Count which class is taken for which, of texts and words; of questions, whether there is an answer.

    None where there are no classes to confuse, or too many of them.
    """
    if facts.kind == "spans" and facts.has_impossible:
        questions, _ = score_spans(answers, examples, has_impossible=True, threshold=facts.threshold)
        return count_confusions(questions.is_answered, golds=questions.is_answerable, labels=ANSWERABLE)
    if facts.kind not in ("texts", "words") or facts.label_kind != "one" or len(facts.labels) > MAX_CONFUSED:
        return None
    decided = list_decided(facts, answers, examples)
    return count_confusions(decided.given, golds=decided.golds, labels=facts.labels)


def find_classes(
    facts: TaskConfig, answers: Sequence[Any], examples: Sequence[Any]
) -> tuple[ClassScore, ...]:
    """Score each class, each of several labels, or each type of entity."""
    if facts.kind not in ("texts", "words") or facts.label_kind == "number":
        return ()
    names: Sequence[str] = facts.labels
    if facts.kind == "words" and has_entities(facts.labels):
        given = [[facts.labels[place] for place in answer.argmax(-1)] for answer in answers]
        golds = [[facts.labels[place] for place in example.labels] for example in examples]
        names, count = count_entities(given, golds)
        return count(np.ones(len(golds))).list_scores(names)
    decided = list_decided(facts, answers, examples)
    if facts.label_kind == "one":
        count = count_classes(decided.given, decided.golds, num_classes=len(names))
    else:
        count = count_labels(decided.given, decided.golds)
    return count(np.ones(len(decided.golds))).list_scores(names)


def list_verdicts(facts: TaskConfig, answers: Sequence[Any], examples: Sequence[Any]) -> tuple[Verdict, ...]:
    """Describe the result of each example for a person, in their order; none of pairs without numbers."""
    if facts.kind == "spans":
        return _list_spans(facts, answers, examples)
    if facts.kind == "embedding":
        return _list_pairs(answers, examples)
    explainers: dict[str, Callable[..., Verdict]] = {
        "one": _explain_class, "several": _explain_labels, "number": _explain_number,
        "choices": _explain_choice, "words": _explain_words,
    }  # fmt: skip
    explain = explainers[facts.label_kind if facts.kind == "texts" else facts.kind]
    return tuple(explain(facts, answer, example) for answer, example in zip(answers, examples, strict=True))


def _explain_class(facts: TaskConfig, answer: Any, example: TextExample) -> Verdict:
    return _explain_decision(example, _show_texts(example), facts.labels, answer)


def _explain_choice(facts: TaskConfig, answer: Any, example: ChoiceExample) -> Verdict:
    options = {name_option(number): option for number, option in enumerate(example.options)}
    passage = {"passage": example.passage} if example.passage else {}
    names = [f"{letter}: {option}" for letter, option in options.items()]
    return _explain_decision(example, {**passage, "question": example.question, **options}, names, answer)


def _explain_decision(
    example: TextExample | ChoiceExample, texts: dict[str, str], names: Sequence[str], answer: Any
) -> Verdict:
    gold, place, logs = example.label, int(answer.argmax()), log_softmax(answer)
    assert isinstance(gold, int)
    loss, confidence = -float(logs[gold]), float(np.exp(logs[place]))
    return Verdict(example.id, texts, names[gold], names[place], place == gold, loss, confidence)


def _explain_labels(facts: TaskConfig, answer: Any, example: TextExample) -> Verdict:
    assert isinstance(example.label, tuple)
    is_gold = np.isin(np.arange(len(facts.labels)), example.label)
    is_given = answer > 0
    names = np.array(facts.labels, object)
    return Verdict(
        id=example.id,
        texts=_show_texts(example),
        gold=", ".join(names[is_gold]) or NO_LABEL,
        given=", ".join(names[is_given]) or NO_LABEL,
        is_right=bool((is_gold == is_given).all()),
        loss=-float(log_expit(np.where(is_gold, answer, -answer)).sum()),
        confidence=float(np.exp(log_expit(np.abs(answer)).sum())),
    )


def _explain_number(facts: TaskConfig, answer: Any, example: TextExample) -> Verdict:
    assert isinstance(example.label, int | float)
    given = float(answer[0])
    distance = abs(given - example.label)
    texts = _show_texts(example)
    return Verdict(example.id, texts, f"{example.label:g}", f"{given:.3f}", distance < _NEAR, distance, None)


def _explain_words(facts: TaskConfig, answer: Any, example: TokenExample) -> Verdict:
    """A text is as wrong as its worst word, and as sure as its least sure one."""
    golds, given = np.array(example.labels), answer.argmax(-1)
    logs = log_softmax(answer, axis=-1)
    rows = np.arange(len(golds))
    shown = []
    for places in (golds, given):
        labels = [facts.labels[place] for place in places]
        if has_entities(facts.labels):
            found = [f"{e.type}: {' '.join(example.words[e.start : e.stop])}" for e in find_entities(labels)]
            shown.append("; ".join(found) or NO_LABEL)
        else:
            shown.append(
                " ".join(f"{word}/{label}" for word, label in zip(example.words, labels, strict=True))
            )
    return Verdict(
        id=example.id,
        texts={"text": " ".join(example.words)},
        gold=shown[0],
        given=shown[1],
        is_right=bool((golds == given).all()),
        loss=-float(logs[rows, golds].min()),
        confidence=float(np.exp(logs[rows, given].min())),
    )


def _list_pairs(answers: Sequence[Any], examples: Sequence[TextExample]) -> tuple[Verdict, ...]:
    """Similarities have a scale of their own: a pair is as wrong as its rank among all is off, as a share."""
    if any(example.label is None for example in examples):
        return ()
    similarities = np.array([answer.similarity for answer in answers])
    golds = np.array([example.label for example in examples], np.float64)
    gaps = np.abs(rankdata(similarities) - rankdata(golds)) / len(golds)
    rows = zip(examples, golds.tolist(), similarities.tolist(), gaps.tolist(), strict=True)
    return tuple(
        Verdict(each.id, _show_texts(each), f"{gold:g}", f"{given:.3f}", gap < _NEAR_RANK, gap, None)
        for each, gold, given, gap in rows
    )


def _list_spans(
    facts: TaskConfig, answers: Sequence[SpanAnswer], examples: Sequence[SpanExample]
) -> tuple[Verdict, ...]:
    scores, _ = score_spans(answers, examples, has_impossible=facts.has_impossible, threshold=facts.threshold)
    found = []
    for place, (answer, example) in enumerate(zip(answers, examples, strict=True)):
        is_given = bool(scores.is_answered[place])
        golds = dict.fromkeys(gold.text for gold in example.answers)
        found.append(
            Verdict(
                id=example.id,
                texts={"question": example.question, "context": example.context},
                gold=" | ".join(golds) or NO_ANSWER,
                given=answer.best.text if is_given else NO_ANSWER,
                is_right=bool(scores.exact[place] == 1.0),
                loss=1.0 - float(scores.f1[place]),
                confidence=answer.probabilities[0] if is_given else None,
            )
        )
    return tuple(found)


def _show_texts(example: TextExample) -> dict[str, str]:
    if example.second is None:
        return {"text": example.first}
    return {"first": example.first, "second": example.second}
