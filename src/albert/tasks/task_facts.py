"""The config of a fine-tuned model (task.json), and the task type that it is built into."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from albert.errors import InputError
from albert.files import format_json, read_json
from albert.pretrained.huggingface import TASK_NAME
from albert.settings import Settings, build_settings
from albert.tasks.kinds.logits import LabelKind

if TYPE_CHECKING:
    from albert.tasks.kinds.kind import AnyKind

KindName = Literal["texts", "words", "spans", "choices", "embedding"]


class TaskConfig(Settings):
    """The config of a fine-tuned model.

    `task` is a published one or a task type. Without `labels` a text gets a number. `temperature` calibrates
    the probabilities. For questions: each window begins `stride` tokens further, an answer has at most
    `max_answer` tokens, and with `has_impossible`, a question whose odds for no answer lie above `threshold`
    has none. For choices: question and option keep `max_ending` tokens. For texts: a model that `has_exits`
    has a classifier after each layer and skips the rest once `patience` layers in a row agree with the one
    before; None runs all of them. Numbers agree that are less than `exit_tolerance` apart. For embeddings:
    cosines are divided by `similarity_temperature` in training, and pairs whose number is below
    `min_similarity` are not trained on. `learned_from` are hashes of the training examples, alone and with
    the dev set; `tuned_on` is that of the dev set, on which temperature and threshold were chosen.
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


def build_kind(facts: TaskConfig) -> "AnyKind":
    """Build the task type that trains, predicts and scores such a model."""
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
    if facts.kind == "texts":
        from albert.tasks.kinds.texts import ExitTextKind, TextKind

        texts = _select(facts, "labels metrics label_kind max_length class_weights temperature")
        if not facts.has_exits:
            return TextKind(**texts)
        return ExitTextKind(**texts, patience=facts.patience, tolerance=facts.exit_tolerance)
    if facts.kind == "words":
        from albert.tasks.kinds.words import WordKind

        return WordKind(**_select(facts, "labels metrics max_length class_weights temperature"))
    if facts.kind == "spans":
        from albert.tasks.kinds.spans import SpanKind

        return SpanKind(
            **_select(facts, "has_impossible max_length stride max_question max_answer threshold")
        )
    if facts.kind == "choices":
        from albert.tasks.kinds.choices import ChoiceKind

        metrics = facts.metrics or ("accuracy",)
        return ChoiceKind(metrics=metrics, **_select(facts, "max_length max_ending temperature"))
    from albert.tasks.kinds.embedding import EmbeddingKind

    return EmbeddingKind(**_select(facts, "max_length similarity_temperature min_similarity"))


def _select(facts: TaskConfig, names: str) -> dict[str, Any]:
    return {name: getattr(facts, name) for name in names.split()}


def format_facts(facts: TaskConfig) -> str:
    """What task.json says, beside the weights."""
    return format_json(facts.model_dump(mode="json"))


def read_facts(source: Path) -> TaskConfig | None:
    """What a model folder, or that of a weights file, was fine-tuned for; None where it does not say."""
    path = (source.parent if source.is_file() else source) / TASK_NAME
    return build_settings(TaskConfig, values=read_json(path), source=str(path)) if path.exists() else None


def describe_labels(kind: LabelKind) -> str:
    """What a model with such labels gives, in words."""
    return {"one": "one label", "several": "several labels at once", "number": "a number"}[kind]
