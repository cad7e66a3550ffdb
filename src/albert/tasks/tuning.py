"""Answers to examples that were not learned from come in; a temperature or a threshold goes out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albert.tasks.examples import ChoiceExample, Example, SpanExample, TextExample, TokenExample, list_places
from albert.tasks.kinds.span_scores import build_part
from albert.tasks.metrics.calibration import fit_temperature
from albert.tasks.metrics.multilabel import mark_labels
from albert.tasks.metrics.squad_threshold import choose_threshold
from albert.tasks.task_facts import TaskFacts

_NEVER = -1e9  # the logit of an option that a question does not have
Table = NDArray[np.float64]


def tune_facts(facts: TaskFacts, answers: Sequence[Any], examples: Sequence[Example]) -> TaskFacts:
    """The facts with what only answers can tell: how sure the model may be, or when it should be silent."""
    if facts.kind == "spans":
        if not facts.has_impossible:
            return facts
        spans = [example for example in examples if isinstance(example, SpanExample)]
        return facts.model_copy(update={"threshold": _choose_threshold(answers, spans)})
    found = list_logits(facts, answers, examples)
    if found is None:
        return facts
    logits, golds = found
    return facts.model_copy(update={"temperature": fit_temperature(logits, golds=golds)})


def _choose_threshold(answers: Sequence[Any], examples: Sequence[SpanExample]) -> float:
    """The best threshold; of questions of one kind the head's own, since the best would tell none apart."""
    if len({example.is_impossible for example in examples}) == 1:
        return 0.0
    return choose_threshold(build_part(answers, examples))


def list_logits(
    facts: TaskFacts, answers: Sequence[Any], examples: Sequence[Example]
) -> tuple[Table, NDArray[np.int64]] | None:
    """Every decision between classes as a row of logits, and the right class of each; None: there is none.

    Labels that are decided one by one are rows of two logits: 0 and the label's own.
    """
    if facts.label_kind == "number" or facts.kind not in ("texts", "words", "choices"):
        return None
    if facts.kind == "choices":
        labels = [example.label for example in examples if isinstance(example, ChoiceExample)]
        width = max(len(answer) for answer in answers)
        rows = [np.pad(answer, (0, width - len(answer)), constant_values=_NEVER) for answer in answers]
        return np.stack(rows), np.array(labels, dtype=np.int64)
    if facts.kind == "words":
        words = [label for each in examples if isinstance(each, TokenExample) for label in each.labels or ()]
        return np.concatenate(answers), np.array(words, dtype=np.int64)
    golds = [example.label for example in examples if isinstance(example, TextExample)]
    logits = np.stack(answers)
    if facts.label_kind == "one":
        return logits, np.array(golds, dtype=np.int64)
    marks = mark_labels([list_places(gold) for gold in golds], num_labels=logits.shape[1])
    flat = logits.ravel()
    return np.stack([np.zeros_like(flat), flat], axis=1), marks.ravel().astype(np.int64)
