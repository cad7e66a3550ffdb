"""Words get their labels, whatever the batch and however long the text; entities are found and described."""

import random

import numpy as np
import pytest
import torch

from albert.errors import InputError
from albert.pretrained.folder import load_vocabulary
from albert.tasks.answering import ask_items
from albert.tasks.examples import TokenExample
from albert.tasks.kinds.logits import Floats
from albert.tasks.kinds.words import WordKind
from albert.tasks.task_facts import TaskConfig, build_kind
from tests.conftest import WORDS

from .learning import finetune, load_for

TAGS = ("O", "B-PERSON", "I-PERSON", "B-PLACE", "I-PLACE")
PEOPLE, PLACES = ("man", "woman", "child"), ("house", "river", "town")
SIZES, FILLERS = ("big", "small", "old", "new"), ("went", "to", "and", "saw", "ships", "dogs")
PLAIN = [word for word in WORDS if word.isalpha()]  # a piece each


def write_texts(number: int, *, seed: int) -> list[TokenExample]:
    """A noun is an entity, with the size before it if there is one: each says what the other's label is."""
    draw = random.Random(seed)
    return [write_text(str(place), draw) for place in range(number)]


def write_text(name: str, draw: random.Random) -> TokenExample:
    kind, nouns = draw.choice([("PERSON", PEOPLE), ("PLACE", PLACES)])
    phrase = [*draw.sample(SIZES, draw.randint(0, 1)), draw.choice(nouns)]
    before, after = (draw.choices(FILLERS, k=draw.randint(0, 3)) for _ in range(2))
    inner = [f"B-{kind}", f"I-{kind}"][: len(phrase)]
    tags = [*["O"] * len(before), *inner, *["O"] * len(after)]
    return TokenExample(name, (*before, *phrase, *after), tuple(TAGS.index(tag) for tag in tags))


def as_logits(example: TokenExample, kind: WordKind) -> Floats:
    """What a model that knows the labels would answer."""
    assert example.labels is not None
    return 9.0 * np.equal.outer(example.labels, range(len(kind.labels)))


def draw_words(number: int) -> tuple[str, ...]:
    return tuple(random.Random(0).choices(PLAIN, k=number))


def test_entities_are_learned(tiny_folder, tmp_path):
    outcome, _ = finetune(
        tiny_folder,
        tmp_path,
        WordKind(TAGS),
        train=write_texts(800, seed=1),
        dev=write_texts(100, seed=2),
        num_steps=250,
    )
    assert outcome.progress.figures["score"] > 90
    assert outcome.progress.figures["score"] == outcome.progress.figures["entity_f1"]


def test_answers_do_not_depend_on_the_batch(tiny_folder):
    """Windows of long texts among short texts: each text has its own answer, at every size of batch."""
    kind = WordKind(TAGS, max_length=16)
    model, tokenizer = load_for(kind, tiny_folder), load_vocabulary(tiny_folder)
    texts = [*write_texts(10, seed=3), TokenExample("long", draw_words(90)), TokenExample("empty", ())]
    texts = [*texts, *texts[:3]]
    items = kind.encode(texts, tokenizer)
    alone, together = (ask_items(model, kind, items, max_tokens=size) for size in (1, 100_000))
    assert [answer.shape for answer in alone] == [(len(text.words), len(TAGS)) for text in texts]
    for one, other in zip(alone, together, strict=True):
        assert np.allclose(one, other, atol=1e-5)


def test_a_word_of_a_long_text_is_answered_for_as_if_its_window_were_the_text(tiny_folder):
    """The words are a piece each, so that a window is a text of words by itself."""
    kind = WordKind(TAGS, max_length=22)
    model, tokenizer = load_for(kind, tiny_folder), load_vocabulary(tiny_folder)
    words = draw_words(300)
    windows = kind.encode([TokenExample("long", words)], tokenizer)
    assert len(windows) == 29
    assert [word for window in windows for word in window.words] == list(range(300))
    (answer,) = ask_items(model, kind, windows, max_tokens=500)
    stretches = [TokenExample("", words[window.slide.first : window.slide.end]) for window in windows]
    alone = ask_items(model, kind, kind.encode(stretches, tokenizer), max_tokens=500)
    for window, rows in zip(windows, alone, strict=True):
        own = window.words
        inside = slice(own.start - window.slide.first, own.stop - window.slide.first)
        assert np.allclose(answer[own.start : own.stop], rows[inside], atol=1e-5)


def test_a_word_without_end_is_one_word_and_its_inner_windows_only_read(tiny_folder):
    kind = WordKind(TAGS, max_length=16)
    model, tokenizer = load_for(kind, tiny_folder), load_vocabulary(tiny_folder)
    text = TokenExample("x", ("the", "?" * 100, "dog"), (0, 1, 0))
    items = kind.encode([text], tokenizer)
    assert [kind.teaches(item) for item in items] == [len(item.words) > 0 for item in items]
    assert sum(map(kind.teaches, items)) < len(items)
    assert kind.count(kind.build_batch(items)) == {"task": 3}
    (answer,) = ask_items(model, kind, items, max_tokens=100)
    assert answer.shape == (3, len(TAGS))


def test_a_length_is_known_without_the_sequence(tiny_folder):
    kind = WordKind(TAGS, max_length=16)
    items = kind.encode(
        [TokenExample("long", draw_words(50)), *write_texts(5, seed=4)], load_vocabulary(tiny_folder)
    )
    assert [kind.measure(item) for item in items] == [len(item.sequence.ids) for item in items]


def test_a_batch_without_a_word_reaches_every_weight(tiny_folder):
    """Another process may have words, and waits for a gradient of each weight."""
    kind = WordKind(TAGS)
    model = load_for(kind, tiny_folder).train()
    batch = kind.build_batch(kind.encode([TokenExample("empty", ())], load_vocabulary(tiny_folder)))
    assert kind.count(batch) == {"task": 0}
    total, num_right = kind.compute_terms(model, batch)["task"]
    assert (total.item(), num_right.item()) == (0.0, 0)
    total.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert not parameter.grad.any(), name


def test_texts_without_labels_are_asked_and_count_nothing(tiny_folder):
    kind = WordKind(TAGS)
    model, tokenizer = load_for(kind, tiny_folder), load_vocabulary(tiny_folder)
    (known,) = kind.encode([TokenExample("a", ("the", "dogs"), (1, 0))], tokenizer)
    (unknown,) = kind.encode([TokenExample("b", ("the", "old", "ships"))], tokenizer)
    assert (kind.teaches(known), kind.teaches(unknown)) == (True, False)
    alone, both = (kind.build_batch(items) for items in ([known], [known, unknown]))
    assert kind.count(alone) == kind.count(both) == {"task": 2}
    losses = [kind.compute_terms(model, batch)["task"][0] for batch in (alone, both)]
    assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-5)


def test_rare_labels_can_count_for_more(tiny_folder):
    tokenizer = load_vocabulary(tiny_folder)
    text = TokenExample("a", ("the", "dog", "was", "old"), (1, 1, 1, 1))
    totals = []
    for weights in (None, (0.5, 3.0)):
        kind = WordKind(("no", "yes"), class_weights=weights)
        model = load_for(kind, tiny_folder)
        totals.append(kind.compute_terms(model, kind.build_batch(kind.encode([text], tokenizer)))["task"][0])
    assert totals[1].item() == pytest.approx(3 * totals[0].item(), rel=1e-5)


@pytest.mark.parametrize("labels", [TAGS, ("noun", "verb", "other", "B", "I")])
def test_gold_answers_score_100(labels):
    kind = WordKind(labels)
    texts = write_texts(20, seed=5)
    figures = kind.score([as_logits(text, kind) for text in texts], texts)
    assert set(figures.values()) == {100.0}
    assert kind.has_entities == (labels == TAGS) == ("entity_f1" in figures)


def test_what_is_judged_by():
    """One of two entities is found, with a word too many; of six words five have their label."""
    text = TokenExample("a", ("the", "man", "saw", "the", "town", "."), (1, 2, 0, 3, 4, 0))
    said = as_logits(TokenExample("a", text.words, (1, 2, 2, 3, 4, 0)), WordKind(TAGS))
    figures = WordKind(TAGS).score([said], [text])
    assert figures["entity_f1"] == figures["entity_precision"] == figures["score"] == 50.0
    assert figures["word_accuracy"] == pytest.approx(500 / 6)
    assert WordKind(TAGS, ("word_accuracy",)).score([said], [text])["score"] == pytest.approx(500 / 6)
    words = WordKind(("a", "b", "c", "d", "e")).score([said], [text])
    assert words["score"] == pytest.approx((words["word_accuracy"] + words["macro_f1"]) / 2)


def test_several_models_are_the_mean_of_their_probabilities():
    kind = WordKind(TAGS)
    members = [
        torch.randn(7, len(TAGS), generator=torch.Generator().manual_seed(i)).double() for i in range(3)
    ]
    merged = torch.from_numpy(kind.merge([member.numpy() for member in members]))
    mean = torch.stack([member.softmax(-1) for member in members]).mean(0)
    assert torch.allclose(merged.softmax(-1), mean, atol=1e-12)


def test_entities_are_described_by_their_words():
    kind = WordKind(TAGS, temperature=2.0)
    text = TokenExample("7", ("we", "saw", "the", "old", "man", "."), (0, 0, 1, 2, 2, 0))
    described = kind.describe(as_logits(text, kind), text)
    sure = np.exp(4.5) / (np.exp(4.5) + 4)
    assert described["labels"] == ["O", "O", "B-PERSON", "I-PERSON", "I-PERSON", "O"]
    assert described["words"] == list(text.words)
    assert described["probabilities"] == pytest.approx([sure] * 6)
    (entity,) = described["entities"]
    assert entity.pop("probability") == pytest.approx(sure**3)
    assert entity == {"type": "PERSON", "text": "the old man", "first": 2, "last": 4}
    assert "entities" not in WordKind(("a", "b", "c", "d", "e")).describe(as_logits(text, kind), text)
    assert kind.describe(np.zeros((0, 5)), TokenExample("0", ()))["entities"] == []


def test_wrong_metrics_and_texts_without_labels_are_refused():
    with pytest.raises(InputError, match="no metric 'entity_f1' .* word_accuracy, macro_f1; entities need"):
        WordKind(("noun", "verb"), ("entity_f1",))
    with pytest.raises(InputError, match="no metric 'f1' for these labels; there are entity_f1, "):
        WordKind(TAGS, ("f1",))
    with pytest.raises(InputError, match="text 'x' has no labels"):
        WordKind(TAGS).score([np.zeros((1, 5))], [TokenExample("x", ("dog",))])


def test_the_facts_beside_a_model_make_the_kind():
    facts = TaskConfig(task="words", kind="words", labels=TAGS, max_length=64, temperature=1.5)
    assert build_kind(facts) == WordKind(TAGS, max_length=64, temperature=1.5)
