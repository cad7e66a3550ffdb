"""Every recipe parses, and has the hyperparameters of the paper."""

import pytest

from albert.errors import AlbertError, InputError
from albert.model.config import build_preset, count_parameters
from albert.training.settings import RecipeFolder, read_recipe

PAPER = [
    f"albert-{size}{version}" for size in ("base", "large", "xlarge", "xxlarge") for version in ("", "-v2")
]


def test_every_recipe_parses():
    names = RecipeFolder("pretrain").list_names()
    assert set(names) == {
        *PAPER, "bert-base", "bert-large", "bert-xlarge", "small", "nano", "albert-nano-en", "study",
        "continue",
    }  # fmt: skip
    for name in names:
        settings = read_recipe(name)
        assert (settings.model is None) == (name == "continue")
        assert settings.num_steps > settings.schedule.count_warmup(settings.num_steps)


@pytest.mark.parametrize("size", ["base", "large", "xlarge", "xxlarge"])
def test_hyperparameters_of_the_paper(size):
    settings = read_recipe(f"albert-{size}")
    assert (settings.batch_size, settings.num_steps, settings.examples.max_length) == (4096, 125_000, 512)
    optimizer = settings.optimizer
    assert (optimizer.name, optimizer.learning_rate, optimizer.weight_decay) == ("lamb", 0.00176, 0.01)
    assert (optimizer.beta1, optimizer.beta2, optimizer.eps) == (0.9, 0.999, 1e-6)
    assert optimizer.max_grad_norm == 1.0
    assert (settings.schedule.name, settings.schedule.warmup_steps) == ("linear", 3125)
    assert settings.model.hidden_dropout_prob == (0.0 if size == "xxlarge" else 0.1)
    assert settings.examples.objective == "sop"
    assert read_recipe(f"albert-{size}-v2").model.hidden_dropout_prob == 0.0


def test_bert_differs_from_albert_only_in_its_model_and_objective():
    albert, bert = (read_recipe(f"{name}-base").model_dump() for name in ("albert", "bert"))
    assert {key for key in albert if albert[key] != bert[key]} == {"model", "examples"}
    assert (albert["examples"]["objective"], bert["examples"]["objective"]) == ("sop", "nsp")
    assert {key for key in albert["model"] if albert["model"][key] != bert["model"][key]} == {
        "embedding_size", "sharing", "hidden_act",
    }  # fmt: skip


@pytest.mark.parametrize(("name", "limit"), [("nano", 3e6), ("small", 7e6), ("albert-nano-en", 3e6)])
def test_recipes_for_cpus_are_small_and_only_get_deeper(name, limit):
    settings = read_recipe(name)
    assert count_parameters(settings.model).backbone < limit
    depths = [shape.depth for shape, _ in settings.build_curriculum(settings.model).list_shapes()]
    assert depths == sorted(depths)
    assert depths[-1] == settings.model.num_hidden_layers


def test_another_batch_size_rescales_learning_rate_and_steps():
    settings = read_recipe("albert-base", batch_size=256)
    assert settings.optimizer.learning_rate == pytest.approx(0.00176 / 4)
    assert settings.num_steps == 125_000 * 16
    assert settings.schedule.count_warmup(settings.num_steps) == 3125 * 16
    nano = read_recipe("nano")
    double = read_recipe("nano", batch_size=2 * nano.batch_size)
    assert double.num_steps == nano.num_steps // 2
    assert double.schedule.warmup_share == nano.schedule.warmup_share  # a share stays one
    assert read_recipe("nano", batch_size=nano.batch_size) == nano
    # Overrides rescale nothing by themselves.
    assert read_recipe("albert-base", overrides=["batch_size=256"]).num_steps == 125_000


def test_a_preset_replaces_the_model_of_the_recipe():
    for recipe, preset in (("nano", "small"), ("nano", "albert-base-v2"), ("albert-base", "bert-large")):
        assert read_recipe(recipe, overrides=[f"model.preset={preset}"]).model == build_preset(preset)
    changes = ["model.num_hidden_layers=3", "model.preset=small"]
    shallow = build_preset("small").model_copy(update={"num_hidden_layers": 3})
    assert read_recipe("nano", overrides=changes).model == shallow


def test_what_is_no_recipe(tmp_path):
    with pytest.raises(InputError, match="'smal'.*small"):
        read_recipe("smal")
    path = tmp_path / "mine.yaml"
    for content, message in (("- 1\n", "list"), ("based_on: [nano]\n", "nano")):
        path.write_text(content)
        with pytest.raises(AlbertError, match=message):
            read_recipe(path)
