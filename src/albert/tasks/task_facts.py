"""What a fine-tuned model has learned to answer: facts come in with its folder, and the kind goes out."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from albert.errors import InputError
from albert.files import format_json, read_json
from albert.pretrained.huggingface import TASK_NAME
from albert.settings import Settings, build_settings
from albert.tasks.kinds.kind import Kind
from albert.tasks.kinds.logits import LabelKind

KindName = Literal["texts", "words", "spans", "choices", "embedding"]


class TaskFacts(Settings):
    """All that is needed to ask a model what it was fine-tuned for, and to score it.

    `task` is a published one or the name of a kind of table. Without `labels` a text gets a number.
    `temperature` makes probabilities honest. Of questions: each window begins `stride` pieces further, an
    answer has at most `max_answer` pieces, and where `has_impossible`, a question whose odds for no answer
    lie above `threshold` has none. Of choices: question and option keep `max_ending` pieces. Of texts: a
    model that `has_exits` has a classifier after each layer and leaves out the rest once `patience` layers in
    a row agree with the one before; None runs all of them. Numbers agree that are less than `exit_tolerance`
    apart. Of embeddings: cosines are divided by `similarity_temperature` in training, and pairs whose number
    is below `min_similarity` teach nothing. `learned_from` are hashes of the examples that were learned from,
    alone and with those kept from them; `tuned_on` is that of the examples by which temperature and threshold
    were chosen.
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
    has_exits: bool = False
    patience: PositiveInt | None = None
    exit_tolerance: PositiveFloat = 0.5
    similarity_temperature: PositiveFloat = 0.05
    min_similarity: float = 4.0
    learned_from: tuple[str, ...] = ()
    tuned_on: str = ""

    def fit_lengths(self, length: int) -> dict[str, int]:
        """Lengths for sequences of `length`: short windows leave room beside the question, and overlap."""
        return {
            "max_length": length,
            "max_question": min(self.max_question, length // 2),
            "stride": min(self.stride, max(1, length // 3)),
            "max_ending": min(self.max_ending, length // 2),
        }


def build_kind(facts: TaskFacts) -> Kind[Any, Any, Any, Any, Any]:
    """The kind that trains, asks and scores such a model."""
    _check_exits(facts)
    if facts.kind == "texts":
        from albert.tasks.kinds.exits import ExitTextKind
        from albert.tasks.kinds.texts import TextKind

        texts = TextKind(
            labels=facts.labels,
            metrics=facts.metrics,
            label_kind=facts.label_kind,
            max_length=facts.max_length,
            class_weights=facts.class_weights,
            temperature=facts.temperature,
        )
        if not facts.has_exits:
            return texts
        return ExitTextKind(**vars(texts), patience=facts.patience, tolerance=facts.exit_tolerance)
    if facts.kind == "words":
        from albert.tasks.kinds.words import WordKind

        return WordKind(
            labels=facts.labels,
            metrics=facts.metrics,
            max_length=facts.max_length,
            class_weights=facts.class_weights,
            temperature=facts.temperature,
        )
    if facts.kind == "spans":
        from albert.tasks.kinds.spans import SpanKind

        return SpanKind(
            has_impossible=facts.has_impossible,
            max_length=facts.max_length,
            stride=facts.stride,
            max_question=facts.max_question,
            max_answer=facts.max_answer,
            threshold=facts.threshold,
        )
    if facts.kind == "choices":
        from albert.tasks.kinds.choices import ChoiceKind

        return ChoiceKind(
            metrics=facts.metrics or ("accuracy",),
            max_length=facts.max_length,
            max_ending=facts.max_ending,
            temperature=facts.temperature,
        )
    assert facts.kind == "embedding", "all kinds are above"
    from albert.tasks.kinds.embedding import EmbeddingKind

    return EmbeddingKind(
        max_length=facts.max_length,
        similarity_temperature=facts.similarity_temperature,
        min_similarity=facts.min_similarity,
    )


def _check_exits(facts: TaskFacts) -> None:
    """Only texts can be answered early, and only by a model that was trained to."""
    if facts.has_exits and facts.kind != "texts":
        raise InputError(
            f"has_exits=true for {facts.kind}: only texts that get labels or a number can be answered early; "
            "leave it out"
        )
    if facts.patience is not None and not facts.has_exits:
        raise InputError(
            f"patience is {facts.patience}, but this model answers after its last layer only; fine-tune it "
            "with has_exits=true"
        )


def format_facts(facts: TaskFacts) -> str:
    """What task.json says, beside the weights."""
    return format_json(facts.model_dump(mode="json"))


def read_facts(source: Path) -> TaskFacts | None:
    """What a model folder, or that of a weights file, was fine-tuned for; None where it does not say."""
    path = (source.parent if source.is_file() else source) / TASK_NAME
    return build_settings(TaskFacts, values=read_json(path), source=str(path)) if path.exists() else None


def describe_labels(kind: LabelKind) -> str:
    """What a model with such labels gives, in words."""
    return {"one": "one label", "several": "several labels at once", "number": "a number"}[kind]
