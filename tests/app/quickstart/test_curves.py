"""The chart of sentence order: a share of few pairs comes with its interval, and with what it says."""

from dataclasses import replace
from pathlib import Path

from albert.app.quickstart.curves import draw_order, draw_series
from albert.app.quickstart.pretraining import Point, PretrainingResult


def build_result(*shares: float, num_asked: int) -> PretrainingResult:
    start, *later = [Point(step, {"sop_accuracy": share}) for step, share in enumerate(shares)]
    return PretrainingResult(
        run_dir=Path("run"), num_pieces=1000, vocab_size=100, num_parameters=10, num_steps=len(later),
        num_tokens=100, seconds=1.0, unigram_loss=5.0, num_asked=num_asked, resumed_at=(),
        start=start, training=(), held_out=tuple(later),
    )  # fmt: skip


def test_a_few_points_above_a_half_are_not_news_when_few_pairs_were_asked() -> None:
    chart = draw_order(build_result(0.48, 0.55, num_asked=160))
    assert chart is not None
    (series,) = chart.series
    assert series.lows is not None
    assert series.highs is not None
    assert series.lows[-1] < 50 < series.ys[-1] < series.highs[-1]
    assert "can't be told from chance" in chart.told


def test_the_same_share_of_many_pairs_is() -> None:
    chart = draw_order(build_result(0.48, 0.55, num_asked=4000))
    assert chart is not None
    assert "more than chance" in chart.told


def test_clearly_less_than_chance_is_told_as_that() -> None:
    chart = draw_order(build_result(0.48, 0.3, num_asked=160))
    assert chart is not None
    assert chart.told.endswith("The interval of the last is 23 to 38%: that is less than chance.")


def test_a_long_curve_is_thinned_and_keeps_its_ends() -> None:
    line = draw_series("loss", [(step, 0.5 if step else None) for step in range(1000)], scale=100.0)
    assert len(line.xs) <= 201
    assert (line.xs[0], line.xs[-1]) == (1.0, 999.0)
    assert set(line.ys) == {50.0}
    assert list(draw_series("none", []).xs) == []


def test_a_run_with_next_sentences_shows_what_it_was_taught() -> None:
    """At its end it is asked about the order of sentences, too, which is no curve."""
    run = build_result(0.5, num_asked=160)
    points = [Point(0, {"nsp_accuracy": 0.5}), Point(9, {"nsp_accuracy": 0.8, "sop_accuracy": 0.5})]
    chart = draw_order(replace(run, start=points[0], held_out=(points[1],), objective="nsp"))
    assert chart is not None
    assert chart.title == "Whether one piece of text follows another"
    assert chart.told.startswith("Held-out text, 160 pairs: from 50.0% to 80.0%")


def test_without_sentence_order_there_is_no_chart() -> None:
    run = build_result(0.5, num_asked=160)
    bare = replace(run, start=Point(0, {}), held_out=(Point(1, {"mlm_loss": 5.0}),))
    assert draw_order(bare) is None
