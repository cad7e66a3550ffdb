"""Fine-tuned models: load a folder, predict, save a folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from albert.errors import InputError, WeightsError
from albert.files import format_json, read_json
from albert.inference.backends import open_model
from albert.inference.predictor import iter_batches
from albert.model.albert_model import AlbertModel
from albert.model.config import ModelConfig
from albert.model.runtime import RuntimeSettings, autocast, select_device
from albert.pretrained.folder import check_vocabulary, load_vocabulary, save_model
from albert.pretrained.hub import resolve_source
from albert.pretrained.huggingface import TASK_NAME
from albert.tasks.catalogue import build_task, read_config
from albert.tasks.task import (
    AnswerT,
    AnyTask,
    Example,
    ExampleT,
    ItemT,
    LabelsT,
    Task,
    TaskConfig,
    count_outputs,
)
from albert.text.folder import JSON_NAME
from albert.text.tokenizer import Tokenizer
from albert.training.distributed import DistributedContext

MAX_BATCH_TOKENS = 4096
_PRETRAINING_HEADS = {"mlm", "sop", "nsp"}
_MAX_DIFFERING = 0.5  # of the tokens; libraries spell some special tokens differently


@dataclass
class FinetunedModel:
    """A fine-tuned model with its tokenizer and task; `num_truncated` counts truncated examples."""

    name: str
    model: AlbertModel
    tokenizer: Tokenizer
    task: AnyTask
    runtime: RuntimeSettings = field(default_factory=RuntimeSettings)
    num_truncated: int = 0

    def predict(self, examples: Sequence[Example], *, depth: int | None = None) -> list[object]:
        """Predict an answer for each example, in the form of the task type."""
        items = self.task.encode(examples, self.tokenizer)
        self.num_truncated += sum(item.is_truncated for item in items)
        with autocast(select_device(self.runtime.device), self.runtime.precision):
            return predict_items(self.model, self.task, items, max_tokens=MAX_BATCH_TOKENS, depth=depth)

    def describe_truncated(self, num_examples: int) -> list[str]:
        """List a warning about truncated examples, if there are any."""
        if not self.num_truncated:
            return []
        limit = self.model.config.max_position_embeddings
        warning = self.task.describe_truncated(self.num_truncated, num_examples, max_positions=limit)
        return [f"{self.name}: {warning}"]

    def with_patience(self, patience: int | None) -> "FinetunedModel":
        """Return the model with a patience for early exit; None keeps it as it is."""
        if patience is None:
            return self
        return replace(self, task=build_task(self.task.config.with_patience(patience)))


def load_finetuned(
    source: str | Path,
    *,
    target: TaskConfig | None = None,
    runtime: RuntimeSettings | None = None,
    backend: str = "torch",
    is_shared: bool = False,
) -> FinetunedModel:
    """Load a fine-tuned model.

    Args:
        source: Folder, run or hub name.
        target: The task of a folder of another library, without task.json; its labels are used unless the
            folder has names of its own.
        runtime: Device and precision.
        backend: torch, or onnx or onnx-int8 for an exported folder.
        is_shared: Share the memory of the weights with other processes of this machine.

    Raises:
        InputError: If the folder is for another task type or has no head for the task.
    """
    runtime = runtime or RuntimeSettings()
    path = resolve_source(source)
    config = read_config(path)
    if config is None and target is None:
        raise InputError(f"{source}: has no task.json; give a model written by albert finetune")
    loaded, runtime = open_model(path, runtime=runtime, backend=backend, is_shared=is_shared)
    if config is None:
        assert target is not None
        heads, names = loaded.model.heads.keys(), build_task(target).head_names
        if names and heads <= _PRETRAINING_HEADS:
            raise InputError(
                f"{source}: is only pretrained (heads: {', '.join(heads) or 'none'}); run `albert finetune "
                f"{target.task}` first, and give its --out as the model"
            )
        target.check_outputs(str(source), loaded)
        config = target.adapt(loaded)
    task = build_task(config)
    check_heads(str(source), loaded.model, task)
    tokenizer = load_vocabulary(path)
    check_vocabulary(loaded.config, tokenizer)
    return FinetunedModel(str(source), loaded.model, tokenizer, task, runtime)


def check_heads(source: str, model: AlbertModel, task: AnyTask) -> None:
    """Raise `InputError` for a model without the heads of its task, or with another number of outputs."""
    for head, expected in task.heads.items():
        found = count_outputs(model, head)
        if expected is not None and found is not None and found != expected:
            raise InputError(
                f"{source}: has {found} outputs, but the task has {expected}; give a model of this task"
            )


@torch.inference_mode()
def predict_items(
    model: AlbertModel,
    task: Task[ExampleT, ItemT, LabelsT, AnswerT],
    items: Sequence[ItemT],
    *,
    max_tokens: int,
    depth: int | None = None,
    context: DistributedContext | None = None,
) -> list[AnswerT]:
    """Predict items in batches of similar length, shared by all processes; each returns all answers."""
    context = context or DistributedContext()
    own: dict[int, AnswerT] = {}
    rows = iter_batches([item.num_tokens for item in items], max_tokens=max_tokens)
    for number, indices in enumerate(rows):
        if number % context.size == context.rank:
            batch = task.build_batch([items[index] for index in indices])
            own.update(zip(indices, task.predict(model, batch, depth=depth), strict=True))
    answers = {index: answer for part in context.gather(own) for index, answer in part.items()}
    return task.aggregate(items, [answers[index] for index in range(len(items))])


def save_finetuned(
    path: Path,
    model: AlbertModel,
    *,
    config: TaskConfig,
    tokenizer: Tokenizer,
    card: str | None = None,
    labels: Sequence[str] = (),
    extras: Mapping[str, str] | None = None,
) -> None:
    """Save a model with its task in a folder that `transformers` and sentence-transformers open, too.

    Args:
        path: The folder.
        model: The model with the head of its task.
        config: The config of the task.
        tokenizer: The tokenizer.
        card: The model card.
        labels: Names of the outputs, for a config without.
        extras: Other files, by name.
    """
    options = config.list_folder_options(model, labels=labels)
    files = {
        **(extras or {}),
        TASK_NAME: format_json(config.model_dump(mode="json")),
        **options.pop("extras", {}),
    }
    save_model(path, model, tokenizer=tokenizer, card=card, extras=files, **options)


def load_own_vocabulary(path: Path, config: ModelConfig) -> Tokenizer:
    """Load the tokenizer of a model folder; raise `WeightsError` if it does not belong to the model."""
    tokenizer = load_vocabulary(path)
    try:
        check_vocabulary(config, tokenizer)
    except WeightsError as error:
        raise WeightsError(f"{path}: {error}") from error
    folder = path if path.is_dir() else path.parent
    if (folder / JSON_NAME).exists() and (folder / tokenizer.vocab_name).exists():
        # If the two vocabulary files differ, one of them was replaced.
        content = read_json(folder / JSON_NAME)
        model = content.get("model") if isinstance(content, dict) else None
        vocab = model.get("vocab") if isinstance(model, dict) else None
        # WordPiece has a table of ids, Unigram a list of tokens with their scores.
        others: list[str] = [row[0] for row in vocab] if isinstance(vocab, list) else []
        if isinstance(vocab, dict):
            others = sorted(vocab, key=vocab.__getitem__)
        number = min(len(others), tokenizer.vocab_size)
        num_differing = sum(tokenizer.token(index) != others[index] for index in range(number))
        if num_differing > _MAX_DIFFERING * number:
            raise WeightsError(
                f"{folder}: {num_differing:,} of {number:,} tokens in {tokenizer.vocab_name} differ from "
                f"{JSON_NAME}; restore the vocabulary that the model was trained with"
            )
    return tokenizer
