"""Questions and what models said to them come in; tables that a person reads go out."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from albert.app.quickstart.result import QuickstartResult
from albert.report.content import Cell, Column, Table
from albert.study.cells import MISSING, text_cell

if TYPE_CHECKING:
    from albert.inference.predictor import Candidate


def tabulate_masks(result: QuickstartResult) -> Table:
    """A row for each sentence with a mask: what stood there, and the best guesses of each model."""
    models = [name for name, answers in result.answers.items() if answers.guesses is not None]
    columns = [Column("sentence"), Column("the word"), *(Column(name) for name in models)]
    rows = [
        [
            text_cell(mask.text),
            text_cell(mask.word),
            *(_show_guesses(result.answers[name].guesses, number, mask.word) for name in models),
        ]
        for number, mask in enumerate(result.masks)
    ]
    return Table(
        "masked-words", columns, rows, note="The likeliest pieces, and how likely the model finds them."
    )


def _show_guesses(guesses: "Sequence[Sequence[Candidate]] | None", number: int, word: str) -> Cell:
    if guesses is None:
        return MISSING
    shown = (
        f"{'✓ ' if guess.text == word else ''}{guess.text or '▁'} {guess.probability:.0%}"
        for guess in guesses[number]
    )
    return text_cell(" · ".join(shown))


def tabulate_orders(result: QuickstartResult) -> Table:
    """A row for each pair of sentences: how it was shown, and what each model takes it for."""
    models = [name for name, answers in result.answers.items() if answers.in_order is not None]
    columns = [Column("first"), Column("second"), Column("shown"), *(Column(name) for name in models)]
    rows = [
        [
            text_cell(pair.first),
            text_cell(pair.second),
            text_cell("swapped" if pair.is_swapped else "in order"),
            *(_show_order(result.answers[name].in_order, number, pair.is_swapped) for name in models),
        ]
        for number, pair in enumerate(result.orders)
    ]
    return Table(
        "sentence-order", columns, rows, note="What a model takes a pair for, and how sure it is of that."
    )


def _show_order(in_order: Sequence[float] | None, number: int, is_swapped: bool) -> Cell:
    if in_order is None:
        return MISSING
    share = in_order[number]
    word, sure = ("in order", share) if share >= 0.5 else ("swapped", 1.0 - share)
    verdict = "right" if (share < 0.5) == is_swapped else "wrong"
    return text_cell(f"{word} ({sure:.0%}): {verdict}")
