"""Answers to questions come in; the files that SQuAD's official scripts and leaderboards take go out."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from albert.errors import InputError
from albert.files import write_text
from albert.tasks.examples import SpanExample
from albert.tasks.kinds.span_answers import NO_SPAN, SpanAnswer
from albert.tasks.kinds.spans import SpanKind

PREDICTIONS_NAME = "predictions.json"
BEST_NAME = "nbest_predictions.json"
ODDS_NAME = "null_odds.json"


def write_squad_files(
    folder: Path, answers: Sequence[SpanAnswer], *, examples: Sequence[SpanExample], kind: SpanKind
) -> list[Path]:
    """Write the answers, the best spans of each and, of 2.0, the odds for no answer, all under question ids.

    The answers are those under the kind's threshold, `""` where there is none. If the official script is to
    search for the best threshold, write them without one and give it the odds with `--na-prob-file`. Refused:
    an id that two questions have.
    """
    ids = _check_ids(examples)
    threshold = kind.threshold if kind.has_impossible else None
    values: dict[str, dict[str, Any]] = {
        BEST_NAME: {name: _list_best(answer) for name, answer in zip(ids, answers, strict=True)}
    }
    if kind.has_impossible:
        values[ODDS_NAME] = {name: answer.null_odds for name, answer in zip(ids, answers, strict=True)}
    # Last, since who waits for it takes it as the sign that all are there.
    values[PREDICTIONS_NAME] = {
        name: answer.choose(threshold).text for name, answer in zip(ids, answers, strict=True)
    }
    for name, value in values.items():
        # In ASCII, as the published code writes them: a context may hold half a surrogate pair.
        write_text(folder / name, json.dumps(value, indent=2) + "\n")
    return [folder / name for name in values]


def _list_best(answer: SpanAnswer) -> list[dict[str, Any]]:
    """The spans with their share of the probability; at least one, as the published code has it."""
    rows = zip(answer.spans or (NO_SPAN,), answer.probabilities or (1.0,), strict=True)
    return [
        {
            "text": span.text,
            "probability": probability,
            "score": span.score,
            "start": span.start,
            "end": span.end,
        }
        for span, probability in rows
    ]


def _check_ids(examples: Sequence[SpanExample]) -> list[str]:
    seen: set[str] = set()
    for example in examples:
        if example.id in seen:
            raise InputError(
                f"two questions have the id {example.id!r}, and the files hold one answer for each id; "
                "give every question its own"
            )
        seen.add(example.id)
    return [example.id for example in examples]
