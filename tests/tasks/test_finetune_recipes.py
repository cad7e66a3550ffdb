"""Recipes of fine-tuning: which one is chosen, what it says, and what reaches the config of the model."""

import pytest
from albert.tasks.assignment import Assignment, list_tasks
from albert.tasks.examples import TextExample, TokenExample
from albert.tasks.task_facts import TaskConfig

from albert.errors import AlbertError, InputError
from albert.progress import NullReporter
from albert.tasks.finetune import complete_facts, count_class_weights
from albert.tasks.finetune_settings import FinetuneSettings, choose_recipe, read_finetune_recipe
from albert.training.settings import RecipeFolder

RECIPES = RecipeFolder("finetune").list_names()
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


# Other values than the defaults of either side. Columns are read before, with the data.
CHANGED = {
    "max_length": 48,
    "class_weights": "balanced",
    "has_exits": True,
    "max_answer": 60,
    "similarity_temperature": 0.2,
    "min_similarity": 3.0,
}
READ_BEFORE = {"columns"}
# Of the recipe: evaluations without a better score; of the facts: layers that agree.
OTHER_MEANING = {"patience"}


def complete(**settings: object) -> TaskConfig:
    """The facts of two texts of two labels under a recipe."""
    texts = tuple(TextExample(str(place), "a text", None, int(place > 0)) for place in range(4))
    facts = TaskConfig(task="classification", kind="texts", labels=("no", "yes"), metrics=("accuracy",))
    assignment = Assignment(facts, texts, texts, ())
    return complete_facts(
        assignment, FinetuneSettings.model_validate(settings), limit=512, reporter=NullReporter()
    )


def test_the_table_has_every_setting_that_is_a_fact_of_the_task() -> None:
    shared = set(FinetuneSettings.model_fields) & set(TaskConfig.model_fields)
    assert shared == set(CHANGED) | READ_BEFORE | OTHER_MEANING


@pytest.mark.parametrize("name", CHANGED)
def test_a_setting_of_the_recipe_reaches_the_facts(name: str) -> None:
    usual, changed = complete(), complete(**{name: CHANGED[name]})
    assert getattr(changed, name) != getattr(usual, name)
    if name != "class_weights":  # a word in the recipe, and numbers in the facts
        assert getattr(changed, name) == CHANGED[name]


CLASSES = TaskConfig(task="classification", kind="texts", labels=("a", "b", "c"))
WORDS = TaskConfig(task="words", kind="words", labels=("O", "B-X"))


def test_a_rare_class_counts_for_more():
    labels = [0] * 6 + [1] * 3 + [2]
    weights = count_class_weights([TextExample(str(i), "", None, i) for i in labels], CLASSES)
    assert weights == pytest.approx((10 / 18, 10 / 9, 10 / 3))
    assert sum(weights[label] for label in labels) == pytest.approx(len(labels))
    totals = [weights[place] * labels.count(place) for place in range(3)]
    assert totals == pytest.approx([10 / 3] * 3)


def test_words_are_counted_one_by_one():
    texts = [TokenExample("0", ("w",) * 4, (0, 0, 0, 1)), TokenExample("1", ("w",) * 4, (0, 0, 0, 0))]
    assert count_class_weights(texts, WORDS) == pytest.approx((8 / 14, 8 / 2))


def test_a_class_without_examples_weighs_1():
    weights = count_class_weights([TextExample("0", "", None, 0), TextExample("1", "", None, 1)], CLASSES)
    assert weights[2] == 1.0
    assert all(weight > 0 for weight in weights)


@pytest.mark.parametrize(
    "facts",
    [
        TaskConfig(task="regression", kind="texts", label_kind="number"),
        TaskConfig(task="multilabel", kind="texts", label_kind="several", labels=("a", "b")),
        TaskConfig(task="choice", kind="choices"),
        TaskConfig(task="questions", kind="spans"),
    ],
    ids=lambda facts: facts.task,
)
def test_what_is_no_choice_between_classes_is_not_weighed(facts):
    with pytest.raises(
        InputError, match=f"class_weights=balanced for {facts.task}: only classes of which one"
    ):
        count_class_weights([], facts)
