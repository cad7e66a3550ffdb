"""The report of a study: the paper's figures stand beside ours, each beside its own kind."""

from dataclasses import replace

import pytest

from albert.study.arms.folder import StudyPlan
from albert.study.arms.plan import read_study
from albert.study.arms.report import build_page
from albert.study.arms.results import ArmResult, ArmSummary, CurvePoint
from albert.study.steps.step_process import Footprint


def build_plan(name, arms=()):
    settings = read_study(name, overrides=["num_seeds=1"], arms=arms)
    return StudyPlan(name=name, settings=settings, data="", corpus="")


def summarise(plan, **figures):
    made = Footprint(50_000_000, 0.2, 0.05, 1000, inference_seconds=0.1)
    return [
        ArmSummary(
            arm,
            {
                0: ArmResult(
                    arm=arm, seed=0, num_parameters=10, num_encoder_parameters=5, num_steps=3, num_tokens=9,
                    seconds=60.0, figures=figures, errors={}, scores={}, curve=(), num_threads=1,
                )
            },
            {},
            made,
        )
        for arm in plan.settings.arms
    ]  # fmt: skip


def build_arm_table(plan, summaries):
    (table,) = [table for table in build_page(plan, summaries).tables if table.name == "arms"]
    return table


def read_column(table, name):
    place = [column.name for column in table.columns].index(name)
    return [row[place].text for row in table.rows]


def test_a_figure_of_the_paper_stands_in_a_column_of_its_own_kind():
    plan = build_plan("objective")
    table = build_arm_table(plan, summarise(plan, mlm_accuracy=0.2, sop_accuracy=0.6, nsp_accuracy=0.5))
    assert read_column(table, "sentence order right") == ["60.00"] * 4
    assert read_column(table, "paper: sentence order right") == ["53.3", "52.0", "86.5", ""]
    assert read_column(table, "paper: next sentence right") == ["52.4", "90.5", "78.9", ""]
    assert read_column(table, "paper: average of the tasks") == ["79.0", "79.2", "80.1", ""]


def test_the_scale_is_told_first():
    plan = build_plan("overall")
    assert (
        "4 arms, 1 seed; about 10 parameters, 3 steps and 9 tokens" in build_page(plan, summarise(plan)).lead
    )


def test_one_seed_has_no_intervals():
    plan = build_plan("sharing", ["none"])
    page = build_page(plan, summarise(plan, mlm_accuracy=0.2))
    charts = {chart.name: chart for chart in page.charts}
    assert charts["differences"].title == "Against all shared"
    assert "One seed, so no intervals and no p-values." in str(page)
    assert "Student's t" not in str(page)


def test_a_curve_is_drawn_from_left_to_right_whenever_its_arms_were_added():
    plan = build_plan("width", ["albert-double", "albert-half", "albert-whole"])
    arms = {
        name: arm.model_copy(update={"x": {"double": 512, "half": 128, "whole": 256}[name.split("-")[1]]})
        for name, arm in reversed(plan.settings.arms.items())
    }
    settings = plan.settings.model_copy(update={"arms": arms, "x_label": ""})
    plan = plan.model_copy(update={"settings": settings})
    charts = {each.name: each for each in build_page(plan, summarise(plan, mlm_accuracy=0.2)).charts}
    assert charts["dial"].series[0].xs == [128, 256, 512]
    assert charts["dial"].title.endswith(" by hidden size")


def test_training_and_inference_are_timed():
    plan = build_plan("overall")
    table = build_arm_table(plan, summarise(plan, mlm_accuracy=0.2))
    assert read_column(table, "step") == ["250"] * 4
    assert read_column(table, "forward") == ["100"] * 4
    assert read_column(table, "memory") == ["50"] * 4


def test_the_papers_average_is_not_drawn_on_a_scale_of_masked_words():
    plan = build_plan("sharing")
    page = build_page(plan, summarise(plan, mlm_accuracy=0.2, mlm_loss=5.0, train_loss=5.0))
    charts = {chart.name: chart for section in page.sections for chart in section.charts}
    assert [series.name for series in charts["differences"].series] == ["here"]


@pytest.mark.parametrize(
    ("study", "model"), [("overall", "XLNet-large"), ("overall", "DCMN+, ensemble"), ("depth", "24 layers")]
)
def test_models_that_nobody_trains_here_have_tables_of_their_own(study, model):
    plan = build_plan(study)
    page = build_page(plan, [ArmSummary(arm, {}, {}) for arm in plan.settings.arms])
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
    summaries = summarise(plan, mlm_accuracy=0.3, mlm_loss=5.0, train_loss=5.0)
    with_curves = [
        replace(each, results={0: each.results[0].model_copy(update={"curve": build_curve(0.1, 0.3)})})
        for each in summaries
    ]
    page = build_page(plan, with_curves)
    return {chart.name: chart for section in page.sections for chart in section.charts}


def test_figure_2_is_masked_words_right_in_percent_over_steps():
    chart = draw_curves("dropout")["curve-mlm-accuracy"]
    assert (chart.x_label, chart.y_label) == ("step", "masked words right, %")
    assert [(list(each.xs), list(each.ys)) for each in chart.series] == [([10.0, 20.0], [10.0, 30.0])] * 2


def test_where_arms_have_equal_time_curves_are_over_minutes():
    chart = draw_curves("same-time")["curve-mlm-loss"]
    assert chart.x_label == "minutes of training"
    assert list(chart.series[0].xs) == [1.0, 2.0]


def test_the_papers_sizes_stand_beside_ours():
    plan = build_plan("sharing")
    table = build_arm_table(plan, summarise(plan, mlm_accuracy=0.2))
    found = dict(zip(read_column(table, "arm"), read_column(table, "paper: million parameters"), strict=True))
    assert (found["all shared"], found["feed-forward shared, E = H"], found["two groups"]) == (
        "12",
        "57",
        "",
    )


def list_notes(plan):
    page = build_page(plan, [ArmSummary(arm, {}, {}) for arm in plan.settings.arms])
    return [line for section in page.sections for line in section.paragraphs if "share nothing" in line]


def test_what_is_said_of_an_arm_is_said_only_where_it_is_one_of_them():
    assert len(list_notes(build_plan("sharing"))) == 1
    assert list_notes(build_plan("sharing", arms=["all", "none"])) == []
