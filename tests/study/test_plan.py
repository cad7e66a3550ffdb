"""The recipes of studies, the plan of a study, the order of its runs, and its budget."""

from pathlib import Path

import pytest
import yaml

from albert.errors import AlbertError, InputError
from albert.model.config import count_parameters
from albert.study import plan as planning
from albert.study.plan import (
    Run,
    Schedule,
    StudyPlan,
    VariantCost,
    build_plan,
    build_schedule,
    find_study_seconds,
    share_steps,
)
from albert.study.settings import list_ablations, list_overrides, read_study
from tests.study.conftest import STUDY
from tests.training.conftest import TINY

COSTS = {"cheap": VariantCost(0.1, 2.0), "dear": VariantCost(0.5, 4.0)}
ALONE = Schedule([[("cheap", 0), ("dear", 0)]])


@pytest.fixture
def build(tiny_study, story_corpus):
    def build_it(*overrides, task_data=None):
        settings = read_study(tiny_study, overrides=overrides)
        return build_plan("tiny", settings, data=str(story_corpus), task_data=task_data, command=())

    return build_it


@pytest.mark.parametrize("name", list_ablations())
def test_every_variant_of_every_study_is_another_model(name, story_corpus, tmp_path):
    plan = StudyPlan(name=name, settings=read_study(name), data=str(story_corpus), corpus="")
    shapes = [plan.resolve(Run(tmp_path, variant, 0))[0] for variant in plan.settings.variants]
    assert len({shape.model_dump_json() for shape in shapes}) == len(shapes)


@pytest.mark.parametrize("vocab_size", [500, 30_000])
def test_the_widened_albert_has_the_size_of_bert(story_corpus, monkeypatch, vocab_size):
    resolve_model = planning.resolve_model

    def resolve_other(settings, tokenizer):
        found = resolve_model(settings, tokenizer)
        return found.model_copy(update={"model": found.model.model_copy(update={"vocab_size": vocab_size})})

    monkeypatch.setattr(planning, "resolve_model", resolve_other)
    plan = StudyPlan(name="same-size", settings=read_study("same-size"), data=str(story_corpus), corpus="")
    sizes = {
        name: count_parameters(plan.resolve(Run(Path(), name, 0))[1]).backbone
        for name in ("bert", "albert", "albert-wide")
    }
    assert sizes["albert-wide"] == pytest.approx(sizes["bert"], rel=0.05)
    assert sizes["albert"] < 0.6 * sizes["bert"]


def test_differences_become_overrides():
    words = list_overrides({"model": {"sharing": "none", "num_hidden_layers": 3}}, {"length_schedule": []})
    assert words == ['model.sharing="none"', "model.num_hidden_layers=3", "length_schedule=[]"]


def test_selected_variants_bring_the_base_and_what_they_start_from():
    settings = read_study("depth", variants=["depth-2"])
    assert set(settings.variants) == {"depth-1", "depth-2", "depth-4"}
    assert {claim.better for claim in settings.claims} == {"depth-2", "depth-4"}


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        (["base=nobody"], "base.*'nobody'"),
        (["variants.all.start_from=none", "variants.none.start_from=all"], "all, none"),
        (["variants.all.start_from=nobody"], "variants.all.start_from.*'nobody'"),
        (["num_seeds=0"], "num_seeds.* 0"),
        (["variants.All={}"], "'All'"),
        (["num_seed=3"], "num_seeds"),
        (["claims=[{text: so, better: all, than: none, by: [mlm_acuracy]}]"], "mlm_accuracy"),
        (["variants.all.finetune.seed=7"], "variants.all.finetune.seed.* 7"),
    ],
)
def test_a_wrong_study_is_rejected(tiny_study, overrides, named):
    with pytest.raises(AlbertError, match=f"study.yaml.*{named}"):
        read_study(tiny_study, overrides=overrides)


def test_an_unknown_variant_is_rejected(tiny_study):
    with pytest.raises(InputError, match="'nobody'.* all, none"):
        read_study(tiny_study, variants=["nobody"])


def test_wide_and_narrow_variants_are_fine_tuned_by_the_same_recipe(build, monkeypatch):
    monkeypatch.setattr(planning, "hash_evaluation_data", lambda plan: {})
    wide = "variants.none.pretrain.model={hidden_size: 512, num_attention_heads: 8, intermediate_size: 1024}"
    assert build(wide, "tasks=[rte]", task_data=".").task_recipes == {"rte": "narrow"}
    assert build(wide, "tasks=[rte]", "base=none", task_data=".").task_recipes == {"rte": "paper-rte"}


def test_widths_in_proportion_and_labels_follow_the_recipe(build):
    shape = "{hidden_size: 48, num_attention_heads: 2, intermediate_size: 96, num_hidden_layers: 3}"
    plan = build(
        f"pretrain.model={shape}",
        "x_from=embedding_size",
        "variants.none={times_as_wide: 2, embedding_share: 0.25}",
        "variants.none.label='E = {embedding_size} of {hidden_size} {x}'",
        "variants.all.label='{num_hidden_layers} × {hidden_size}'",
        "variants.all.x=7",
    )
    wide = plan.bound["none"]["pretrain"]["model"]
    assert (wide["hidden_size"], wide["num_attention_heads"], wide["intermediate_size"]) == (96, 4, 192)
    assert wide["embedding_size"] == 24
    variants = plan.settings.variants
    assert (variants["none"].label, variants["none"].x) == ("E = 24 of 96 {x}", 24.0)
    assert (variants["all"].label, variants["all"].x) == ("3 × 48", 7.0)


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        (["tasks=[sst-2]"], "SST-2"),
        (["tasks=[sst2x]"], "sst-2"),
        (["tasks=[rte]", "finetune.num_epoch=3"], "num_epochs"),
        (["has_agreement=true"], "has_agreement=false"),
    ],
)
def test_evaluations_that_cannot_be_run_are_rejected_before_training(build, tmp_path, overrides, named):
    with pytest.raises(AlbertError, match=named):
        build(*overrides, task_data=str(tmp_path))
    with pytest.raises(InputError, match="rte.*--task-data"):
        build("tasks=[rte]")


def test_with_frozen_steps_warm_up_keeps_its_share(tmp_path, story_corpus):
    recipe, study = tmp_path / "tiny.yaml", tmp_path / "study.yaml"
    values = {**TINY, "num_steps": 100, "schedule": {"warmup_steps": 20}}
    recipe.write_text(yaml.safe_dump(values), encoding="utf-8")
    study.write_text(yaml.safe_dump({**STUDY, "recipe": str(recipe)}), encoding="utf-8")
    settings, steps = read_study(study), {"all": 10}
    plan = StudyPlan(name="tiny", settings=settings, data=str(story_corpus), corpus="", num_steps=steps)
    words = plan.list_pretrain_overrides(Run(tmp_path, "all", 0))
    assert words[-3:] == ["num_steps=10", "schedule.warmup_steps=null", "schedule.warmup_share=0.2"]


def test_with_equal_steps_all_variants_take_as_many():
    assert share_steps(COSTS, ALONE, seconds=66.0, is_equal_time=False) == {"cheap": 100, "dear": 100}


def test_with_equal_time_the_cheaper_variant_takes_more():
    # 6 of 28 seconds are fixed costs; each is trained for 11.
    assert share_steps(COSTS, ALONE, seconds=28.0, is_equal_time=True) == {"cheap": 110, "dear": 22}


@pytest.mark.parametrize(("is_equal_time", "amount"), [(False, 10), (True, 5.0)])
def test_the_shortest_budget_fits_ten_steps_of_each(is_equal_time, amount):
    least = find_study_seconds(COSTS, ALONE, amount, is_equal_time=is_equal_time)
    assert min(share_steps(COSTS, ALONE, seconds=least, is_equal_time=is_equal_time).values()) == 10
    assert min(share_steps(COSTS, ALONE, seconds=0.9 * least, is_equal_time=is_equal_time).values()) < 10


@pytest.mark.parametrize("num_at_once", [2, 4])
def test_side_by_side_the_longest_run_decides(num_at_once):
    both = Schedule(ALONE.groups, num_at_once)
    assert share_steps(COSTS, both, seconds=54.0, is_equal_time=False) == {"cheap": 100, "dear": 100}
    # Footprints are measured alone.
    costs = {"cheap": VariantCost(0.1, 2.0, 5.0), "dear": VariantCost(0.5, 4.0, 5.0)}
    assert share_steps(costs, both, seconds=64.0, is_equal_time=False) == {"cheap": 100, "dear": 100}


@pytest.mark.parametrize(("study", "num_at_once"), [("depth", 1), ("depth", 2), ("depth", 8), ("dropout", 4)])
def test_a_study_whose_runs_wait_for_others_keeps_to_its_budget(study, num_at_once):
    settings = read_study(study)
    schedule = build_schedule(settings, num_at_once=num_at_once)
    costs = dict.fromkeys(settings.variants, VariantCost(1.0, 0.0))
    (number,) = set(share_steps(costs, schedule, seconds=9000.0, is_equal_time=False).values())
    assert schedule.find_seconds(dict.fromkeys(settings.variants, float(number))) <= 9000.0
    assert schedule.find_seconds(dict.fromkeys(settings.variants, number + 1.0)) > 9000.0


def test_a_free_worker_takes_the_next_run():
    settings = read_study("dropout", overrides=["num_seeds=2"])
    seconds = {"without": 10.0, "with": 4.0}
    assert build_schedule(settings).find_seconds(seconds) == 28.0
    assert build_schedule(settings, num_at_once=2).find_seconds(seconds) == 14.0  # 10 + 4 beside 4 + 10
