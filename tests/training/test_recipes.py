"""Every recipe parses, and says what the paper says."""

import pytest

from albert.errors import InputError, SettingsError
from albert.model.config import build_preset, count_parameters
from albert.training.recipes import RecipeShelf, read_recipe, rescale


@pytest.mark.parametrize("name", RecipeShelf("pretrain").list_names())
def test_every_recipe_parses(name):
    settings = read_recipe(name)
    assert (settings.model is None) == (name == "continue")
    assert settings.num_steps > settings.schedule.count_warmup(settings.num_steps)


def test_the_papers_sizes_and_more_have_recipes():
    sizes = [
        f"albert-{size}{version}"
        for size in ("base", "large", "xlarge", "xxlarge")
        for version in ("", "-v2")
    ]
    assert set(RecipeShelf("pretrain").list_names()) == {
        *sizes, "bert-base", "bert-large", "bert-xlarge", "small", "nano", "albert-nano-en", "study",
        "continue",
    }  # fmt: skip


@pytest.mark.parametrize("size", ["base", "large", "xlarge", "xxlarge"])
def test_the_papers_hyper_parameters(size):
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


def test_bert_differs_from_albert_in_its_model_and_its_objective_alone():
    albert, bert = (read_recipe(f"{name}-base").model_dump() for name in ("albert", "bert"))
    assert {key for key in albert if albert[key] != bert[key]} == {"model", "examples"}
    assert (albert["examples"]["objective"], bert["examples"]["objective"]) == ("sop", "nsp")
    assert {key for key in albert["model"] if albert["model"][key] != bert["model"][key]} == {
        "embedding_size", "sharing", "hidden_act",
    }  # fmt: skip


@pytest.mark.parametrize(("name", "limit"), [("nano", 3e6), ("small", 7e6)])
def test_the_recipes_for_cpus_are_small(name, limit):
    assert count_parameters(read_recipe(name).model).backbone < limit


def test_another_batch_size_rescales_rate_and_steps():
    settings = read_recipe("albert-base", batch_size=256)
    assert settings.optimizer.learning_rate == pytest.approx(0.00176 / 4)
    assert settings.num_steps == 125_000 * 16
    assert settings.schedule.count_warmup(settings.num_steps) == 3125 * 16
    nano = read_recipe("nano")
    double = rescale(nano, 2 * nano.batch_size)
    assert double.num_steps == nano.num_steps // 2
    assert double.schedule.warmup_share == nano.schedule.warmup_share  # a share stays one
    assert rescale(nano, nano.batch_size) == nano


def test_what_was_typed_stands_as_it_is():
    settings = read_recipe("albert-base", overrides=["optimizer.learning_rate=0.001"], batch_size=256)
    assert settings.optimizer.learning_rate == 0.001
    assert settings.num_steps == 125_000 * 16


def test_a_recipe_based_on_itself(tmp_path):
    path = tmp_path / "snake.yaml"
    path.write_text(f"based_on: {path}\n")
    with pytest.raises(SettingsError, match="is based on itself"):
        read_recipe(path)


def test_an_override_alone_changes_nothing_else():
    assert read_recipe("albert-base", overrides=["batch_size=256"]).num_steps == 125_000


def test_a_preset_is_the_ground_that_other_keys_change():
    settings = read_recipe("nano", overrides=["model.num_hidden_layers=9"])
    assert (settings.model.num_hidden_layers, settings.model.hidden_size) == (9, 256)


def test_another_preset_is_taken_whole():
    """Not with the depth, the heads and the weights' spread of the recipe's own."""
    for recipe, preset in (("nano", "small"), ("nano", "albert-base-v2"), ("albert-base", "bert-large")):
        assert read_recipe(recipe, overrides=[f"model.preset={preset}"]).model == build_preset(preset)
    changes = ["model.num_hidden_layers=3", "model.preset=small"]
    shallow = build_preset("small").model_copy(update={"num_hidden_layers": 3})
    assert read_recipe("nano", overrides=changes).model == shallow
    assert read_recipe("small").model.num_hidden_layers == build_preset("small").num_hidden_layers


@pytest.mark.parametrize("name", ["nano", "small", "albert-nano-en"])
def test_a_curriculum_of_depth_only_rises(name):
    settings = read_recipe(name)
    depths = [shape.depth for shape, _ in settings.build_curriculum(settings.model).list_shapes()]
    assert depths == sorted(depths)
    assert depths[-1] == settings.model.num_hidden_layers


def test_a_recipe_of_ones_own_may_be_a_difference(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("based_on: nano\nmodel: {num_hidden_layers: 4}\nexamples: {mask_share: 0.3}\n")
    mine, nano = read_recipe(path), read_recipe("nano")
    assert (mine.model.num_hidden_layers, mine.model.hidden_size) == (4, 256)
    assert (mine.examples.mask_share, mine.examples.max_length) == (0.3, nano.examples.max_length)
    assert mine.optimizer == nano.optimizer


def test_what_is_no_recipe(tmp_path):
    with pytest.raises(InputError, match="no recipe 'smal'; did you mean small?"):
        read_recipe("smal")
    path = tmp_path / "list.yaml"
    path.write_text("- 1\n")
    with pytest.raises(SettingsError, match="holds a list"):
        read_recipe(path)
    path.write_text("based_on: [nano]\n")
    with pytest.raises(SettingsError, match="the name of a recipe is wanted"):
        read_recipe(path)
