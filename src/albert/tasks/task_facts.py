"""What a fine-tuned model has learned to answer: facts come in with its folder, and the kind goes out."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from albert.errors import InputError
from albert.files import read_json, write_json
from albert.settings import Settings, build_settings
from albert.tasks.kinds.kind import Kind
from albert.tasks.kinds.logits import LabelKind

KindName = Literal["texts", "words", "spans", "choices"]
TASK_NAME = "task.json"


class TaskFacts(Settings):
    """All that is needed to ask a model what it was fine-tuned for, and to score it.

    `task` is a published one or the name of a kind of table. Without `labels` a text gets a number.
    `temperature` makes probabilities honest. Of questions: windows overlap by `stride` pieces, and where
    `has_impossible`, one whose odds for no answer lie above `threshold` has none. Of choices: question and
    option keep `max_ending` pieces.
    """

    task: str
    kind: KindName
    label_kind: LabelKind = "one"
    labels: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    columns: dict[str, Any] = Field(default_factory=dict)
    max_length: Annotated[int, Field(ge=8)] = 128
    class_weights: tuple[float, ...] | None = None
    temperature: PositiveFloat = 1.0
    stride: PositiveInt = 128
    max_question: PositiveInt = 64
    max_answer: PositiveInt = 30
    has_impossible: bool = False
    threshold: float | None = None
    max_ending: PositiveInt = 128


def build_kind(facts: TaskFacts) -> Kind[Any, Any, Any, Any, Any]:
    """The kind that trains, asks and scores such a model."""
    if facts.kind == "texts":
        from albert.tasks.kinds.texts import TextKind

        return TextKind(
            labels=facts.labels,
            metrics=facts.metrics,
            label_kind=facts.label_kind,
            max_length=facts.max_length,
            class_weights=facts.class_weights,
            temperature=facts.temperature,
        )
    raise InputError(f"the kind {facts.kind!r} cannot be trained yet")


def write_facts(folder: Path, facts: TaskFacts) -> None:
    """Put the facts beside the weights."""
    write_json(folder / TASK_NAME, facts.model_dump(mode="json"))


def read_facts(folder: Path) -> TaskFacts | None:
    """What a model folder was fine-tuned for; None where it does not say."""
    path = folder / TASK_NAME
    return build_settings(TaskFacts, values=read_json(path), source=str(path)) if path.exists() else None
