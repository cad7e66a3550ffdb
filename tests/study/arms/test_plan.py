"""The recipes of studies: every one parses, and its arms can be built."""

from pathlib import Path

import pytest

from albert.errors import AlbertError, InputError
from albert.model.config import count_parameters
from albert.study.arms import settings as arm_settings
from albert.study.arms.folder import StudyPlan
from albert.study.arms.plan import list_ablations, list_overrides, read_study
from albert.study.arms.results import Unit
from albert.study.arms.settings import resolve_arm

ABLATIONS = (
    "data", "depth", "dropout", "embedding", "objective", "overall", "same-size", "same-time", "sharing",
    "width",
)  # fmt: skip


def test_every_table_of_the_paper_is_there():
    assert tuple(list_ablations()) == ABLATIONS


@pytest.mark.parametrize("name", ABLATIONS)
def test_every_arm_of_every_study_is_a_model(name, story_corpus, tmp_path):
    plan = StudyPlan(name=name, settings=read_study(name), data=str(story_corpus), corpus="")
    shapes = [resolve_arm(plan, Unit(tmp_path, arm, 0)) for arm in plan.settings.arms]
    # Arms that differ in nothing would compare a model with itself.
    told = [shape.model_dump_json() for shape in shapes]
    assert len(set(told)) == len(told)


@pytest.fixture
def same_size(story_corpus, monkeypatch):
    """The study's arms, were the corpus of another vocabulary."""
    resolve_model = arm_settings.resolve_model

    def resolve(arm, vocab_size, *overrides):
        def resolve_other(settings, tokenizer):
            found = resolve_model(settings, tokenizer)
            return found.model_copy(
                update={"model": found.model.model_copy(update={"vocab_size": vocab_size})}
            )

        monkeypatch.setattr(arm_settings, "resolve_model", resolve_other)
        settings = read_study("same-size", overrides=overrides)
        plan = StudyPlan(name="same-size", settings=settings, data=str(story_corpus), corpus="")
        return count_parameters(resolve_arm(plan, Unit(Path(), arm, 0)).model).backbone

    return resolve


@pytest.mark.parametrize("vocab_size", [500, 8_000, 30_000])
def test_the_widened_albert_has_berts_size(same_size, vocab_size):
    sizes = {arm: same_size(arm, vocab_size) for arm in ("bert", "albert", "albert-wide")}
    assert sizes["albert-wide"] == pytest.approx(sizes["bert"], rel=0.05)
    assert sizes["albert"] < 0.6 * sizes["bert"]


def test_a_size_that_no_width_has_is_refused(same_size):
    """A word table of 128 numbers for each piece is larger than a whole BERT that is 64 wide."""
    shape = "pretrain.model={hidden_size: 64, num_attention_heads: 2, intermediate_size: 256}"
    told = r"as_large_as bert, which has 749,120 parameters: the nearest is 16 wide and has 1,095,664, with "
    with pytest.raises(InputError, match=told + r"embedding_size 128; give pretrain.model.embedding_size"):
        same_size("albert-wide", 8_000, shape)
    assert same_size("albert-wide", 8_000, shape, "pretrain.model.embedding_size=32") == pytest.approx(
        same_size("bert", 8_000, shape), rel=0.1
    )


@pytest.mark.parametrize("hidden_size", [256, 768])
def test_table_3_has_the_papers_shares_of_the_width_at_any_scale(story_corpus, tmp_path, hidden_size):
    settings = read_study("embedding", overrides=[f"pretrain.model.hidden_size={hidden_size}"])
    plan = StudyPlan(name="embedding", settings=settings, data=str(story_corpus), corpus="")
    sizes = {}
    for arm in settings.arms:
        config = resolve_arm(plan, Unit(tmp_path, arm, 0)).model
        assert config is not None
        sizes[arm] = config.embedding_size
    widths = {256: [21, 43, 85, 256], 768: [64, 128, 256, 768]}[hidden_size]
    assert list(sizes.values()) == [*widths, *widths]


def test_differences_become_overrides():
    words = list_overrides({"model": {"sharing": "none", "num_hidden_layers": 3}}, {"length_schedule": []})
    assert words == ['model.sharing="none"', "model.num_hidden_layers=3", "length_schedule=[]"]


def test_deeper_arms_come_after_those_they_start_from():
    waves = read_study("depth").list_waves()
    assert waves == [["depth-1", "wide-2"], ["depth-2", "wide-4"], ["depth-4"], ["depth-8"], ["depth-12"]]


def test_some_arms_bring_the_base_and_what_they_start_from():
    settings = read_study("depth", arms=["depth-2"])
    assert set(settings.arms) == {"depth-1", "depth-2", "depth-4"}
    assert {claim.better for claim in settings.claims} == {"depth-2", "depth-4"}


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["base=nobody"], "base names 'nobody'; the arms are"),
        (["arms.all.start_from=none", "arms.none.start_from=all"], "start from one another"),
        (["arms.all.start_from=nobody"], "arm all starts from 'nobody', which is no arm"),
        (["num_seeds=0"], "num_seeds is 0"),
        (["arms.All={}"], "an arm is called 'All'"),
        (["num_seed=3"], "did you mean num_seeds?"),
        (["arms.all.as_large_as=nobody"], "arm all is as large as 'nobody', which is no arm"),
        (
            ["arms.all={as_large_as: none, times_as_wide: 2}"],
            "as_large_as finds the width of an arm, and times_as_wide gives it; leave one out",
        ),
        (["arms.all.embedding_share=0"], "embedding_share"),
        (["arms.all=null"], "arms.all is None"),
        (["claims=[{text: so, better: all, than: none, by: [mlm_acuracy]}]"], "did you mean mlm_accuracy?"),
        (
            ["pretrain.seed=7"],
            "pretrain.seed is 7, but all arms have the same seeds: num_seeds of them, from first_seed on",
        ),
        (["arms.all.finetune.seed=7"], "arms.all.finetune.seed is 7"),
        (
            ["paper_tables=[{name: arms, columns: [a], rows: []}]"],
            "two tables of the report would be called arms",
        ),
        (["paper_tables=[{name: Table 2, columns: [a], rows: []}]"], "paper_tables.0.name is 'Table 2'"),
        (["paper_tables=[{name: t, columns: [a, b], rows: [[BERT]]}]"], "table t has 2 columns; BERT has 1"),
    ],
)
def test_a_wrong_study_is_refused_in_a_line(tiny_study, overrides, told):
    with pytest.raises(AlbertError, match="study.yaml") as caught:
        read_study(tiny_study, overrides=overrides)
    assert told in str(caught.value)


def test_an_unknown_arm_is_refused(tiny_study):
    with pytest.raises(InputError, match="has no arm 'nobody'; there are all, none"):
        read_study(tiny_study, arms=["nobody"])
