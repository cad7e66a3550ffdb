"""Claims are judged by intervals over seeds, and what was not measured is told as that."""

import math

import pytest

from albert.study.arms.plan import ArmSettings, ClaimSettings, StudySettings
from albert.study.arms.report import judge_claim
from albert.study.arms.results import ArmResult, ArmSummary


def summarise(arm: str, *accuracies: float, name: str = "sop_accuracy") -> ArmSummary:
    results = {
        seed: ArmResult(
            arm=arm, seed=seed, num_parameters=1, num_encoder_parameters=1, num_steps=1, num_tokens=1,
            seconds=1.0, figures={name: accuracy}, errors={}, scores={}, curve=(), num_threads=1,
        )
        for seed, accuracy in enumerate(accuracies)
    }  # fmt: skip
    return ArmSummary(arm, results, {})


def judge(summaries, **claim):
    arms = {name: ArmSettings() for name in ("sop", "nsp")}
    settings = StudySettings(title="t", paper="p", question="q", arms=arms, base="sop")
    made = ClaimSettings(text="so it is", by=("sop_accuracy",), **claim)
    return judge_claim(made, settings, {each.arm: each for each in summaries})


@pytest.mark.parametrize(
    ("accuracies", "verdict"),
    [((0.80, 0.81, 0.82), "agrees"), ((0.5, 0.9, 0.7), "cannot tell"), ((0.44, 0.45, 0.46), "disagrees")],
)
def test_an_arm_is_compared_with_chance(accuracies, verdict):
    found = judge([summarise("sop", *accuracies)], better="sop", than=50.0, paper=36.5)
    assert found.verdict == verdict
    assert found.theirs == "+36.5 points (sentence order right)"
    assert found.ours.startswith("sentence order right, sop against 50: ")


@pytest.mark.parametrize(
    ("accuracies", "verdict"),
    [((0.52, 0.51, 0.53), "agrees"), ((0.49, 0.55, 0.52), "cannot tell"), ((0.6, 0.61, 0.6), "disagrees")],
)
def test_near_chance_means_within_a_margin_of_it(accuracies, verdict):
    found = judge([summarise("nsp", *accuracies)], better="nsp", than=50.0, is_equal=True, margin=5.0)
    assert found.verdict == verdict
    assert found.theirs == "no difference"


def test_what_is_missing_is_told_as_it_is():
    done, waiting = summarise("sop", 0.8), ArmSummary("nsp", {}, {})
    assert judge([done, waiting], better="sop", than="nsp").ours == "not finished: nsp"
    other = summarise("nsp", 0.5, name="mlm_accuracy")
    found = judge([done, other], better="sop", than="nsp")
    assert (found.ours, found.verdict) == ("sentence order right: not measured", "not asked")


def test_where_less_is_better_the_figure_itself_is_told():
    arms = {name: ArmSettings() for name in ("all", "none")}
    settings = StudySettings(title="t", paper="p", question="q", arms=arms, base="all")
    claim = ClaimSettings(text="Sharing keeps them closer", better="all", than="none", by=("gap",))
    gaps = {"all": (0.10, 0.11, 0.12), "none": (0.30, 0.31, 0.33)}
    found = judge_claim(claim, settings, {arm: summarise(arm, *gaps[arm], name="gap") for arm in gaps})
    assert found.verdict == "agrees"
    assert found.ours == (
        "held-out loss above training loss, all against none: -0.20, 95% from -0.22 to -0.19 (3 seeds, "
        "p < 0.001); less is better"
    )


def test_a_run_that_diverged_leaves_nothing_to_tell():
    found = judge([summarise("sop", 0.8, math.nan, 0.8)], better="sop", than=50.0)
    assert found.verdict == "cannot tell"
    assert found.ours.endswith("+nan points, no interval")
