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
    # Both arms vary far more between seeds than they differ: paired, the difference is plain.
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


def test_nothing_in_common_is_no_comparison():
    assert compare_paired({0: 1.0}, base={1: 1.0}) is None


def summarize_seeds(arm: str, *accuracies: float, name: str = "sop_accuracy") -> VariantSummary:
    results = {
        seed: RunResult(
            variant=arm, seed=seed, num_parameters=1, num_encoder_parameters=1, num_steps=1, num_tokens=1,
            seconds=1.0, figures={name: accuracy}, errors={}, scores={}, curve=(),
                    num_threads=1,
        )
        for seed, accuracy in enumerate(accuracies)
    }  # fmt: skip
    return VariantSummary(arm, results, {})


def judge(summaries, **claim):
    variants = {name: VariantSettings() for name in ("sop", "nsp")}
    settings = StudySettings(title="t", paper="p", question="q", variants=variants, base="sop")
    made = ClaimSettings(text="so it is", by=("sop_accuracy",), **claim)
    return evaluate_claim(made, settings, {each.variant: each for each in summaries})


@pytest.mark.parametrize(
    ("accuracies", "outcome"),
    [((0.80, 0.81, 0.82), "agrees"), ((0.5, 0.9, 0.7), "inconclusive"), ((0.44, 0.45, 0.46), "disagrees")],
)
def test_an_arm_is_compared_with_chance(accuracies, outcome):
    found = judge([summarize_seeds("sop", *accuracies)], better="sop", than=50.0, paper=36.5)
    assert found.outcome == outcome
    assert found.theirs == "+36.5 points (SOP accuracy)"
    assert found.ours.startswith("SOP accuracy, sop against 50: ")


@pytest.mark.parametrize(
    ("accuracies", "outcome"),
    [((0.52, 0.51, 0.53), "agrees"), ((0.49, 0.55, 0.52), "inconclusive"), ((0.6, 0.61, 0.6), "disagrees")],
)
def test_near_chance_means_within_a_margin_of_it(accuracies, outcome):
    found = judge([summarize_seeds("nsp", *accuracies)], better="nsp", than=50.0, is_equal=True, margin=5.0)
    assert found.outcome == outcome
    assert found.theirs == "no difference"


def test_what_is_missing_is_told_as_it_is():
    done, waiting = summarize_seeds("sop", 0.8), VariantSummary("nsp", {}, {})
    assert judge([done, waiting], better="sop", than="nsp").ours == "not finished: nsp"
    other = summarize_seeds("nsp", 0.5, name="mlm_accuracy")
    found = judge([done, other], better="sop", than="nsp")
    assert (found.ours, found.outcome) == ("SOP accuracy: not measured", "not tested")


def test_where_less_is_better_the_figure_itself_is_told():
    variants = {name: VariantSettings() for name in ("all", "none")}
    settings = StudySettings(title="t", paper="p", question="q", variants=variants, base="all")
    claim = ClaimSettings(text="Sharing keeps them closer", better="all", than="none", by=("gap",))
    gaps = {"all": (0.10, 0.11, 0.12), "none": (0.30, 0.31, 0.33)}
    found = evaluate_claim(
        claim, settings, {arm: summarize_seeds(arm, *gaps[arm], name="gap") for arm in gaps}
    )
    assert found.outcome == "agrees"
    assert found.ours == (
        "held-out minus training loss, all against none: -0.20, 95% from -0.22 to -0.19 (3 seeds, "
        "p < 0.001); lower is better"
    )


def test_a_run_that_diverged_leaves_nothing_to_tell():
    found = judge([summarize_seeds("sop", 0.8, math.nan, 0.8)], better="sop", than=50.0)
    assert found.outcome == "inconclusive"
    assert found.ours.endswith("+nan points, no interval")


def build_plan(name, arms=()):
    settings = read_study(name, overrides=["num_seeds=1"], variants=arms)
    return StudyPlan(name=name, settings=settings, data="", corpus="")


def summarize(plan, **figures):
    made = Footprint(50_000_000, 0.2, 0.05, 1000, inference_seconds=0.1)
    return [
        VariantSummary(
            arm,
            {
                0: RunResult(
                    variant=arm, seed=0, num_parameters=10, num_encoder_parameters=5, num_steps=3,
                    num_tokens=9, seconds=60.0, figures=figures, errors={}, scores={}, curve=(),
                    num_threads=1,
                )
            },
            {},
            made,
        )
        for arm in plan.settings.variants
    ]  # fmt: skip


def build_arm_table(plan, summaries):
    (table,) = [table for table in build_page(plan, summaries).tables if table.name == "variants"]
    return table


def read_column(table, name):
    place = [column.name for column in table.columns].index(name)
    return [row[place].text for row in table.rows]


def test_a_figure_of_the_paper_stands_in_a_column_of_its_own_kind():
    plan = build_plan("objective")
    table = build_arm_table(plan, summarize(plan, mlm_accuracy=0.2, sop_accuracy=0.6, nsp_accuracy=0.5))
    assert read_column(table, "SOP accuracy") == ["60.00"] * 4
    assert read_column(table, "paper: SOP accuracy") == ["53.3", "52.0", "86.5", ""]
    assert read_column(table, "paper: NSP accuracy") == ["52.4", "90.5", "78.9", ""]
    assert read_column(table, "paper: average of the tasks") == ["79.0", "79.2", "80.1", ""]


def test_the_scale_is_told_first():
    plan = build_plan("overall")
    assert (
        "4 variants, 1 seed; about 10 parameters, 3 steps and 9 tokens"
        in build_page(plan, summarize(plan)).lead
    )


def test_one_seed_has_no_intervals():
    plan = build_plan("sharing", ["none"])
    page = build_page(plan, summarize(plan, mlm_accuracy=0.2))
    charts = {chart.name: chart for chart in page.charts}
    assert charts["differences"].title == "Against all shared"
    assert "One seed, so no intervals and no p-values." in str(page)
    assert "Student's t" not in str(page)


def test_a_curve_is_drawn_from_left_to_right_whenever_its_arms_were_added():
    plan = build_plan("width", ["albert-double", "albert-half", "albert-whole"])
    arms = {
        name: arm.model_copy(update={"x": {"double": 512, "half": 128, "whole": 256}[name.split("-")[1]]})
        for name, arm in reversed(plan.settings.variants.items())
    }
    settings = plan.settings.model_copy(update={"variants": arms, "x_label": ""})
    plan = plan.model_copy(update={"settings": settings})
    charts = {each.name: each for each in build_page(plan, summarize(plan, mlm_accuracy=0.2)).charts}
    assert charts["families"].series[0].xs == [128, 256, 512]
    assert charts["families"].title.endswith(" by hidden size")


def test_the_papers_average_is_not_drawn_on_a_scale_of_masked_words():
    plan = build_plan("sharing")
    page = build_page(plan, summarize(plan, mlm_accuracy=0.2, mlm_loss=5.0, train_loss=5.0))
    charts = {chart.name: chart for section in page.sections for chart in section.charts}
    assert [series.name for series in charts["differences"].series] == ["here"]


@pytest.mark.parametrize(
    ("study", "model"), [("overall", "XLNet-large"), ("overall", "DCMN+, ensemble"), ("depth", "24 layers")]
)
def test_models_that_nobody_trains_here_have_tables_of_their_own(study, model):
    plan = build_plan(study)
    page = build_page(plan, [VariantSummary(arm, {}, {}) for arm in plan.settings.variants])
    assert page.lead == "Nothing is finished yet."
    (section,) = [section for section in page.sections if section.title == "The paper's own figures"]
    assert any(model in row[0].text for table in section.tables for row in table.rows)
    lines = [line for part in page.sections for line in part.paragraphs]
    assert any(
        line.startswith("Not finished: ") and f"{plan.settings.base}, seed 0" in line for line in lines
    )


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


def test_where_arms_have_equal_time_curves_are_over_minutes():
    chart = draw_curves("same-time")["curve-mlm-loss"]
    assert chart.x_label == "minutes of training"
    assert list(chart.series[0].xs) == [1.0, 2.0]
