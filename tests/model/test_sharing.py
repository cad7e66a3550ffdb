"""Sharing is a table from layers to blocks, and depth is a run-time number."""

import pytest
import torch

from albert.errors import InputError
from albert.model.albert_model import build_model
from albert.model.config import ModelConfig, build_preset, build_sharing_table
from albert.model.tokens import Tokens
from albert.settings import build_settings
from tests.conftest import rejects

TINY = {
    "vocab_size": 40, "embedding_size": 8, "hidden_size": 16, "num_hidden_layers": 4,
    "num_attention_heads": 2, "intermediate_size": 32,
}  # fmt: skip


def config(**changes) -> ModelConfig:
    return build_settings(ModelConfig, values={**TINY, **changes})


def ids(table):
    return [[(block.attention, block.ffn) for block in layer] for layer in table]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [[(0, 0)]] * 4),
        ({"sharing": "attention"}, [[(0, 0)], [(0, 1)], [(0, 2)], [(0, 3)]]),
        ({"sharing": "ffn"}, [[(0, 0)], [(1, 0)], [(2, 0)], [(3, 0)]]),
        ({"sharing": "none"}, [[(0, 0)], [(1, 1)], [(2, 2)], [(3, 3)]]),
        ({"num_hidden_groups": 2}, [[(0, 0)], [(0, 0)], [(1, 1)], [(1, 1)]]),
        ({"num_hidden_groups": 2, "sharing": "attention"}, [[(0, 0)], [(0, 1)], [(1, 2)], [(1, 3)]]),
        ({"inner_group_num": 2}, [[(0, 0), (1, 1)]] * 4),
        ({"inner_group_num": 2, "num_hidden_groups": 2}, [[(0, 0), (1, 1)]] * 2 + [[(2, 2), (3, 3)]] * 2),
    ],
)
def test_the_table(changes, expected):
    assert ids(build_sharing_table(config(**changes))) == expected


def test_groups_have_consecutive_layers_of_nearly_equal_number():
    for layers in range(1, 50):
        for groups in range(1, layers + 1):
            table = build_sharing_table(config(num_hidden_layers=layers, num_hidden_groups=groups))
            owners = [layer[0].attention for layer in table]
            assert owners == sorted(owners)
            assert set(owners) == set(range(groups))
            sizes = [owners.count(group) for group in range(groups)]
            assert max(sizes) - min(sizes) <= 1


@pytest.fixture(scope="module")
def tokens():
    return Tokens.from_lists([[2, 9, 8, 3], [2, 7, 3]])


def test_a_smaller_depth_stops_early(tokens):
    for sharing in ("all", "attention", "ffn", "none"):
        model = build_model(config(sharing=sharing), heads={})
        states = model(tokens, with_hidden_states=True).hidden_states
        for depth in (1, 2, 3, 4):
            assert torch.equal(model(tokens, depth=depth).last_TD, states[depth])


def test_a_shared_model_runs_deeper_than_it_was_built(tokens):
    shallow = build_model(config(), heads={})
    deep = build_model(config(num_hidden_layers=9), heads={})
    deep.load_state_dict(shallow.state_dict())  # depth has no weights of its own
    assert torch.equal(shallow(tokens, depth=9).last_TD, deep(tokens).last_TD)


def test_a_model_with_other_sharing_does_not(tokens):
    model = build_model(config(sharing="attention"), heads={})
    with rejects(InputError, "depth is 5", "4 layers"):
        model(tokens, depth=5)


def test_presets_have_their_settings_and_similar_names_are_suggested():
    assert build_preset("albert-xxlarge-v2").hidden_dropout_prob == 0.0
    assert build_preset("albert-base").hidden_dropout_prob == 0.1
    assert build_preset("bert-large").is_bert
    with rejects(InputError, "albert-large?"):
        build_preset("albert-lrge")
