"""The rounds of the fine-tuning benchmark: both sides get the same sentences, padded as a real epoch is."""

from collections import Counter

import pytest

from bench.finetuning import NUM_BATCHES, ROUNDS, SIDES, build_rounds
from bench.sentiment import (
    BATCH_SIZE,
    MAX_LENGTH,
    Row,
    Sentences,
    draw_rows,
    group_by_length,
    measure_padding,
    shuffle,
    split_rounds,
)


@pytest.fixture(scope="module")
def drawn() -> Sentences:
    return Sentences(draw_rows("train"), draw_rows("dev"), "drawn")


def test_drawn_rows_are_padded_like_sst_2(drawn):
    """Of SST-2 in the published vocabulary: 14.3 and 28.0 pieces a sentence, and 3.10 and 1.05 in epochs."""
    for rows, mean in ((drawn.train, 14.3), (drawn.dev, 28.0)):
        assert sum(len(row.ids) for row in rows) / len(rows) == pytest.approx(mean, rel=0.02)
    assert measure_padding(shuffle(drawn.train), batch_size=BATCH_SIZE) == pytest.approx(3.10, rel=0.05)
    assert measure_padding(group_by_length(drawn.train), batch_size=BATCH_SIZE) == pytest.approx(
        1.05, rel=0.02
    )


def test_padding_by_hand():
    rows = [Row((1,) * length, 0) for length in (1, 3, 2, 2)]
    assert measure_padding(rows, batch_size=2) == (2 * 3 + 2 * 2) / 8
    assert measure_padding(rows, batch_size=2, is_full=True) == 4 * MAX_LENGTH / 8


def test_rounds_are_spread_over_the_rows():
    rows = [Row((place,), 0) for place in range(50 * BATCH_SIZE)]
    found = split_rounds(rows, num_rounds=2, num_batches=2)
    starts = [[part[i].ids[0] // BATCH_SIZE for i in range(0, len(part), BATCH_SIZE)] for part in found]
    assert starts == [[6, 43], [18, 31]]  # of quarters the middles; the first round gets the outer ones


@pytest.mark.parametrize("task", SIDES)
def test_each_side_has_the_sentences_that_ours_has(drawn, task):
    rounds = build_rounds(drawn, task)
    for name, number in NUM_BATCHES[task].items():
        assert [len(part) for part in rounds[name]] == [number * BATCH_SIZE] * ROUNDS
    for side in SIDES[task]:
        if not side.is_ours and not side.is_full:
            mine, theirs = (
                Counter(row.ids for part in rounds[name] for row in part)
                for name in (side.against, side.rounds)
            )
            assert mine == theirs
