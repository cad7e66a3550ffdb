"""With the same weights and order of examples, fine-tuning has the losses of `transformers` in every step."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor

from albert.examples.randomness import ExampleOrder
from albert.pretrained.folder import load_vocabulary
from albert.pretrained.names import to_theirs
from albert.progress import NullReporter
from albert.tasks.catalogue import PUBLISHED_TASKS
from albert.tasks.classification import (
    ClassificationConfig,
    ClassificationTask,
    EncodedText,
    TextExample,
)
from albert.tasks.finetune_job import FinetuneJob
from albert.tasks.finetune_settings import FinetuneSettings
from albert.text.folder import load_tokenizer
from albert.training.loop import TrainingLoop
from albert.training.run_folder import iter_records
from tests.conftest import WORDS
from tests.real_data import find_vocabulary, unpack

from .pairs import Pair, build_pair, pad

LIMIT = 1e-3
NO_DROPOUT = dict.fromkeys(
    ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout_prob"), 0.0
)
# With these, gradients are clipped, weights decay, and a step has several micro-batches.
SETTINGS = FinetuneSettings.model_validate(
    {
        "num_steps": 50,
        "batch_size": 32,
        "micro_batch_tokens": 200,
        "optimizer": {"name": "adamw", "learning_rate": 2e-3, "weight_decay": 0.5},
        "schedule": {"name": "linear"},
        "log_every": 1,
        "num_evaluations": 1,
        "has_tensorboard": False,
        "seed": 5,
    }
)


@dataclass(frozen=True)
class PlainLoop:
    """The usual training loop around `AlbertForSequenceClassification`, with our settings."""

    settings: FinetuneSettings

    def train(self, model: Any, items: Sequence[EncodedText], labels: Tensor) -> list[float]:
        """Return the loss of each step."""
        settings, losses = self.settings, []
        optimizer = self.build_optimizer(model)
        schedule = transformers.get_linear_schedule_with_warmup(optimizer, 0, settings.num_steps)
        order = ExampleOrder(len(items), seed=settings.seed)
        for step in range(settings.num_steps or 0):
            parts = order.step(step, batch_size=settings.batch_size)
            numbers = np.concatenate([found for _, found in parts])
            padded = pad([items[number].sequence for number in numbers])
            loss = model(**padded, labels=labels[numbers]).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            losses.append(loss.item())
        return losses

    def build_optimizer(self, model: Any) -> torch.optim.Optimizer:
        """AdamW with the parameter groups of `transformers`."""
        chosen = self.settings.optimizer
        named = dict(model.named_parameters())
        decayed = transformers.Trainer.get_decay_parameter_names(None, model)
        groups = [
            {
                "params": [named[name] for name in named if (name in decayed) == is_decayed],
                "weight_decay": decay,
            }
            for is_decayed, decay in ((True, chosen.weight_decay), (False, 0.0))
        ]
        betas = (chosen.beta1, chosen.beta2)
        return torch.optim.AdamW(groups, lr=chosen.learning_rate, betas=betas, eps=chosen.eps)


def train_ours(
    pair: Pair,
    task: ClassificationTask,
    items: Sequence[EncodedText],
    out: Path,
    *,
    settings: FinetuneSettings,
) -> list[float]:
    """The loss of each step of our loop."""
    texts = [TextExample(item.id, "", None, item.label) for item in items[:8]]
    job = FinetuneJob(pair.ours, task, settings, train=items, dev=items[:8], dev_examples=texts)
    assert TrainingLoop(job, run_dir=out, reporter=NullReporter()).run().is_finished
    return [record["loss"] for record in iter_records(out) if record["kind"] == "train"]


@dataclass(frozen=True)
class Comparison:
    """The losses of both, and the distance of their final weights relative to their change."""

    ours: list[float]
    theirs: list[float]
    weight_gap: float

    @property
    def loss_gap(self) -> float:
        """The largest difference of the losses of a step."""
        return max(abs(a - b) for a, b in zip(self.ours, self.theirs, strict=True))


def compare(
    task: ClassificationTask,
    items: Sequence[EncodedText],
    config: Any,
    out: Path,
    *,
    settings: FinetuneSettings,
) -> Comparison:
    """Train both."""
    pair = build_pair(transformers.AlbertForSequenceClassification, config, out / "start")
    before = {name: weight.detach().clone() for name, weight in pair.theirs.named_parameters()}
    labels = torch.tensor([item.label for item in items])
    ours = train_ours(pair, task, items, out / "run", settings=settings)
    theirs = PlainLoop(settings).train(pair.theirs.train(), items, labels)
    weights = to_theirs({name: w.detach() for name, w in pair.ours.named_parameters()}, pair.folder)
    after = {name: weight.detach() for name, weight in pair.theirs.named_parameters()}
    gaps = torch.stack([(weights[name] - after[name]).norm() for name in after])
    changes = torch.stack([(after[name] - before[name]).norm() for name in after])
    return Comparison(ours, theirs, (gaps.norm() / changes.norm()).item())


def write_texts(*, is_pair: bool = False, is_number: bool = False) -> list[TextExample]:
    """Mostly short texts; the label is the number of certain words."""
    draw, texts = random.Random(3), []
    for index in range(400):
        words = draw.choices(WORDS[5:], k=min(1 + int(draw.expovariate(1 / 8)), 28))
        count = sum(word in ("old", "cold", "night", "left") for word in words)
        cut = draw.randrange(len(words)) if is_pair else len(words)
        first, second = (" ".join(part) for part in (words[:cut], words[cut:]))
        label = count / 2 if is_number else int(count > 0)
        texts.append(TextExample(str(index), first, second if is_pair else None, label))
    return texts


CLASSES = ClassificationTask(
    ClassificationConfig(task="classification", labels=("0", "1"), metrics=("accuracy",), max_length=32)
)
NUMBER = ClassificationTask(
    ClassificationConfig(task="regression", label_kind="number", metrics=("pearson",), max_length=32)
)
CASES = {
    "sentences": (CLASSES, {}, 30),
    "pairs": (CLASSES, {"is_pair": True}, 15),
    "numbers": (NUMBER, {"is_pair": True, "is_number": True}, 15),
}


def compare_tiny(
    folder: Path,
    out: Path,
    task: ClassificationTask,
    texts: list[TextExample],
    num_steps: int,
) -> Comparison:
    num_labels = task.config.num_outputs
    config = transformers.AlbertConfig.from_pretrained(folder, num_labels=num_labels, **NO_DROPOUT)
    items = task.encode(texts, load_vocabulary(folder))
    settings = SETTINGS.model_copy(update={"num_steps": num_steps})
    return compare(task, items, config, out, settings=settings)


@pytest.mark.parametrize(("task", "how", "num_steps"), CASES.values(), ids=CASES)
def test_losses_and_weights_are_the_same(tiny_folder, tmp_path, task, how, num_steps):
    found = compare_tiny(tiny_folder, tmp_path, task, write_texts(**how), num_steps)
    assert len(found.ours) == num_steps
    assert found.ours[-1] < 0.8 * found.ours[0]
    assert found.loss_gap <= LIMIT
    assert found.weight_gap <= 0.01


@pytest.mark.slow
def test_fifty_steps_of_sst_2(tmp_path):
    """Real sentences in the published vocabulary; shared layers as in base, but narrow and few."""
    definition = PUBLISHED_TASKS["sst-2"]
    examples = definition.read_split(unpack("glue", tmp_path, under="SST-2"), "train").examples[:1600]
    task = ClassificationTask(definition.config.model_copy(update={"max_length": 128}))
    items = task.encode(examples, load_tokenizer(find_vocabulary()))
    shape = {"hidden_size": 64, "num_hidden_layers": 6, "num_attention_heads": 4, "intermediate_size": 256}
    config = transformers.AlbertConfig(**shape, num_labels=2, **NO_DROPOUT)
    optimizer = SETTINGS.optimizer.model_copy(update={"learning_rate": 5e-4, "weight_decay": 0.01})
    settings = SETTINGS.model_copy(update={"optimizer": optimizer})
    found = compare(task, items, config, tmp_path, settings=settings)
    assert len(found.ours) == 50
    assert found.loss_gap <= LIMIT
    assert found.weight_gap <= 0.01
