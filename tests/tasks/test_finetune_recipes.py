"""The recipes of fine-tuning: every one can be read, and the paper's say what the paper says."""

import pytest

from albert.errors import AlbertError
from albert.tasks.assignment import list_tasks
from albert.tasks.finetune_recipes import choose_recipe, read_finetune_recipe
from albert.training.recipes import RecipeShelf

RECIPES = RecipeShelf("finetune").list_names()
# Table 14 of the paper, for xxlarge: learning rate, batch size, dropout of the encoder and of the classifier,
# steps, steps of warm-up, length.
TABLE_14 = {
    "cola": (1e-5, 16, 0.0, 0.1, 5336, 320, 512),
    "sts-b": (2e-5, 16, 0.0, 0.1, 3598, 214, 512),
    "sst-2": (1e-5, 32, 0.0, 0.1, 20935, 1256, 512),
    "mnli": (3e-5, 128, 0.0, 0.1, 10000, 1000, 512),
    "qnli": (1e-5, 32, 0.0, 0.1, 33112, 1986, 512),
    "qqp": (5e-5, 128, 0.1, 0.1, 14000, 1000, 512),
    "rte": (3e-5, 32, 0.1, 0.1, 800, 200, 512),
    "mrpc": (2e-5, 32, 0.0, 0.1, 800, 200, 512),
    "wnli": (2e-5, 16, 0.1, 0.1, 2000, 250, 512),
    "squad-1.1": (5e-5, 48, 0.0, 0.1, 3649, 365, 384),
    "squad-2.0": (3e-5, 48, 0.0, 0.1, 8144, 814, 512),
    "race": (2e-5, 32, 0.1, 0.1, 12000, 1000, 512),
}


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_can_be_read(name):
    assert read_finetune_recipe(name).optimizer.name == ("muon" if name.startswith("narrow") else "adamw")


@pytest.mark.parametrize("task", TABLE_14)
def test_the_papers_recipes_say_what_the_paper_says(task):
    settings = read_finetune_recipe(f"paper-{task}")
    num_steps = settings.num_steps
    assert num_steps is not None
    found = (
        settings.optimizer.learning_rate,
        settings.batch_size,
        settings.dropout,
        settings.head_dropout,
        num_steps,
        settings.schedule.count_warmup(num_steps),
        settings.max_length,
    )
    assert found == TABLE_14[task]
    assert settings.schedule.name == "linear"
    assert settings.num_evaluations >= 10  # the best on the development set is kept


def test_every_task_of_the_table_has_a_recipe_and_no_other():
    named = {name.removeprefix("paper-") for name in RECIPES if name.startswith("paper-")}
    assert named == set(TABLE_14)
    assert named <= set(list_tasks())


def test_wide_models_get_the_papers_recipes_and_small_ones_ours():
    assert choose_recipe("sst-2", hidden_size=4096) == "paper-sst-2"
    assert choose_recipe("sst-2", hidden_size=768) == "paper-sst-2"
    assert choose_recipe("classification", hidden_size=768) == "paper"  # no table of the paper has it
    assert choose_recipe("sst-2", hidden_size=384) == "small"
    assert choose_recipe("race", hidden_size=384) == "race"
    for task in list_tasks():
        for width in (128, 384, 4096):
            read_finetune_recipe(choose_recipe(task, hidden_size=width))


def test_the_narrowest_learn_a_task_with_the_optimiser_they_were_pretrained_with():
    for task in ("sst-2", "race", "squad-2.0"):
        narrow = read_finetune_recipe(choose_recipe(task, hidden_size=256))
        small = read_finetune_recipe(choose_recipe(task, hidden_size=257))
        assert (narrow.optimizer.name, small.optimizer.name) == ("muon", "adamw")
        assert narrow.num_epochs == small.num_epochs


def test_questions_are_read_in_windows_that_hold_a_paragraph():
    for task in ("squad-1.1", "squad-2.0", "questions"):
        for width in (128, 384):
            assert read_finetune_recipe(choose_recipe(task, hidden_size=width)).max_length == 384
    assert choose_recipe("questions", hidden_size=256) == "narrow-questions"


def test_the_narrowest_compare_pairs_under_changing_names():
    for task in ("sts-b", "mrpc", "qqp"):
        assert read_finetune_recipe(choose_recipe(task, hidden_size=256)).rename_share == 0.3
        assert read_finetune_recipe(choose_recipe(task, hidden_size=257)).rename_share == 0.0
    for task in ("mnli", "qnli", "classification"):
        assert choose_recipe(task, hidden_size=256) == "narrow-classification"
        assert choose_recipe(task, hidden_size=257) == "small"
    assert read_finetune_recipe(choose_recipe("sst-2", hidden_size=256)).rename_share == 0.0


def test_embeddings_are_learned_under_dropout_whatever_the_width():
    rates = []
    for width in (256, 384, 768):
        settings = read_finetune_recipe(choose_recipe("embedding", hidden_size=width))
        assert (settings.dropout, settings.batch_size, settings.max_length) == (0.1, 64, 64)
        rates.append(settings.optimizer.learning_rate)
    assert rates[-1] < rates[0] / 5


def test_the_rates_of_small_models_are_higher():
    small, paper = read_finetune_recipe("small"), read_finetune_recipe("paper")
    assert small.optimizer.learning_rate > 5 * paper.optimizer.learning_rate
    assert small.max_length < paper.max_length


def test_epochs_that_are_asked_for_replace_the_steps_of_a_recipe():
    assert read_finetune_recipe("paper-sst-2").num_steps == 20935
    assert read_finetune_recipe("paper-sst-2", overrides=["num_epochs=2"]).num_steps is None
    asked = read_finetune_recipe("paper-sst-2", overrides=["num_epochs=2", "num_steps=7"])
    assert asked.num_steps == 7


def test_a_recipe_is_changed_by_overrides_or_based_on(tmp_path):
    settings = read_finetune_recipe("paper-rte", overrides=["num_steps=5", "optimizer.weight_decay=0"])
    assert (settings.num_steps, settings.optimizer.weight_decay) == (5, 0)
    assert settings.optimizer.learning_rate == 3e-5
    mine = tmp_path / "mine.yaml"
    mine.write_text("based_on: paper-rte\noptimizer: {learning_rate: 1.0e-4}\n")
    based = read_finetune_recipe(mine)
    assert (based.optimizer.learning_rate, based.num_steps, based.batch_size) == (1e-4, 800, 32)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("batch_sizes: 3", "unknown key batch_sizes; did you mean batch_size?"),
        ("- 3", "holds a list, not `key: value` lines"),
        ("based_on: papr", "no recipe 'papr'; did you mean paper?"),
        ("dev_share: 1.5", "dev_share is 1.5: input should be less than 1"),
        ("schedule: linear", "schedule is 'linear'"),
        ("schedule:", "schedule is None"),
        ("num_steps: 100\nschedule: {warmup_steps: ten}", "schedule.warmup_steps is 'ten'"),
    ],
)
@pytest.mark.parametrize("overrides", [[], ["num_epochs=2"]])
def test_a_recipe_that_says_nothing_sensible_is_refused(tmp_path, text, said, overrides):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(AlbertError, match=said.replace("?", r"\?")):
        read_finetune_recipe(path, overrides=overrides)


@pytest.mark.parametrize(("asked", "num_steps"), [("num_epochs: 6", None), ("num_steps: 500", 500)])
def test_a_recipe_of_another_length_than_that_it_is_based_on(tmp_path, asked, num_steps):
    """As on the command line: epochs replace steps, and the share for warming up stays."""
    path = tmp_path / "mine.yaml"
    path.write_text(f"based_on: paper-rte\n{asked}\n")
    found = read_finetune_recipe(path)
    assert found.num_steps == num_steps
    assert (found.schedule.warmup_steps, found.schedule.warmup_share) == (None, 0.25)
    path.write_text(f"based_on: paper-rte\n{asked}\nschedule: {{warmup_steps: 9}}\n")
    assert read_finetune_recipe(path).schedule.warmup_steps == 9


@pytest.mark.parametrize("asked", ["num_epochs=1", "num_steps=500"])
def test_another_length_warms_up_for_the_share_that_the_recipe_does(asked):
    schedule = read_finetune_recipe("paper-sst-2", overrides=[asked]).schedule
    assert schedule.warmup_steps is None
    assert schedule.warmup_share == pytest.approx(1256 / 20_935)
    typed = read_finetune_recipe("paper-sst-2", overrides=[asked, "schedule.warmup_steps=9"]).schedule
    assert typed.warmup_steps == 9


def test_columns_are_named_as_they_stand():
    """In YAML the one would be nothing, so that pairs would be learned as single texts."""
    words = ["columns.text_pair=#2 String", "columns.label_separator=,", "columns.text=0"]
    found = read_finetune_recipe("small", overrides=words).columns
    assert found == {"text_pair": "#2 String", "label_separator": ",", "text": "0"}
