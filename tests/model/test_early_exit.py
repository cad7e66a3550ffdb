"""Early exit: every sequence exits where it would exit alone, and is then no longer computed."""

import random

import numpy as np
import pytest
import torch

from albert.errors import InputError
from albert.model.albert_model import build_model
from albert.model.config import ModelConfig
from albert.model.early_exit import classify_every_layer, classify_with_exits
from albert.model.tokens import Tokens, build_layout
from tests.conftest import rejects

NUM_LAYERS = 5
HEADS = {"classification": 3, "exits": 3}
SHAPES = {
    "shared": {},
    "two groups": {"num_hidden_groups": 2},
    "inner blocks": {"inner_group_num": 2},
    "nothing shared": {"sharing": "none"},
}


def build(heads=None, **changes):
    config = ModelConfig(
        **{
            "vocab_size": 50, "embedding_size": 8, "hidden_size": 16, "num_hidden_layers": NUM_LAYERS,
            "num_attention_heads": 2, "intermediate_size": 32, "initializer_range": 0.5, **changes,
        }
    )  # fmt: skip
    return build_model(config, heads=heads or HEADS, seed=10)


def write_ids(number=32, *, seed=0):
    draw = random.Random(seed)
    return [[draw.randrange(5, 50) for _ in range(draw.randint(2, 12))] for _ in range(number)]


def same_label(before, now):
    return before.argmax(1) == now.argmax(1)


def never(before, now):
    return torch.zeros(len(now), dtype=torch.bool)


def classify_alone(model, ids, *, patience):
    """Plain implementation for one sequence: count the consecutive layers with the same prediction."""
    states = model(Tokens.from_lists([ids]), with_hidden_states=True).hidden_states
    classifiers = [*model.heads["exits"], model.heads["classification"]]
    previous, count = None, 0
    for number, classifier in enumerate(classifiers, start=1):
        logits = classifier(torch.tanh(model.pooler(states[number][0])))
        count = count + 1 if previous == int(logits.argmax()) else 0
        previous = int(logits.argmax())
        if count == patience:
            break
    return logits, number


@pytest.mark.parametrize("shape", SHAPES)
@torch.inference_mode()
def test_a_sequence_in_a_batch_exits_as_alone(shape):
    model, ids = build(**SHAPES[shape]), write_ids()
    for patience in range(1, NUM_LAYERS + 2):
        together = classify_with_exits(model, Tokens.from_lists(ids), patience=patience, agree=same_label)
        alone = [classify_alone(model, one, patience=patience) for one in ids]
        numbers = together.num_layers.tolist()
        assert numbers == [number for _, number in alone]
        assert torch.allclose(together.logits_BK, torch.stack([logits for logits, _ in alone]), atol=1e-5)
        assert min(numbers) >= min(patience + 1, NUM_LAYERS)
        if patience == 1:
            assert set(numbers) == {2, 3, 4, 5}


def record_rows(model):
    """The number of tokens in each call of the feed-forward block."""
    rows = []
    model.encoder.ffn[0].register_forward_hook(lambda module, inputs, output: rows.append(len(output)))
    return rows


@torch.inference_mode()
def test_finished_sequences_leave_the_batch():
    """The first tokens decide who exits; then the layer runs over the remaining sequences."""
    model, ids = build(), write_ids()
    tokens, lengths = Tokens.from_lists(ids), np.array([len(one) for one in ids])
    rows = record_rows(model)
    found = classify_with_exits(model, tokens, patience=1, agree=same_label)
    stay = [int(lengths[found.num_layers > number].sum()) for number in range(1, NUM_LAYERS)]
    assert stay[0] == len(tokens.ids_T) > stay[1] > stay[2]
    assert rows[0] == stay[0]
    assert rows[1:3] == [len(ids), stay[1]]
    assert rows[2::2] == [count for count in stay[1:] if count]


@torch.inference_mode()
def test_a_depth_ends_the_run_with_the_classifier_of_its_layer():
    model, tokens = build(), Tokens.from_lists(write_ids())
    every = classify_every_layer(model, tokens, depth=NUM_LAYERS + 2)  # beyond the last, the last classifier
    assert len(every) == NUM_LAYERS + 2
    for depth in range(1, NUM_LAYERS + 3):
        found = classify_with_exits(model, tokens, patience=1, agree=never, depth=depth)
        assert (found.num_layers == depth).all()
        assert torch.allclose(found.logits_BK, every[depth - 1], atol=1e-5)


@pytest.mark.parametrize("checkpointing", [False, True])
def test_every_layer_has_the_logits_and_gradients_of_its_hidden_states(checkpointing):
    model, tokens = build(classifier_dropout_prob=0.0).train(), Tokens.from_lists(write_ids())
    states = model(tokens, with_hidden_states=True).hidden_states
    classifiers = [*model.heads["exits"], model.heads["classification"]]
    plain = [head(model.pool(state, tokens)) for head, state in zip(classifiers, states[1:], strict=True)]
    model.encoder.gradient_checkpointing = checkpointing
    found = classify_every_layer(model, tokens)
    grads = []
    for logits in (plain, found):
        model.zero_grad()
        (torch.stack(logits) ** 2).sum().backward()
        grads.append(torch.cat([weight.grad.flatten() for weight in model.parameters()]))
    assert torch.allclose(torch.stack(found), torch.stack(plain), atol=1e-5)
    assert torch.allclose(grads[0], grads[1], atol=1e-5 * float(grads[0].abs().max()))


@pytest.mark.parametrize("seed", range(20))
def test_part_of_a_layout_is_the_layout_of_that_part(seed):
    draw = random.Random(seed)
    lengths = np.array(sorted(draw.randint(1, 6) for _ in range(draw.randint(1, 12))))
    is_kept = np.array([draw.random() < 0.5 for _ in lengths])
    is_kept[draw.randrange(len(lengths))] = True
    layout, indices_T = build_layout(tuple(lengths.tolist())).keep(is_kept)
    expected = build_layout(tuple(lengths[is_kept].tolist()))
    assert layout.runs == expected.runs
    assert torch.equal(layout.offsets, expected.offsets)
    assert indices_T.tolist() == np.flatnonzero(np.repeat(is_kept, lengths)).tolist()


def test_wrong_arguments_are_rejected():
    tokens = Tokens.from_lists(write_ids(2))
    with rejects(InputError, "patience is 0"):
        classify_with_exits(build(), tokens, patience=0, agree=same_label)
    with rejects(InputError, "no exits head"):
        classify_with_exits(build({"classification": 3}), tokens, patience=1, agree=same_label)
    with rejects(InputError, "num_hidden_layers", 2):
        build(num_hidden_layers=1)
