"""What a recipe says of a task reaches the model that is trained: no setting is taken and then forgotten."""

import pytest

from albert.reporting import Silence
from albert.tasks.assignment import Assignment
from albert.tasks.examples import TextExample
from albert.tasks.finetune_settings import FinetuneSettings
from albert.tasks.finetune import complete_facts
from albert.tasks.task_facts import TaskFacts

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


def complete(**settings: object) -> TaskFacts:
    """The facts of two texts of two labels under a recipe."""
    texts = tuple(TextExample(str(place), "a text", None, int(place > 0)) for place in range(4))
    facts = TaskFacts(task="classification", kind="texts", labels=("no", "yes"), metrics=("accuracy",))
    assignment = Assignment(facts, texts, texts, ())
    return complete_facts(
        assignment, FinetuneSettings.model_validate(settings), limit=512, reporter=Silence()
    )


def test_the_table_has_every_setting_that_is_a_fact_of_the_task() -> None:
    shared = set(FinetuneSettings.model_fields) & set(TaskFacts.model_fields)
    assert shared == set(CHANGED) | READ_BEFORE | OTHER_MEANING


@pytest.mark.parametrize("name", CHANGED)
def test_a_setting_of_the_recipe_reaches_the_facts(name: str) -> None:
    usual, changed = complete(), complete(**{name: CHANGED[name]})
    assert getattr(changed, name) != getattr(usual, name)
    if name != "class_weights":  # a word in the recipe, and numbers in the facts
        assert getattr(changed, name) == CHANGED[name]
