"""The card's section with all answers of the model, the bad ones too."""

from collections.abc import Mapping
from typing import Any

from albert.report.content import Cell, Column, Section, Table


def describe_answers(answers: Mapping[str, Any]) -> list[Section]:
    """Masked sentences and pairs, with the right answers beside."""
    masks, pairs = answers["masks"], answers["pairs"]
    chosen = "chosen before the model was trained; none was changed or left out afterwards"
    return [
        Section(
            f"{len(masks)} masked sentences",
            paragraphs=[
                f"Written for this card, and {chosen}. Of {len(masks)}, a word that was expected comes first "
                f"in {answers['num_first']} and is among the first five in {answers['num_among']}."
            ],
            tables=[_tabulate_masks(answers)],
        ),
        Section(
            f"{len(pairs)} pairs of sentences",
            paragraphs=[
                f"Half of them are swapped; also {chosen}. Right: {answers['num_right']} of {len(pairs)}. "
                "Such short pairs are harder than the segments that it was trained on."
            ],
            tables=[_tabulate_pairs(answers)],
        ),
    ]


def _tabulate_masks(answers: Mapping[str, Any]) -> Table:
    columns = [Column("sentence"), Column("expected"), Column("it says"), Column("rank", is_number=True,
               hint="of the likeliest expected word among all pieces")]  # fmt: skip
    rows = [
        [
            Cell(mask["text"]),
            Cell(", ".join(mask["expected"])),
            Cell(
                ", ".join(f"{guess['text'] or '▁'} {guess['probability']:.0%}" for guess in mask["guesses"])
            ),
            Cell("" if mask["rank"] is None else f"{mask['rank']:,}", mask["rank"]),
        ]
        for mask in answers["masks"]
    ]
    return Table("masks", columns, rows)


def _tabulate_pairs(answers: Mapping[str, Any]) -> Table:
    columns = [Column("first"), Column("second"), Column("they are"),
               Column("it says in order", is_number=True), Column("right")]  # fmt: skip
    rows = [
        [
            Cell(pair["first"]),
            Cell(pair["second"]),
            Cell("swapped" if pair["is_swapped"] else "in order"),
            Cell(f"{pair['in_order']:.0%}", pair["in_order"]),
            Cell("yes" if pair["is_right"] else "no"),
        ]
        for pair in answers["pairs"]
    ]
    return Table("pairs", columns, rows)
