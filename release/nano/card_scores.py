"""The card's tables of scores on held-out books, at every depth."""

from collections.abc import Mapping, Sequence
from typing import Any

from albert.report.content import Cell, Chart, Column, Section, Series, Table
from release.nano.card_run import format_share
from release.nano.score import list_depths

_TEXTS = {"passages": "passages of whole paragraphs", "windows": "windows from anywhere"}
_FIGURES = {
    "mlm_loss": "masked words, loss",
    "mlm_accuracy": "masked words, right",
    "sop_accuracy": "order of two segments, right",
    "nsp_accuracy": "next segment or not, right",
}


def describe_scores(scores: Mapping[str, Any]) -> list[Section]:
    """What it knows of books that it has not seen, and what each loop adds."""
    unigram = scores["unigram_loss"]
    known = "" if unigram is None else f" Knowing only how frequent pieces are gives a loss of {unigram:.3f}."
    held_out = Section(
        "Held-out books",
        paragraphs=[
            f"{scores['num_examples']:,} examples of up to {scores['max_length']} pieces, "
            f"{scores['mask_share']:.0%} of them masked; means with 95% intervals.{known} The head "
            "was trained on order; the question about the next segment is put to the same head.",
        ],
        tables=[_tabulate(scores)],
        code="albert evaluate pretraining --model nano --data DIR/held-out "
        f"--examples {scores['num_examples']} max_length={scores['max_length']}\n"
        "python -m release.nano score --run RUN --held-out DIR/held-out --windows DIR/windows "
        f"--examples {scores['num_examples']} --out scores.json",
    )
    depths = list_depths(dict(scores))
    return [held_out, _describe_depths(depths, scores["num_layers"])] if depths else [held_out]


def _tabulate(scores: Mapping[str, Any]) -> Table:
    columns = [Column("text"), Column("question"), *(Column(name, is_number=True) for name in
               ("mean", "95% interval", "answers"))]  # fmt: skip
    rows = [
        [Cell(_TEXTS[text]), Cell(name), *_list_cells(scores["parts"][text][key], is_share=key != "mlm_loss")]
        for text in _TEXTS
        if text in scores["parts"]
        for key, name in _FIGURES.items()
        if key in scores["parts"][text]
    ]
    return Table("held-out", columns, rows)


def _list_cells(score: Mapping[str, Any], *, is_share: bool) -> list[Cell]:
    form = "{:.1%}" if is_share else "{:.3f}"
    low, high = score["interval"] or (None, None)
    interval = "" if low is None else f"{form.format(low)} – {form.format(high)}"
    return [
        Cell(form.format(score["mean"]), score["mean"], low, high),
        Cell(interval),
        Cell(f"{score['count']:,}", score["count"]),
    ]


def _describe_depths(depths: Sequence[tuple[int, Mapping[str, Any]]], num_layers: int) -> Section:
    """One block is looped, so the depth is chosen when the model is used."""
    columns = [Column(name, is_number=True) for name in ("loops", "word loss", "words", "order")]
    rows = [
        [
            Cell(str(depth), depth),
            Cell(f"{part['mlm_loss']['mean']:.3f}", part["mlm_loss"]["mean"]),
            format_share(part["mlm_accuracy"]["mean"]),
            format_share(part["sop_accuracy"]["mean"] if "sop_accuracy" in part else None),
        ]
        for depth, part in depths
    ]
    strong = [place for place, (depth, _) in enumerate(depths) if depth == num_layers]
    xs = [float(depth) for depth, _ in depths]
    chart = Chart(
        "depth", "Words, by the number of loops", "loops of the block", "right words, %",
        [Series("held-out books", xs, [100.0 * part["mlm_accuracy"]["mean"] for _, part in depths])],
        caption=f"From {rows[0][2].text} with one loop to {rows[strong[0]][2].text} with {num_layers}.",
    )  # fmt: skip
    return Section(
        "The depth dial",
        paragraphs=["All layers are one block, so the same weights run with fewer loops, or more; bold: as "
                    "trained. `albert.load(\"nano\").fill_mask(texts, depth=3)`"],
        tables=[Table("depths", columns, rows, strong_rows=strong)],
        charts=[chart],
    )  # fmt: skip
