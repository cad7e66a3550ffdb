"""What all arms have in common, and what is refused before an hour of training."""

import pytest
import yaml

from albert.errors import AlbertError
from albert.study.arms.folder import describe_plan
from albert.study.arms.plan import read_study
from albert.study.arms.results import Unit
from albert.study.arms.settings import bind_plan, bind_questions, list_duplicates, list_pretrain_overrides
from tests.study.conftest import STUDY
from tests.training.conftest import TINY


@pytest.fixture
def bind(tiny_study, story_corpus):
    def bind_it(*overrides, task_data=None):
        settings = read_study(tiny_study, overrides=overrides)
        return bind_plan(
            describe_plan("tiny", settings, data=str(story_corpus), task_data=task_data, command=())
        )

    return bind_it


def test_all_arms_are_asked_what_the_base_would_be(bind):
    plan = bind("arms.none.pretrain.examples.mask_share=0.4", "arms.none.pretrain.examples.unit=sentences")
    assert plan.examples.mask_share == 0.15
    assert plan.examples.unit == "segments"
    assert plan.bound["none"]["pretrain"]["examples"]["mask_share"] == 0.4


def test_wide_and_narrow_arms_are_taught_in_the_same_way(bind):
    wide = "arms.none.pretrain.model={hidden_size: 512, num_attention_heads: 8, intermediate_size: 1024}"
    assert bind(wide, "tasks=[rte]", task_data=".").task_recipes == {"rte": "narrow"}
    assert bind(wide, "tasks=[rte]", "base=none", task_data=".").task_recipes == {"rte": "paper-rte"}


def test_widths_in_proportion_and_labels_follow_the_recipe(bind):
    shape = "{hidden_size: 48, num_attention_heads: 2, intermediate_size: 96, num_hidden_layers: 3}"
    plan = bind(
        f"pretrain.model={shape}",
        "x_from=embedding_size",
        "arms.none={times_as_wide: 2, embedding_share: 0.25}",
        "arms.none.label='E = {embedding_size} of {hidden_size} {x}'",
        "arms.all.label='{num_hidden_layers} × {hidden_size}'",
        "arms.all.x=7",
    )
    wide = plan.bound["none"]["pretrain"]["model"]
    assert (wide["hidden_size"], wide["num_attention_heads"], wide["intermediate_size"]) == (96, 4, 192)
    assert wide["embedding_size"] == 24
    arms = plan.settings.arms
    assert (arms["none"].label, arms["none"].x) == ("E = 24 of 96 {x}", 24.0)
    assert (arms["all"].label, arms["all"].x) == ("3 × 48", 7.0)


def test_arms_that_start_from_other_models_are_others(bind):
    plan = bind("arms.warm.pretrain.init_from=a-model", "arms.again={}")
    assert plan.bound["warm"]["pretrain"]["init_from"] == "a-model"
    assert list_duplicates(plan) == [("all", "again")]


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["tasks=[sst-2]"], "SST-2"),
        (["tasks=[sst2x]"], "did you mean sst-2?"),
        (["tasks=[rte]", "finetune.num_epoch=3"], "did you mean num_epochs?"),
        (["has_agreement=true"], "cannot write; add has_agreement=false"),
    ],
)
def test_questions_that_cannot_be_asked_are_refused_at_once(bind, tmp_path, overrides, told):
    with pytest.raises(AlbertError) as caught:
        bind_questions(bind(*overrides, task_data=str(tmp_path)))
    assert told in str(caught.value)


def test_with_frozen_steps_warm_up_stays_the_share_that_it_was(tmp_path, story_corpus):
    recipe = tmp_path / "tiny.yaml"
    values = {**TINY, "num_steps": 100, "schedule": {"warmup_steps": 20}}
    recipe.write_text(yaml.safe_dump(values), encoding="utf-8")
    study = tmp_path / "study.yaml"
    study.write_text(yaml.safe_dump({**STUDY, "recipe": str(recipe)}), encoding="utf-8")
    plan = describe_plan("tiny", read_study(study), data=str(story_corpus), task_data=None, command=())
    frozen = plan.model_copy(update={"num_steps": {"all": 10}})
    words = list_pretrain_overrides(frozen, Unit(tmp_path, "all", 0))
    assert words[-3:] == ["num_steps=10", "schedule.warmup_steps=null", "schedule.warmup_share=0.2"]
