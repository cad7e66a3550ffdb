"""No-answer thresholds of SQuAD 2.0: the official search, and ours."""

import json
import math
import random

import pytest

from albert.errors import InputError
from albert.tasks.metrics.squad import (
    ANSWER_NOTHING,
    apply_threshold,
    choose_threshold,
    find_best_thresholds,
    report_elsewhere,
    score_questions,
    summarize_squad,
)

from . import official_squad as official


def draw_questions(rng, *, odds):
    """Draw up to 25 questions; few different odds make many ties."""
    predictions = [official.draw_answer(rng) for _ in range(rng.randint(1, 25))]
    golds = [
        official.draw_golds(rng, prediction=text, least=1) if rng.random() < 0.6 else []
        for text in predictions
    ]
    return predictions, golds, [rng.choice(odds) for _ in predictions]


def build_part(predictions, golds, null_odds):
    return score_questions(predictions, golds=golds, version="2.0", null_odds=null_odds)


def build_script(predictions, golds, null_odds):
    names = range(len(predictions))
    return official.SecondVersion(
        *(dict(zip(names, v, strict=True)) for v in (golds, predictions, null_odds))
    )


@pytest.mark.parametrize("odds", [[-1.5, -0.25, 0.0, 0.5], [k / 64 - 3 for k in range(400)], [0.0]])
def test_best_scores_and_thresholds_equal_the_official_ones(odds):
    rng = random.Random(len(odds))
    thresholds_seen = set()
    for _ in range(500):
        questions = draw_questions(rng, odds=odds)
        best, script = find_best_thresholds(build_part(*questions)), build_script(*questions)
        assert (best.best_exact, best.best_exact_thresh) == script.best("exact")
        assert (best.best_f1, best.best_f1_thresh) == script.best("f1")
        thresholds_seen.add(best.best_f1_thresh)
    assert len(thresholds_seen) >= min(len(odds), 4)


def test_scores_under_a_threshold_equal_the_official_ones():
    rng = random.Random(5)
    odds = [-1.0, -0.5, 0.0, 0.5, 1.0]
    for _ in range(500):
        questions = draw_questions(rng, odds=odds)
        threshold = rng.choice([*odds, 0.25, -9.0, 9.0])
        scores = summarize_squad(apply_threshold(build_part(*questions), threshold))
        assert official.name_scores(scores) == build_script(*questions).report(threshold)


@pytest.mark.parametrize("measure", ["exact", "f1"])
def test_the_chosen_threshold_is_the_best_that_answers_least(measure):
    rng = random.Random(6)
    num_nothing = 0
    for _ in range(500):
        odds = [-3.0, -2.0, -1.0, 1.0] if rng.random() < 0.5 else [k / 64 - 3 for k in range(400)]
        predictions, golds, null_odds = draw_questions(rng, odds=odds)
        script = build_script(predictions, golds, null_odds)
        reachable = {level: script.report(level)[measure] for level in {ANSWER_NOTHING, *null_odds}}
        best = max(reachable.values())
        as_good = [level for level, score in reachable.items() if score > best - 1e-7]
        chosen = choose_threshold(build_part(predictions, golds, null_odds), measure=measure)
        answered = [level for level in null_odds if level <= chosen]
        assert max(answered, default=ANSWER_NOTHING) == min(as_good)
        num_nothing += chosen == ANSWER_NOTHING
    assert 0 < num_nothing < 450


def test_a_threshold_lies_between_the_odds():
    """Small changes of the odds change no prediction."""
    golds, odds = [["x"], ["y"], []], [-1.0, 0.5, 2.0]
    chosen = choose_threshold(build_part(["x", "y", "z"], golds, odds))
    assert chosen == 1.25
    moved = build_part(["x", "y", "z"], golds, [level + 1e-6 for level in odds])
    assert apply_threshold(moved, chosen).is_answered.tolist() == [True, True, False]
    assert choose_threshold(build_part(["x"], [["x"]], [0.5])) == pytest.approx(0.51)
    assert choose_threshold(build_part(["x"], [["x"]], [-300.0])) == pytest.approx(-297.0)
    # Neighboring floats have no middle.
    for low in (1.0, math.nextafter(1.0, 2.0)):
        neighbors = build_part(["x", "y"], [["x"], []], [low, math.nextafter(low, 2.0)])
        assert choose_threshold(neighbors) == low


def test_the_official_search_may_promise_unreachable_scores():
    # Two questions of equal odds: the script stops between them, and applies its threshold to both.
    tied = build_part(["x", "y"], [["x"], []], [0.5, 0.5])
    best = find_best_thresholds(tied)
    assert (best.best_f1, best.best_f1_thresh) == (100.0, 0.5)
    assert summarize_squad(apply_threshold(tied, 0.5)).overall.f1 == 50.0
    # All answers wrong and all odds below 0: the script says 0, which answers everything.
    wrong = build_part(["x", "y"], [[], []], [-2.0, -1.0])
    assert find_best_thresholds(wrong).best_f1_thresh == 0.0
    assert summarize_squad(apply_threshold(wrong, 0.0)).overall.f1 == 0.0
    assert choose_threshold(wrong) == ANSWER_NOTHING
    assert summarize_squad(apply_threshold(wrong, ANSWER_NOTHING)).overall.f1 == 100.0
    assert json.loads(json.dumps(ANSWER_NOTHING, allow_nan=False)) == ANSWER_NOTHING


def test_a_threshold_is_scored_on_other_questions():
    chosen_on = build_part(["x", "y", "z"], [["x"], [], ["z"]], [-1.0, 2.0, 1.0])
    reported = build_part(["x", "y", "z"], [["x"], [], ["z"]], [-1.0, 0.5, 1.75])
    outcome = report_elsewhere(reported, chosen_on=chosen_on)
    assert outcome.threshold == 1.5
    assert outcome.scores.overall.f1 == pytest.approx(100 / 3)
    assert summarize_squad(apply_threshold(reported, 1.75)).overall.f1 == pytest.approx(200 / 3)


def test_invalid_odds_are_rejected():
    for odds, value in (([0.0, float("nan")], "question 1 is nan"), ([0.0], "1 .* 2")):
        with pytest.raises(InputError, match=value):
            build_part(["x", "y"], [["x"], ["y"]], odds)
