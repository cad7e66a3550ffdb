"""The speed study: a real round of a tiny model; ratios and outcomes of given times."""

import pytest

from albert.errors import AlbertError
from albert.model.config import count_parameters
from albert.progress import NullReporter
from albert.report.write import write_page
from albert.settings import build_settings
from albert.study import step_costs
from albert.study.memory import MemorySettings, run_memory
from albert.study.speed import (
    MODEL,
    OPTIMIZER,
    STEP,
    ShapeSpeed,
    SpeedRound,
    SpeedSettings,
    build_speed_page,
    measure_round,
    run_speed,
)
from albert.study.step_costs import DoesNotFitError, Footprint, build_pair
from tests.study.conftest import TOY_PAIR, count_by_hand, find_findings, find_table


def made_up(shape="base", *, albert=(1.0, 1.1, 0.9), bert=(1.2, 1.1, 1.8)):
    """Rounds in which both optimizers take a tenth of a second and the passes what is given."""
    pair = build_pair(shape)

    def step(family, seconds):
        size = count_parameters(pair[family]).total
        return Footprint(10**9, seconds, 0.1, 1024, size, inference_seconds=seconds / 3)

    rounds = [
        SpeedRound({"ALBERT": step("ALBERT", one), "BERT": step("BERT", other)})
        for one, other in zip(albert, bert, strict=True)
    ]
    return ShapeSpeed(shape, pair, tuple(rounds))


def measure_as_given(request):
    return Footprint(1, 1.0, 1.0, 1, count_parameters(request.config).total, inference_seconds=0.5)


def test_a_round_is_measured_once_and_kept(tmp_path, monkeypatch):
    settings = SpeedSettings(**TOY_PAIR, batch_size=2, num_rounds=1, num_passes=1)
    monkeypatch.setattr(step_costs, "measure_footprint", measure_as_given)
    page = run_speed(settings, out=tmp_path / "out", reporter=NullReporter())
    times = find_table(page, "times")
    named = [(row[0].text, row[1].value) for row in times.rows]
    assert named == list(zip(("ALBERT nano", "BERT nano"), count_by_hand(), strict=True))
    monkeypatch.setattr(step_costs, "measure_footprint", None)  # nothing is measured again
    again = run_speed(settings, out=tmp_path / "out", reporter=NullReporter())
    assert find_table(again, "times").rows == times.rows
    other = settings.model_copy(update={"batch_size": 3})
    with pytest.raises(AlbertError, match="batch_size.* 3 .* 2"):
        run_speed(other, out=tmp_path / "out", reporter=NullReporter())


def test_sides_take_turns(monkeypatch):
    asked = []

    def measure(request):
        asked.append(request.config.sharing)
        return Footprint(1, 1.0, 1.0, 1)

    monkeypatch.setattr(step_costs, "measure_footprint", measure)
    settings = SpeedSettings(**TOY_PAIR)
    for number in range(3):
        measure_round(settings.build_pairs()["nano"], settings=settings, number=number)
    assert asked == ["all", "none", "none", "all", "all", "none"]


def test_a_ratio_is_the_median_of_the_rounds_own():
    found = made_up()
    ratio = found.find_ratio(MODEL)  # 1.2, 1.0 and 2.0
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((1.2, 1.0, 2.0))
    assert found.find_ratio(STEP).low == pytest.approx(1.0)
    assert found.find_ratio(OPTIMIZER).value == 1.0
    assert found.find_median("BERT", STEP) == pytest.approx(1.3)


@pytest.mark.parametrize(
    ("bert", "faster", "less_work"),
    [
        ((1.5, 1.6, 1.4), "agrees", "agrees"),
        ((1.0, 1.1, 1.8), "inconclusive", "inconclusive"),  # by the median there is no less work
        ((1.0, 1.1, 0.9), "inconclusive", "disagrees"),
        ((0.9, 1.0, 0.8), "disagrees", "disagrees"),
        ((1.04, 1.13, 0.94), "agrees", "disagrees"),
        ((1.5, 1.1, 1.4), "inconclusive", "inconclusive"),
        ((1.5, 1.6), "inconclusive", "inconclusive"),  # two rounds are too few
    ],
)
def test_verdicts_follow_from_the_times(bert, faster, less_work):
    found = [made_up(albert=(1.0, 1.1, 0.9)[: len(bert)], bert=bert)]
    page = build_speed_page(found, settings=SpeedSettings(), machine="A machine")
    base, large, computations, communication = find_findings(page)
    assert (base.outcome, large.outcome) == (faster, "not tested")
    assert (computations.outcome, communication.outcome) == (less_work, "agrees")


def test_the_papers_figures_stand_beside_ours(tmp_path):
    shapes = [made_up("nano"), made_up("base"), made_up("large", bert=(2.0, 2.0, 2.0))]
    page = build_speed_page(shapes, settings=SpeedSettings(), machine="A machine")
    ratios = find_table(page, "ratios")
    paper = [row[1].value for row in ratios.rows]
    assert paper[0] is None
    assert paper[1:] == pytest.approx([5.6 / 4.7, 1.7])
    column = find_table(page, "column")
    assert column.columns[2].name == "here, BERT large = 1"
    assert [(row[1].value, row[2].value) for row in column.rows][-1] == (1.0, 1.0)
    assert page.charts[0].series[-1].is_reference
    write_page(tmp_path, page)


def test_what_does_not_fit_is_reported_and_the_rest_continues(monkeypatch, tmp_path):
    def measure(request):
        if request.config.num_hidden_layers == 12 and request.config.sharing == "none":
            raise DoesNotFitError("its steps need more memory than there is")
        return Footprint(10**9, 1.0, 0.1, 1024, 5, inference_seconds=0.3)

    monkeypatch.setattr(step_costs, "measure_footprint", measure)
    settings = SpeedSettings(shapes=("nano", "base"), num_rounds=1)
    page = run_speed(settings, out=tmp_path, reporter=NullReporter())
    assert [row[0].text for row in find_table(page, "ratios").rows] == ["nano"]
    page = run_speed(settings.model_copy(update={"shapes": ("base",)}), out=tmp_path, reporter=NullReporter())
    assert not page.charts
    write_page(tmp_path / "page", page)


@pytest.mark.parametrize(
    ("build", "run", "changes", "said"),
    [
        (SpeedSettings, run_speed, {"shapes": ["huge"]}, "shapes.0.*'huge'"),
        (SpeedSettings, run_speed, {"rounds": 1}, "num_rounds"),
        (SpeedSettings, run_speed, {"length": 600}, "length.* 600.* 512"),
        (MemorySettings, run_memory, {"batch_sizes": [0]}, "batch_sizes.0.* 0"),
        (MemorySettings, run_memory, {"optimizer": "sgd"}, "optimizer.*'sgd'"),
    ],
)
def test_mistakes_are_rejected(build, run, changes, said, tmp_path):
    with pytest.raises(AlbertError, match=said):
        run(build_settings(build, values=changes), out=tmp_path / "out", reporter=NullReporter())
    assert not (tmp_path / "out").exists()
