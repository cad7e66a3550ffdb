"""Texts with and without early exit: losses, answers and scores."""

import random
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file, save_file

from albert.errors import InputError, WeightsError
from albert.model.early_exit import classify_every_layer
from albert.pretrained.folder import load_model, load_vocabulary, save_model
from albert.pretrained.huggingface import TASK_NAME
from albert.tasks.answering import ask_items
from albert.tasks.examples import TextExample
from albert.tasks.kinds.texts import ExitTextKind, TextKind
from albert.tasks.task_facts import TaskConfig, build_kind, format_facts

from .learning import finetune, load_for


def test_numbers_are_right_to_their_last_digit():
    """In 32 bits dates are told apart by even days only, and a model that is always right is not the best."""
    days = [20240101.0 + day for day in range(12)]
    examples = [TextExample(str(day), "the day", None, day) for day in days]
    kind = TextKind((), ("pearson", "spearman"), "number")
    found = kind.score([np.array([day]) for day in days], examples)
    assert found == {
        "pearson": pytest.approx(100.0),
        "spearman": pytest.approx(100.0),
        "score": pytest.approx(100.0),
    }


NOUNS, SIZES = ("dog", "man", "house", "ship"), ("big", "small", "old", "new")
ANIMATE = ExitTextKind(("thing", "being"), ("accuracy",))
KINDS = {
    "one": (ExitTextKind(SIZES, ("accuracy",)), lambda noun, size: SIZES.index(size)),
    "several": (
        ExitTextKind(("big", "dog"), ("subset_accuracy",), "several"),
        lambda noun, size: tuple(place for place, word in enumerate(("big", "dog")) if word in (noun, size)),
    ),
    "number": (ExitTextKind((), ("pearson",), "number"), lambda noun, size: 0.5 + NOUNS.index(noun)),
}


def is_being(noun, size):
    return int(noun in ("dog", "man"))


def write_texts(number, label=is_being, *, seed=0):
    draw = random.Random(seed)
    texts = []
    for place in range(number):
        noun, size = draw.choice(NOUNS), draw.choice(SIZES)
        text = f"the {noun} was {size}" + " and old" * draw.randint(0, 4)
        texts.append(TextExample(str(place), text, None, label(noun, size)))
    return texts


@pytest.fixture(scope="module")
def trained(tiny_folder, tmp_path_factory):
    """A folder that knows beings from things, which one word says: every layer can."""
    place = tmp_path_factory.mktemp("exits")
    _, job = finetune(
        tiny_folder, place, ANIMATE, train=write_texts(300), dev=write_texts(50, seed=1), num_steps=120
    )
    tokenizer = load_vocabulary(tiny_folder)
    save_model(place / "best", job.model.eval(), tokenizer=tokenizer, labels=ANIMATE.labels)
    facts = TaskConfig(
        task="one", kind="texts", labels=ANIMATE.labels, metrics=ANIMATE.metrics, has_exits=True, patience=1
    )
    (place / "best" / TASK_NAME).write_text(format_facts(facts))
    return place / "best"


def find_losses(kind, logits, batch):
    """Of each layer, the sum over the sequences."""
    answers = torch.from_numpy(batch.answers)
    if kind.label_kind == "number":
        return [F.mse_loss(one.squeeze(1), answers, reduction="sum") for one in logits]
    if kind.label_kind == "several":
        return [
            F.binary_cross_entropy_with_logits(one, answers, reduction="none").mean(1).sum() for one in logits
        ]
    return [F.cross_entropy(one, answers.long(), reduction="sum") for one in logits]


@pytest.mark.parametrize("name", KINDS)
def test_the_loss_is_the_published_mean_of_the_layers(tiny_folder, name):
    """(1·loss₁ + 2·loss₂ + 3·loss₃) / 6."""
    kind, label = KINDS[name]
    model = load_for(kind, tiny_folder)
    batch = kind.build_batch(kind.encode(write_texts(12, label), load_vocabulary(tiny_folder)))
    first, second, third = find_losses(kind, classify_every_layer(model, batch.build_tokens()), batch)
    total, hits = kind.compute_terms(model, batch)["task"]
    assert total.item() == pytest.approx((first + 2 * second + 3 * third).item() / 6, rel=1e-5)
    plain = TextKind(kind.labels, kind.metrics, kind.label_kind).compute_terms(model, batch)["task"]
    assert hits == plain[1]
    assert third.item() == pytest.approx(plain[0].item(), rel=1e-5)


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_of_label_is_learned_by_every_layer(tiny_folder, tmp_path, name):
    kind, label = KINDS[name]
    dev = write_texts(60, label, seed=2)
    _, job = finetune(tiny_folder, tmp_path, kind, train=write_texts(300, label), dev=dev, num_steps=120)
    early = replace(kind, patience=1)
    for asked, depth in ((kind, None), (kind, 1), (kind, 2), (early, None)):
        answers = ask_items(job.model.eval(), asked, job.dev, max_tokens=200, depth=depth)
        assert kind.score(answers, dev)["score"] > 90


def test_easy_texts_leave_early_with_the_same_answers(trained):
    model, kind = load_model(trained).model, replace(ANIMATE, patience=1)
    texts = write_texts(200, seed=3)
    items = kind.encode(texts, load_vocabulary(trained))
    answers = ask_items(model, kind, items, max_tokens=300)
    whole = ask_items(model, ANIMATE, items, max_tokens=300)
    assert kind.score(answers, texts)["score"] >= kind.score(whole, texts)["score"] - 0.5
    assert kind.score(whole, texts)["score"] > 95
    with torch.inference_mode():
        found = kind.answer(model, kind.build_batch(items))
    assert found.num_layers.mean() < 2.1


@pytest.mark.parametrize("name", KINDS)
def test_answers_do_not_depend_on_the_batch(tiny_folder, name):
    kind, label = KINDS[name]
    model = load_for(kind, tiny_folder)
    items = kind.encode(write_texts(64, label), load_vocabulary(tiny_folder))
    for patience in (1, 2, 3):
        early = replace(kind, patience=patience)
        with torch.inference_mode():
            alone = [early.answer(model, early.build_batch([item])) for item in items]
            together = [early.answer(model, early.build_batch(items[i : i + 32])) for i in (0, 32)]
        assert np.array_equal(
            *(np.concatenate([one.num_layers for one in part]) for part in (alone, together))
        )
        logits = [torch.cat([one.logits_BK for one in part]) for part in (alone, together)]
        assert torch.allclose(*logits, atol=1e-5)


def test_without_patience_it_is_the_model_without_exits(trained):
    model = load_model(trained).model
    items = ANIMATE.encode(write_texts(40), load_vocabulary(trained))
    plain = TextKind(ANIMATE.labels, ANIMATE.metrics)
    assert np.array_equal(*(ask_items(model, kind, items, max_tokens=300) for kind in (plain, ANIMATE)))
    patient = ask_items(model, replace(ANIMATE, patience=3), items, max_tokens=300)
    assert np.allclose(patient, ask_items(model, plain, items, max_tokens=300), atol=1e-6)


def test_a_folder_keeps_its_exits(trained, tmp_path):
    loaded = load_model(trained)
    assert loaded.new_parts == ()
    assert dict.fromkeys(loaded.model.heads) == {"classification": None, "exits": None}
    save_model(tmp_path / "again", loaded.model)
    again = load_model(tmp_path / "again", heads=ANIMATE.heads).model.state_dict()
    for name, tensor in loaded.model.state_dict().items():
        assert torch.equal(again[name], tensor)


def test_transformers_opens_the_folder_and_gives_the_answer_of_all_layers(trained):
    theirs, report = transformers.AutoModelForSequenceClassification.from_pretrained(
        trained, output_loading_info=True
    )
    assert type(theirs).__name__ == "AlbertForSequenceClassification"
    assert not report["missing_keys"]
    assert not report["mismatched_keys"]
    items = ANIMATE.encode(write_texts(5), load_vocabulary(trained))
    ours = ask_items(load_model(trained).model, ANIMATE, items, max_tokens=100)
    for item, logits in zip(items, ours, strict=True):
        with torch.inference_mode():
            found = theirs.eval()(input_ids=torch.tensor([item.sequence.ids])).logits[0]
        assert np.allclose(found, logits, atol=2e-5)


def test_a_file_that_lacks_an_exit_is_refused(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "m")
    weights = load_file(tmp_path / "m" / "model.safetensors")
    for name, cause in (
        ("exit_classifiers.1.bias", "lacks heads.exits.1.linear.bias"),
        ("exit_classifiers.0.weight", "a part of the exits head but no heads.exits.0.linear.weight"),
    ):
        del weights[name]
        save_file(weights, tmp_path / "m" / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(WeightsError, match=cause):
            load_model(tmp_path / "m")


def test_other_labels_start_with_fresh_exits(trained):
    with pytest.warns(match="no weights for heads.classification, heads.exits; started fresh"):
        load_model(trained, heads={"classification": 5, "exits": 5})


def test_the_facts_beside_a_model_say_how_patient_it_is():
    facts = TaskConfig(task="one", kind="texts", labels=("no", "yes"), has_exits=True, patience=2)
    assert build_kind(facts) == ExitTextKind(("no", "yes"), (), patience=2)
    assert type(build_kind(facts.model_copy(update={"has_exits": False, "patience": None}))) is TextKind
    with pytest.raises(InputError, match="patience is 2, but this model answers after its last layer only"):
        build_kind(facts.model_copy(update={"has_exits": False}))
    with pytest.raises(InputError, match="has_exits=true for words: only texts"):
        build_kind(TaskConfig(task="ner", kind="words", labels=("O",), has_exits=True))


def test_numbers_agree_when_they_are_close():
    kind = ExitTextKind((), ("pearson",), "number", tolerance=0.25)
    before, now = torch.tensor([[1.0], [1.0], [1.0]]), torch.tensor([[1.2], [1.3], [0.8]])
    assert kind._agree(before, now).tolist() == [True, False, True]
