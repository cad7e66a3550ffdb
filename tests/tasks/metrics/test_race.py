"""RACE's accuracy, overall and per level."""

import random

import pytest

from albert.errors import InputError
from albert.tasks.examples import RaceScores, score_race


def test_overall_counts_questions_and_not_levels():
    scores = score_race([0, 1, 2, 3], golds=[0, 1, 2, 0], levels=["middle", "high", "high", "high"])
    assert scores == RaceScores(accuracy=75.0, middle=100.0, high=pytest.approx(200 / 3))


def test_a_thousand_random_sheets():
    rng = random.Random(1)
    for _ in range(1_000):
        sheet = [
            (rng.randrange(4), rng.randrange(4), rng.choice(["middle", "high"]))
            for _ in range(rng.randint(1, 20))
        ]
        predictions, golds, levels = (list(column) for column in zip(*sheet, strict=True))
        scores = score_race(predictions, golds=golds, levels=levels)
        for level, found in (("middle", scores.middle), ("high", scores.high)):
            own = [p == g for p, g, mine in sheet if mine == level]
            assert found == (pytest.approx(100 * sum(own) / len(own)) if own else None)
        assert scores.accuracy == pytest.approx(100 * sum(p == g for p, g, _ in sheet) / len(sheet))
        perfect = score_race(golds, golds=golds, levels=levels)
        assert {perfect.accuracy, perfect.middle, perfect.high} <= {100.0, None}


def test_another_level_is_refused():
    with pytest.raises(InputError, match="level 'low' of a RACE question"):
        score_race([0, 1], golds=[0, 1], levels=["low", "high"])
    with pytest.raises(InputError, match="1 predictions for 2"):
        score_race([0, 1], golds=[0, 1], levels=["high"])
