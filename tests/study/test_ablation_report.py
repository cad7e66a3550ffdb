"""The report of an ablation study: statistics over seeds, outcomes, tables and charts."""

import math
from dataclasses import replace

import pytest
from scipy.stats import ttest_rel

from albert.study.ablation_report import (
    VariantSummary,
    build_page,
    compare_paired,
    estimate_mean,
    evaluate_claim,
)
from albert.study.plan import StudyPlan
from albert.study.run import CurvePoint, RunResult
from albert.study.settings import ClaimSettings, StudySettings, VariantSettings, read_study
from albert.study.step_costs import Footprint


def test_the_interval_of_three_seeds_is_students():
    found = estimate_mean([1.0, 2.0, 3.0])
    # t(0.975, 2 degrees of freedom) = 4.30265; the standard error is 1 / √3.
    assert found.mean == 2.0
    assert found.high == pytest.approx(2.0 + 4.302653 / 3**0.5, abs=1e-5)
    assert found.low == pytest.approx(2.0 - 4.302653 / 3**0.5, abs=1e-5)
    assert found.spread == 1.0


def test_one_seed_has_no_interval():
    found = estimate_mean([5.0])
    assert (found.mean, found.low, found.high, found.spread) == (5.0, None, None, None)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_seed_that_diverged_takes_the_interval_with_it(value):
    found = estimate_mean([1.0, value, 2.0])
    assert (found.low, found.high, found.spread) == (None, None, None)
    compared = compare_paired({0: 1.0, 1: value}, base={0: 1.0, 1: 1.0})
    assert compared is not None
    assert (compared.low, compared.p_value) == (None, None)


def test_pairs_are_compared_seed_by_seed():
    # Both variants vary far more between seeds than they differ: paired, the difference is plain.
    base = {0: 10.0, 1: 50.0, 2: 90.0, 3: 30.0}
    ours = {0: 11.0, 1: 51.1, 2: 90.9, 3: 31.0, 4: 99.0}
    found = compare_paired(ours, base=base)
    assert found is not None
    assert found.num_seeds == 4  # the fifth has no partner
    assert found.mean == pytest.approx(1.0)
    assert found.low > 0
    assert found.p_value == pytest.approx(
        ttest_rel([11.0, 51.1, 90.9, 31.0], [10.0, 50.0, 90.0, 30.0]).pvalue
    )


def build_result(variant, seed, **figures):
    return RunResult(
        variant=variant, seed=seed, num_parameters=10, num_encoder_parameters=5, num_steps=3, num_tokens=9,
        seconds=60.0, figures=figures, errors={}, scores={}, curve=(), num_threads=1,
    )  # fmt: skip


def judge(values, *, by="sop_accuracy", **claim):
    """The outcome of a claim about variants with these values of a figure, one for each seed."""
    summaries = {
        name: VariantSummary(name, {n: build_result(name, n, **{by: each}) for n, each in enumerate(row)}, {})
        for name, row in values.items()
    }
    variants = {name: VariantSettings() for name in values}
    settings = StudySettings(title="t", paper="p", question="q", variants=variants, base=next(iter(values)))
    return evaluate_claim(ClaimSettings(text="so it is", by=(by,), **claim), settings, summaries)


@pytest.mark.parametrize(
    ("accuracies", "outcome"),
    [((0.80, 0.81, 0.82), "agrees"), ((0.5, 0.9, 0.7), "inconclusive"), ((0.44, 0.45, 0.46), "disagrees")],
)
def test_a_variant_is_compared_with_chance(accuracies, outcome):
    found = judge({"sop": accuracies}, better="sop", than=50.0, paper=36.5)
    assert found.outcome == outcome
    assert "+36.5" in found.theirs


@pytest.mark.parametrize(
    ("accuracies", "outcome"),
    [((0.52, 0.51, 0.53), "agrees"), ((0.49, 0.55, 0.52), "inconclusive"), ((0.6, 0.61, 0.6), "disagrees")],
)
def test_near_chance_means_within_a_margin_of_it(accuracies, outcome):
    found = judge({"nsp": accuracies}, better="nsp", than=50.0, is_equal=True, margin=5.0)
    assert found.outcome == outcome


def test_where_less_is_better_the_figure_itself_is_told():
    gaps = {"all": (0.10, 0.11, 0.12), "none": (0.30, 0.31, 0.33)}
    found = judge(gaps, by="gap", better="all", than="none")
    assert found.outcome == "agrees"
    assert all(value in found.ours for value in ("-0.20", "-0.22", "-0.19"))


def build_plan(name, variants=()):
    settings = read_study(name, overrides=["num_seeds=1"], variants=variants)
    return StudyPlan(name=name, settings=settings, data="", corpus="")


def summarize(plan, **figures):
    made = Footprint(50_000_000, 0.2, 0.05, 1000, inference_seconds=0.1)
    return [
        VariantSummary(name, {0: build_result(name, 0, **figures)}, {}, made)
        for name in plan.settings.variants
    ]


def read_column(table, name):
    place = [column.name for column in table.columns].index(name)
    return [row[place].text for row in table.rows]


def test_a_figure_of_the_paper_stands_in_a_column_of_its_own_kind():
    plan = build_plan("objective")
    page = build_page(plan, summarize(plan, mlm_accuracy=0.2, sop_accuracy=0.6, nsp_accuracy=0.5))
    (table,) = [table for table in page.tables if table.name == "variants"]
    assert read_column(table, "SOP accuracy") == ["60.00"] * 4
    assert read_column(table, "paper: SOP accuracy") == ["53.3", "52.0", "86.5", ""]
    assert read_column(table, "paper: NSP accuracy") == ["52.4", "90.5", "78.9", ""]
    assert read_column(table, "paper: average task score") == ["79.0", "79.2", "80.1", ""]


def test_a_curve_is_drawn_from_left_to_right_whenever_its_variants_were_added():
    plan = build_plan("width", ["albert-double", "albert-half", "albert-whole"])
    variants = {
        name: each.model_copy(update={"x": {"double": 512, "half": 128, "whole": 256}[name.split("-")[1]]})
        for name, each in reversed(plan.settings.variants.items())
    }
    settings = plan.settings.model_copy(update={"variants": variants, "x_label": ""})
    plan = plan.model_copy(update={"settings": settings})
    charts = {each.name: each for each in build_page(plan, summarize(plan, mlm_accuracy=0.2)).charts}
    assert charts["families"].series[0].xs == [128, 256, 512]
    assert charts["families"].title.endswith(" by hidden size")


def build_curve(*values):
    return tuple(
        CurvePoint(
            step=10 * (place + 1),
            seconds=60.0 * (place + 1),
            figures={"mlm_loss": 5.0, "mlm_accuracy": value},
        )
        for place, value in enumerate(values)
    )


def draw_curves(study):
    plan = build_plan(study)
    summaries = summarize(plan, mlm_accuracy=0.3, mlm_loss=5.0, train_loss=5.0)
    with_curves = [
        replace(each, results={0: each.results[0].model_copy(update={"curve": build_curve(0.1, 0.3)})})
        for each in summaries
    ]
    page = build_page(plan, with_curves)
    return {chart.name: chart for section in page.sections for chart in section.charts}


def test_figure_2_is_masked_words_right_in_percent_over_steps():
    chart = draw_curves("dropout")["curve-mlm-accuracy"]
    assert (chart.x_label, chart.y_label) == ("step", "MLM accuracy, %")
    assert [(list(each.xs), list(each.ys)) for each in chart.series] == [([10.0, 20.0], [10.0, 30.0])] * 2
