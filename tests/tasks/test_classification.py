"""Classification and regression: sequences, losses, scores, and early exit."""

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers

from albert.errors import InputError
from albert.model.early_exit import classify_every_layer
from albert.pretrained.folder import load_model, load_vocabulary, save_model
from albert.tasks.catalogue import read_config
from albert.tasks.classification import (
    ClassificationConfig,
    ClassificationTask,
    TextExample,
    iter_encoded_texts,
)
from albert.tasks.models import predict_items, save_finetuned

from .learning import finetune, load_for

LONG = "The ship left the harbour in 1990, and nobody on the quay waved. " * 1600


def test_long_texts_are_truncated_and_counted(tokenizer):
    assert len(LONG) > 100_000
    tokens, short = tokenizer.encode_ids([LONG, "The dog"])
    examples = [TextExample("a", LONG), TextExample("b", LONG, "The dog"), TextExample("c", LONG, LONG)]
    alone, beside_short, twice = iter_encoded_texts(examples, tokenizer=tokenizer, max_length=128)
    assert alone.sequence.ids == (tokenizer.cls_id, *tokens[:126], tokenizer.sep_id)
    assert alone.num_truncated == len(tokens) - 126
    assert beside_short.sequence.ids[1:-1] == (*tokens[: 125 - len(short)], tokenizer.sep_id, *short)
    assert (twice.sequence.num_first, len(twice.sequence.ids)) == (65, 128)
    assert twice.num_truncated == 2 * len(tokens) - 125


def build_task(labels: tuple[str, ...] = (), metric: str = "accuracy", **values: Any) -> ClassificationTask:
    config = ClassificationConfig(task="classification", labels=labels, metrics=(metric,), **values)
    return ClassificationTask(config)


def change(task: ClassificationTask, **values: Any) -> ClassificationTask:
    return replace(task, config=task.config.model_copy(update=values))


def test_regression_is_scored_in_float64():
    """In float32 20240101 and 20240102 are equal."""
    days = [20240101.0 + day for day in range(12)]
    examples = [TextExample(str(day), "the day", None, day) for day in days]
    config = ClassificationConfig(task="regression", label_kind="number", metrics=("pearson", "spearman"))
    found = ClassificationTask(config).score([np.array([day]) for day in days], examples)
    assert found == pytest.approx({"pearson": 100.0, "spearman": 100.0, "score": 100.0})


NOUNS, SIZES = ("dog", "man", "house", "ship"), ("big", "small", "old", "new")
ANIMATE = build_task(("thing", "being"), has_exits=True)
PLAIN = change(ANIMATE, has_exits=False)
TASKS = {
    "one": (build_task(SIZES, has_exits=True), lambda noun, size: SIZES.index(size)),
    "several": (
        build_task(("big", "dog"), "subset_accuracy", label_kind="several", has_exits=True),
        lambda noun, size: tuple(i for i, word in enumerate(("big", "dog")) if word in (noun, size)),
    ),
    "number": (
        build_task(metric="pearson", label_kind="number", has_exits=True),
        lambda noun, size: 0.5 + NOUNS.index(noun),
    ),
}


def is_being(noun, size):
    return int(noun in ("dog", "man"))


def write_texts(number, label=is_being, *, seed=0):
    draw = random.Random(seed)
    texts = []
    for index in range(number):
        noun, size = draw.choice(NOUNS), draw.choice(SIZES)
        text = f"the {noun} was {size}" + " and old" * draw.randint(0, 4)
        texts.append(TextExample(str(index), text, None, label(noun, size)))
    return texts


@pytest.fixture(scope="module")
def trained(tiny_folder, tmp_path_factory):
    """A folder with exits that distinguishes beings from things by one word, which every layer can."""
    path = tmp_path_factory.mktemp("exits")
    train, dev = write_texts(300), write_texts(50, seed=1)
    _, job = finetune(tiny_folder, path, ANIMATE, train=train, dev=dev, num_steps=120)
    config = ANIMATE.config.model_copy(update={"patience": 1})
    tokenizer = load_vocabulary(tiny_folder)
    save_finetuned(path / "best", job.model.eval(), config=config, tokenizer=tokenizer)
    return path / "best"


def compute_loss(task, logits, batch):
    labels = torch.from_numpy(batch.labels)
    if task.config.label_kind == "number":
        return F.mse_loss(logits.squeeze(1), labels, reduction="sum")
    if task.config.label_kind == "several":
        return F.binary_cross_entropy_with_logits(logits, labels, reduction="none").mean(1).sum()
    return F.cross_entropy(logits, labels.long(), reduction="sum")


@pytest.mark.parametrize("name", TASKS)
def test_the_loss_with_exits_is_the_published_mean_over_layers(tiny_folder, name):
    """(1·loss₁ + 2·loss₂ + 3·loss₃) / 6."""
    task, label = TASKS[name]
    model = load_for(task, tiny_folder)
    batch = task.build_batch(task.encode(write_texts(12, label), load_vocabulary(tiny_folder)))
    layers = classify_every_layer(model, batch.build_tokens())
    first, second, third = (compute_loss(task, logits, batch) for logits in layers)
    total, num_correct = task.compute_losses(model, batch)["task"]
    assert total.item() == pytest.approx((first + 2 * second + 3 * third).item() / 6, rel=1e-5)
    plain = change(task, has_exits=False).compute_losses(model, batch)["task"]
    assert num_correct == plain[1]
    assert third.item() == pytest.approx(plain[0].item(), rel=1e-5)


def test_easy_texts_exit_early_with_the_same_score(trained):
    model, texts = load_model(trained).model, write_texts(200, seed=3)
    items = ANIMATE.encode(texts, load_vocabulary(trained))
    early = predict_items(model, change(ANIMATE, patience=1), items, max_tokens=300)
    full = ANIMATE.score(predict_items(model, ANIMATE, items, max_tokens=300), texts)["score"]
    assert full > 95
    assert ANIMATE.score(early, texts)["score"] >= full - 0.5
    with torch.inference_mode():
        found = ANIMATE.predict_early(model, ANIMATE.build_batch(items), patience=1, depth=None)
    assert found.num_layers.mean() < 2.1


def test_numbers_agree_within_the_tolerance(tiny_folder):
    """With a tolerance above all differences, every text exits after the second layer."""
    task, label = TASKS["number"]
    model = load_for(task, tiny_folder)
    batch = task.build_batch(task.encode(write_texts(20, label), load_vocabulary(tiny_folder)))
    for tolerance, num_layers in ((1e6, 2), (1e-9, 3)):
        found = change(task, exit_tolerance=tolerance).predict_early(model, batch, patience=1, depth=None)
        assert set(found.num_layers.tolist()) == {num_layers}


def test_only_models_with_exits_take_a_patience():
    assert ANIMATE.config.with_patience(2).patience == 2
    for config, patience, value in ((PLAIN.config, 2, "has_exits=true"), (ANIMATE.config, 0, "0")):
        with pytest.raises(InputError, match=value):
            config.with_patience(patience)


def test_a_folder_keeps_its_exits_and_patience(trained, tmp_path):
    loaded = load_model(trained)
    assert loaded.new_parts == ()
    assert set(loaded.model.heads) == {"classification", "exits"}
    assert read_config(trained) == ANIMATE.config.model_copy(update={"patience": 1})
    save_model(tmp_path / "again", loaded.model)
    again = load_model(tmp_path / "again", heads=ANIMATE.heads).model.state_dict()
    for name, tensor in loaded.model.state_dict().items():
        assert torch.equal(again[name], tensor)
    with pytest.warns(match="heads.classification, heads.exits"):  # other labels have new heads
        load_model(trained, heads={"classification": 5, "exits": 5})


def test_transformers_predicts_the_same_from_a_folder_with_exits(trained):
    theirs, report = transformers.AutoModelForSequenceClassification.from_pretrained(
        trained, output_loading_info=True
    )
    assert type(theirs).__name__ == "AlbertForSequenceClassification"
    assert not report["missing_keys"]
    assert not report["mismatched_keys"]
    items = ANIMATE.encode(write_texts(5), load_vocabulary(trained))
    ours = predict_items(load_model(trained).model, ANIMATE, items, max_tokens=100)
    for item, logits in zip(items, ours, strict=True):
        with torch.inference_mode():
            found = theirs.eval()(input_ids=torch.tensor([item.sequence.ids])).logits[0]
        assert np.allclose(found, logits, atol=2e-5)
