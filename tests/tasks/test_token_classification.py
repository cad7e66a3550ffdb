"""Token classification: words and tokens, windows, losses, entities and scores."""

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albert.errors import InputError
from albert.pretrained.folder import load_vocabulary
from albert.tasks.models import predict_items
from albert.tasks.task import Floats
from albert.tasks.token_classification import (
    TokenClassificationConfig,
    TokenClassificationTask,
    TokenExample,
    WordWindow,
    iter_encoded_words,
)
from tests.conftest import WORDS

from .learning import finetune, load_for

TAGS = ("O", "B-PERSON", "I-PERSON", "B-PLACE", "I-PLACE")
PEOPLE, PLACES = ("man", "woman", "child"), ("house", "river", "town")
SIZES, FILLERS = ("big", "small", "old", "new"), ("went", "to", "and", "saw", "ships", "dogs")
PLAIN = [word for word in WORDS if word.isalpha()]  # one token each
LETTERS = ("a", "b", "c", "d", "e")


def build_task(labels: tuple[str, ...] = TAGS, **values: Any) -> TokenClassificationTask:
    return TokenClassificationTask(
        TokenClassificationConfig(task="token-classification", labels=labels, **values)
    )


def encode(tokenizer, words, *, labels=None, max_length: int = 512, stride: int | None = None):
    """The encoded text and its windows."""
    example = TokenExample("x", tuple(words), labels)
    (encoded,) = iter_encoded_words([example], tokenizer=tokenizer, max_length=max_length, stride=stride)
    return encoded, [WordWindow(encoded, window) for window in encoded.windows]


def join(parts) -> list[int]:
    return [each for part in parts for each in part]


any_words = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("theship1,.\u0301\u200b éﬁ½`文 \t🚢"),
    max_size=12,
)


@settings(deadline=None)
@given(st.lists(any_words, min_size=1, max_size=40), st.integers(4, 24), st.data())
def test_every_word_has_one_token_in_one_window(tokenizer, words, max_length, data):
    labels = tuple(data.draw(st.lists(st.integers(0, 8), min_size=len(words), max_size=len(words))))
    stride = data.draw(st.none() | st.integers(1, max_length))
    encoded, windows = encode(tokenizer, words, labels=labels, max_length=max_length, stride=stride)
    for window in windows:
        ids = window.sequence.ids
        assert window.num_tokens == len(ids) <= max_length
        assert all(1 <= position < len(ids) - 1 for position in window.positions)
        assert [ids[position] for position in window.positions] == [
            encoded.tokens[encoded.firsts[word]] for word in window.words
        ]
    assert join(window.labels for window in windows) == list(labels)
    assert join(window.words for window in windows) == list(range(len(labels)))


@settings(deadline=None)
@given(st.lists(any_words, min_size=1, max_size=20))
def test_tokens_are_those_of_the_words_joined_by_spaces(tokenizer, words):
    encoded, _ = encode(tokenizer, words)
    joined = tokenizer.encode_ids([" ".join(words)])[0]
    ours, theirs = ([each for each in ids if each != tokenizer.unk_id] for ids in (encoded.tokens, joined))
    assert ours == theirs


def test_the_first_token_of_a_word_has_its_label(wordpiece):
    _, (window,) = encode(wordpiece, ["unwantable", "ships", "walked"], labels=(3, 4, 5))
    spelled = [wordpiece.token(token) for token in window.sequence.ids]
    assert spelled == ["[CLS]", "unwant", "##able", "ship", "##s", "walk", "##ed", "[SEP]"]
    assert window.positions == (1, 3, 5)
    assert window.labels == (3, 4, 5)


def test_words_without_tokens_are_unknown_tokens(tokenizer):
    encoded, (window,) = encode(tokenizer, ["", "the", "\u0301", " ", "ship", ""], labels=(0, 1, 2, 3, 4, 5))
    firsts = [encoded.tokens[first] for first in encoded.firsts]
    assert [firsts[index] for index in (0, 2, 3, 5)] == [tokenizer.unk_id] * 4
    assert tokenizer.unk_id not in (firsts[1], firsts[4])
    assert window.labels == (0, 1, 2, 3, 4, 5)


def test_windows_overlap_by_half_and_own_the_words_with_most_context(tokenizer):
    _, windows = encode(tokenizer, ["the", "ship"] * 500, max_length=66)
    for before, after in pairwise(windows):
        assert after.window.first - before.window.first == 32
        assert before.words.stop == after.words.start
    for window in windows[1:-1]:
        assert min(window.positions[0] - 1, 64 - window.positions[-1]) >= 15
    assert sum(len(window.words) for window in windows) == 1000


def write_texts(number: int, *, seed: int) -> list[TokenExample]:
    """A noun is an entity, with the size before it if there is one."""
    draw = random.Random(seed)
    texts = []
    for index in range(number):
        type_, nouns = draw.choice([("PERSON", PEOPLE), ("PLACE", PLACES)])
        phrase = [*draw.sample(SIZES, draw.randint(0, 1)), draw.choice(nouns)]
        before, after = (draw.choices(FILLERS, k=draw.randint(0, 3)) for _ in range(2))
        inner = [f"B-{type_}", f"I-{type_}"][: len(phrase)]
        tags = [*["O"] * len(before), *inner, *["O"] * len(after)]
        labels = tuple(TAGS.index(tag) for tag in tags)
        texts.append(TokenExample(str(index), (*before, *phrase, *after), labels))
    return texts


def as_logits(example: TokenExample) -> Floats:
    """The logits of a perfect model."""
    assert example.labels is not None
    return 9.0 * np.equal.outer(example.labels, range(len(TAGS)))


def draw_words(number: int) -> tuple[str, ...]:
    return tuple(random.Random(0).choices(PLAIN, k=number))


def test_entities_are_learned(tiny_folder, tmp_path):
    train, dev = write_texts(800, seed=1), write_texts(100, seed=2)
    outcome, _ = finetune(tiny_folder, tmp_path, build_task(), train=train, dev=dev, num_steps=250)
    scores = outcome.progress.figures
    assert scores["score"] == scores["entity_f1"] > 90


def test_predictions_do_not_depend_on_the_batch(tiny_folder):
    """Windows of a long text among short texts."""
    task = build_task(max_length=16)
    model = load_for(task, tiny_folder)
    texts = [*write_texts(10, seed=3), TokenExample("long", draw_words(90)), TokenExample("empty", ())]
    texts = [*texts, *texts[:3]]
    items = task.encode(texts, load_vocabulary(tiny_folder))
    alone, together = (predict_items(model, task, items, max_tokens=size) for size in (1, 100_000))
    assert [answer.shape for answer in alone] == [(len(text.words), len(TAGS)) for text in texts]
    for one, other in zip(alone, together, strict=True):
        assert np.allclose(one, other, atol=1e-5)


def test_words_of_a_long_text_are_predicted_as_if_their_window_were_the_text(tiny_folder):
    task = build_task(max_length=22)
    model, tokenizer = load_for(task, tiny_folder), load_vocabulary(tiny_folder)
    words = draw_words(300)
    windows = task.encode([TokenExample("long", words)], tokenizer)
    assert len(windows) == 29
    (answer,) = predict_items(model, task, windows, max_tokens=500)
    parts = [TokenExample("", words[window.window.first : window.window.end]) for window in windows]
    alone = predict_items(model, task, task.encode(parts, tokenizer), max_tokens=500)
    for window, rows in zip(windows, alone, strict=True):
        own, first = window.words, window.window.first
        inside = slice(own.start - first, own.stop - first)
        assert np.allclose(answer[own.start : own.stop], rows[inside], atol=1e-5)


def test_a_batch_without_words_has_gradients_of_0_for_all_weights(tiny_folder):
    """Another process may have words, and waits for the gradient of each weight."""
    task = build_task()
    model = load_for(task, tiny_folder).train()
    batch = task.build_batch(task.encode([TokenExample("empty", ())], load_vocabulary(tiny_folder)))
    assert task.count_labels(batch) == {"task": 0}
    total, num_correct = task.compute_losses(model, batch)["task"]
    assert (total.item(), num_correct.item()) == (0.0, 0)
    total.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert not parameter.grad.any(), name


def test_unlabeled_texts_do_not_change_the_loss(tiny_folder):
    task = build_task()
    model = load_for(task, tiny_folder)
    texts = [TokenExample("a", ("the", "dogs"), (1, 0)), TokenExample("b", ("the", "old", "ships"))]
    items = task.encode(texts, load_vocabulary(tiny_folder))
    assert [task.has_label(item) for item in items] == [True, False]
    alone, both = task.build_batch(items[:1]), task.build_batch(items)
    assert task.count_labels(alone) == task.count_labels(both) == {"task": 2}
    losses = [task.compute_losses(model, batch)["task"][0].item() for batch in (alone, both)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_scores_of_a_known_prediction():
    """One of two entities is found, the other with a word too many: 5 of 6 words are right."""
    text = TokenExample("a", ("the", "man", "saw", "the", "town", "."), (1, 2, 0, 3, 4, 0))
    predicted = as_logits(TokenExample("a", text.words, (1, 2, 2, 3, 4, 0)))
    scores = build_task().score([predicted], [text])
    assert scores["entity_f1"] == scores["entity_precision"] == scores["score"] == 50.0
    assert scores["word_accuracy"] == pytest.approx(500 / 6)
    by_words = build_task(metrics=("word_accuracy",))
    assert by_words.score([predicted], [text])["score"] == pytest.approx(500 / 6)
    plain = build_task(LETTERS).score([predicted], [text])
    assert plain["score"] == pytest.approx((plain["word_accuracy"] + plain["macro_f1"]) / 2)


def test_entities_are_described_by_their_words():
    task = build_task(temperature=2.0)
    text = TokenExample("7", ("we", "saw", "the", "old", "man", "."), (0, 0, 1, 2, 2, 0))
    described = task.describe(as_logits(text), text)
    sure = np.exp(4.5) / (np.exp(4.5) + 4)
    assert described["labels"] == ["O", "O", "B-PERSON", "I-PERSON", "I-PERSON", "O"]
    assert described["words"] == list(text.words)
    assert described["probabilities"] == pytest.approx([sure] * 6)
    (entity,) = described["entities"]
    assert entity.pop("probability") == pytest.approx(sure**3)
    assert entity == {"type": "PERSON", "text": "the old man", "first": 2, "last": 4}
    assert "entities" not in build_task(LETTERS).describe(as_logits(text), text)
    assert task.describe(np.zeros((0, 5)), TokenExample("0", ()))["entities"] == []


def test_unknown_metrics_and_unlabeled_texts_are_rejected():
    with pytest.raises(InputError, match="'entity_f1'.* word_accuracy, macro_f1"):
        build_task(("noun", "verb"), metrics=("entity_f1",))
    with pytest.raises(InputError, match="'f1'.* entity_f1, "):
        build_task(metrics=("f1",))
    with pytest.raises(InputError, match="'x'"):
        build_task().score([np.zeros((1, 5))], [TokenExample("x", ("dog",))])
