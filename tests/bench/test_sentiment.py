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
    measure_padding,
)


@pytest.fixture(scope="module")
def drawn() -> Sentences:
    return Sentences(draw_rows("train"), draw_rows("dev"), "drawn")


def test_padding_by_hand():
    rows = [Row((1,) * length, 0) for length in (1, 3, 2, 2)]
    assert measure_padding(rows, batch_size=2) == (2 * 3 + 2 * 2) / 8
    assert measure_padding(rows, batch_size=2, is_full=True) == 4 * MAX_LENGTH / 8


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
