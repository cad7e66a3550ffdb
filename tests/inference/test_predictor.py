"""`albert.load`: predictions do not depend on batching or on the order of the texts."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import albert
from albert.errors import AlbertError, InputError
from albert.inference import predictor as predictor_module
from albert.inference.predictor import Predictor, iter_batches
from albert.model.albert_model import build_model
from albert.model.config import ModelConfig
from albert.model.tokens import Tokens
from albert.pretrained.folder import load_model, save_model
from albert.text.folder import load_tokenizer
from tests.conftest import WORDS, rejects

MASKED = [
    "the [MASK] went to the sea.",
    "she [MASK] a small dog by the old [MASK], and it was [MASK]!",
    "[MASK]",
    "one day a man came from the cold hill to the town and saw the [MASK] of the river in the night.",
    "it is [MASK].",
]
TEXTS = [text.replace("[MASK]", "river") for text in MASKED]
PAIRS = [("the man left.", "he came to the sea and found a ship."), ("a dog.", "it is big."), ("one", "two")]


@pytest.fixture(scope="module")
def tiny(tiny_folder) -> Predictor:
    return albert.load(tiny_folder)


def flatten(answers) -> list[list[tuple[int, float]]]:
    return [[(token.id, token.probability) for token in mask] for masks in answers for mask in masks]


def assert_same_vectors(ours: np.ndarray, theirs: np.ndarray) -> None:
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() <= 1e-6 * np.abs(theirs).max()


def test_every_mask_of_a_text_is_filled(tiny):
    answers = tiny.fill_mask(MASKED, top=len(WORDS))
    assert [len(masks) for masks in answers] == [1, 3, 1, 1, 1]
    sequence = tiny.tokenizer.build_sequence(tiny.tokenizer.encode(MASKED[1], masks=True))
    indices = [i for i, token in enumerate(sequence.ids) if token == tiny.tokenizer.mask_id]
    with torch.inference_mode():
        hidden = tiny.model(Tokens.from_lists([sequence.ids])).last_TD
        expected = tiny.model.mlm_logits(hidden[indices]).softmax(-1)
    found = [[token.probability for token in sorted(mask, key=lambda g: g.id)] for mask in answers[1]]
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-6)
    assert (expected[0] - expected[1]).abs().max() > 0.01
    assert (expected[1] - expected[2]).abs().max() > 0.01


def test_the_second_text_of_a_pair_is_the_second_segment(tiny):
    first, second = tiny.tokenizer.encode_batch(PAIRS[0])
    sequence = tiny.tokenizer.build_sequence(first, second)
    num_first = len(first.ids) + 2  # with [CLS] and [SEP]
    segments = [0] * num_first + [1] * (len(sequence.ids) - num_first)
    with torch.inference_mode():
        tokens = Tokens.from_lists([sequence.ids], [segments])
        logits = tiny.model.head("sop")(tiny.model.pool(tiny.model(tokens).last_TD, tokens))
    (answer, *_) = tiny.sentence_order(PAIRS)
    assert answer.in_order == pytest.approx(logits.softmax(-1)[0, 0].item(), abs=1e-6)
    (swapped,) = tiny.sentence_order([PAIRS[0][::-1]])
    assert answer.in_order != pytest.approx(swapped.in_order, abs=1e-4)


def test_the_poolings_are_the_mean_the_first_token_and_the_pooler(tiny, tiny_folder):
    ids = tiny.tokenizer.build_sequence(tiny.tokenizer.encode(TEXTS[0])).ids
    with torch.inference_mode():
        (hidden,) = albert.load_encoder(tiny_folder)([ids])
        pooled = torch.tanh(tiny.model.pooler(hidden[0]))
    assert_same_vectors(tiny.embed(TEXTS[:1])[0], hidden.mean(0).numpy())
    assert_same_vectors(tiny.embed(TEXTS[:1], pooling="cls")[0], hidden[0].numpy())
    assert_same_vectors(tiny.embed(TEXTS[:1], pooling="pooler")[0], pooled.numpy())


def test_normalized_vectors_have_length_1_and_the_same_direction(tiny):
    plain, unit = tiny.embed(TEXTS), tiny.embed(TEXTS, is_normalized=True)
    lengths = np.linalg.norm(plain, axis=1, keepdims=True)
    np.testing.assert_allclose(unit * lengths, plain, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize("budget", [1, 20, 45])
def test_predictions_do_not_depend_on_batches(budget, tiny, monkeypatch):
    vectors, order, masks = tiny.embed(TEXTS), tiny.sentence_order(PAIRS), flatten(tiny.fill_mask(MASKED))
    monkeypatch.setattr(predictor_module, "MAX_BATCH_TOKENS", budget)
    monkeypatch.setattr(predictor_module, "_MAX_MASKS", 2)
    monkeypatch.setattr(predictor_module, "_MAX_TEXTS", 2)
    assert_same_vectors(tiny.embed(TEXTS), vectors)
    for one, other in zip(tiny.sentence_order(PAIRS), order, strict=True):
        assert one.in_order == pytest.approx(other.in_order, abs=1e-6)
    for mine, theirs in zip(flatten(tiny.fill_mask(MASKED)), masks, strict=True):
        assert [token for token, _ in mine] == [token for token, _ in theirs]
        assert [p for _, p in mine] == pytest.approx([p for _, p in theirs], abs=1e-6)
    for text, vector in zip(TEXTS, vectors, strict=True):
        assert_same_vectors(tiny.embed([text])[0], vector)
    assert np.abs(vectors[0] - vectors[1]).max() > 0.01
    with rejects(InputError, "text 4", "102 tokens"):
        tiny.embed(["the sea"] * 3 + ["the " * 100])


def test_no_texts_get_no_predictions(tiny):
    assert tiny.fill_mask([]) == []
    assert tiny.sentence_order([]) == []
    assert tiny.embed([]).shape == (0, 32)


def test_predictions_depend_on_depth(tiny):
    by_depth = {depth: tiny.embed(TEXTS, depth=depth) for depth in (1, 2, 3, 6)}
    assert_same_vectors(by_depth[3], tiny.embed(TEXTS))
    for shallow, deep in [(1, 2), (2, 3), (3, 6)]:
        assert np.abs(by_depth[shallow] - by_depth[deep]).max() > 0.01
    order = [tiny.sentence_order(PAIRS[:1], depth=depth)[0].in_order for depth in (1, 3)]
    assert order[0] != pytest.approx(order[1], abs=1e-4)
    assert flatten(tiny.fill_mask(MASKED[:1], depth=1)) != flatten(tiny.fill_mask(MASKED[:1]))


@pytest.mark.parametrize("depth", [1, 2, 6])
def test_a_depth_equals_a_model_with_so_many_layers(depth, tiny, tiny_copy):
    config = json.loads((tiny_copy / "config.json").read_text())
    (tiny_copy / "config.json").write_text(json.dumps(config | {"num_hidden_layers": depth}))
    assert_same_vectors(albert.load(tiny_copy).embed(TEXTS), tiny.embed(TEXTS, depth=depth))


def test_rows_of_the_table_beyond_the_vocabulary_are_never_predicted(tmp_path, tiny_folder):
    shape = load_model(tiny_folder).config.model_dump() | {"vocab_size": len(WORDS) + 20}
    model = build_model(ModelConfig(**shape), heads={"mlm": None}, seed=1)
    save_model(tmp_path / "wide", model, tokenizer=load_tokenizer(tiny_folder))
    ((mask,),) = albert.load(tmp_path / "wide").fill_mask(["a [MASK]"], top=len(WORDS))
    assert max(token.id for token in mask) == len(WORDS) - 1
    assert sum(token.probability for token in mask) < 1


def test_folders_files_and_saved_copies_give_the_same_model(tiny, tiny_folder, tmp_path):
    tiny.save(tmp_path / "copy")
    for source in (tiny_folder / "model.safetensors", str(tiny_folder), tmp_path / "copy"):
        assert np.array_equal(albert.load(source).embed(TEXTS), tiny.embed(TEXTS))


@pytest.mark.parametrize(
    ("predict", "values"),
    [
        (lambda model: model.fill_mask(["a [MASK]", "none here"]), ("text 2", "[MASK]")),
        (lambda model: model.sentence_order([("sea " * 20, "sea " * 20)]), ("text 1", "43 tokens")),
        (lambda model: model.sentence_order([("a", "b", "c")]), ("pair 1", "3 texts")),
        (lambda model: model.embed(["a", None]), ("text 2", "None")),
        (lambda model: model.embed("a [MASK] b"), ("list",)),
        (lambda model: model.fill_mask("a [MASK] b"), ("list",)),
    ],
)
def test_wrong_texts_are_rejected(predict, values, tiny):
    with rejects(InputError, *values):
        predict(tiny)


@pytest.mark.parametrize("options", [{"device": "meta"}, {"precision": "half"}, {"revision": "v2"}])
def test_wrong_options_are_rejected(options, tiny_folder):
    with rejects(AlbertError, *map(repr, options.values())):
        albert.load(tiny_folder, **options)


def test_in_bf16_likely_tokens_have_different_probabilities(tiny):
    number = tiny.tokenizer.vocab_size
    full = tiny.fill_mask(MASKED, top=number)
    rounded = Predictor(tiny.model, tiny.tokenizer)
    with torch.autocast("cpu", torch.bfloat16):
        found = flatten(rounded.fill_mask(MASKED, top=number))
    assert all(len({probability for _, probability in mask[:20]}) == 20 for mask in found)
    for one, other in zip(flatten(full), found, strict=True):
        assert dict(other) == pytest.approx(dict(one), abs=0.05)


def test_a_text_that_is_too_long_is_rejected_before_any_prediction(tiny, monkeypatch):
    monkeypatch.setattr(predictor_module, "_MAX_TEXTS", 2)
    monkeypatch.setattr(tiny.model, "forward", lambda *_, **__: pytest.fail("the work would be lost"))
    with rejects(InputError, "text 6", "41 tokens", 40):
        tiny.embed(["a", "the sea", "a " * 20, "b" * 50, "c", "sea " * 39])


@given(lengths=st.lists(st.integers(1, 60), max_size=40), budget=st.integers(1, 100))
def test_every_sequence_is_in_one_batch_within_the_budget(lengths, budget):
    batches = list(iter_batches(lengths, max_tokens=budget))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or sum(lengths[index] for index in batch) <= budget


def test_a_batch_is_filled_before_the_next_begins():
    assert list(iter_batches([4, 4, 4, 9, 2], max_tokens=10)) == [[4, 0, 1], [2], [3]]
