"""The paper's two claims of figure 1, judged on curves that are made up."""

import numpy as np
import pytest

from albert.study.layers.report import list_findings
from albert.study.layers.states import DISTANCES, ModelCurves, draw_curve

LAYERS = np.arange(24)
SMOOTH, ROUGH = 4 + np.sin(LAYERS / 4), 4 + (-1.0) ** LAYERS
FALLING, GROWING = 4 * 0.9**LAYERS, 1.1**LAYERS


def model(heights, *, sharing="all", jump=0.0):
    """A model that moves every token of five sequences alike; `jump` is what its first layer adds."""
    heights = np.asarray(heights, np.float64) + jump * (np.arange(len(heights)) == 0)
    curve = draw_curve(np.tile(heights, (5, 1)), np.ones(5))
    return ModelCurves(sharing, len(heights), 64, 5, 5, 0.0, dict.fromkeys(DISTANCES, curve))


@pytest.mark.parametrize(
    ("albert", "bert", "verdict"),
    [
        (model(SMOOTH), model(ROUGH, sharing="none"), "agrees"),
        (model(ROUGH), model(SMOOTH, sharing="none"), "disagrees"),
        (model(SMOOTH), model(SMOOTH, sharing="none"), "cannot tell"),
        # Smoother from its second layer on, and rougher with its first: it depends on what one looks at.
        (model(SMOOTH, jump=50.0), model(4 + 0.2 * (-1.0) ** LAYERS, sharing="none"), "cannot tell"),
        (model(SMOOTH), model(ROUGH[:12], sharing="none"), "cannot tell"),
    ],
)
def test_smoother(albert, bert, verdict):
    smoother, _ = list_findings({"albert": albert, "bert": bert})
    assert smoother.verdict == verdict


@pytest.mark.parametrize(
    ("heights", "verdict"),
    [
        (SMOOTH, "agrees"),
        (ROUGH, "agrees"),
        (4 * 0.93 ** LAYERS[:12], "cannot tell"),  # it keeps a level by its thirds, and falls all the time
        (np.full(24, 2.0), "cannot tell"),
        (FALLING, "disagrees"),
        (GROWING, "disagrees"),
        (SMOOTH[:4], "cannot tell"),
    ],
)
def test_oscillates(heights, verdict):
    (smoother, oscillates) = list_findings({"albert": model(heights)})
    assert (smoother.verdict, oscillates.verdict) == ("not asked", verdict)


def test_a_level_is_told_with_its_turn():
    for heights, told in (
        (SMOOTH, "keeps a level with a turn,"),
        (4 * 0.93 ** LAYERS[:12], "without a turn,"),
    ):
        assert told in list_findings({"albert": model(heights)})[1].ours


def test_an_interval_over_two_courses_cannot_tell():
    # Three sequences settle and two keep their level: their mean settles, but not in every draw.
    heights = np.stack([FALLING] * 3 + [np.full(24, 0.8)] * 2)
    curve = draw_curve(heights, np.ones(5))
    found = ModelCurves("all", 24, 64, 5, 5, 0.0, dict.fromkeys(DISTANCES, curve))
    assert curve.course == "settles"
    assert list_findings({"albert": found})[1].verdict == "cannot tell"


def test_what_is_neither_is_not_asked():
    findings = list_findings(
        {"half": model(SMOOTH, sharing="attention"), "bert": model(ROUGH, sharing="none")}
    )
    assert [finding.verdict for finding in findings] == ["not asked", "not asked"]
    assert "No ALBERT" in findings[0].ours
