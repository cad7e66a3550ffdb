"""The closed formula for the number of parameters agrees with the model and the paper."""

import pytest

from albert.model.albert_model import build_model
from albert.model.config import PRESETS, build_preset, count_parameters

HEADS = {"mlm": None, "sop": None}


def assert_formula_is_true(config):
    count = count_parameters(config)
    model = build_model(config, heads=HEADS, device="meta")
    assert sum(p.numel() for p in model.encoder.parameters()) == count.encoder
    assert sum(p.numel() for p in model.parameters()) == count.total


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("sharing", ["all", "attention", "ffn", "none"])
def test_every_preset_with_every_sharing(name, sharing):
    assert_formula_is_true(build_preset(name, overrides=[f"sharing={sharing}"]))


@pytest.mark.parametrize("inner", [1, 2])
def test_every_number_of_groups(inner):
    for sharing in ("all", "attention", "ffn"):
        for groups in range(1, 13):
            changes = [f"num_hidden_groups={groups}", f"inner_group_num={inner}", f"sharing={sharing}"]
            assert_formula_is_true(build_preset("albert-base", overrides=changes))


def test_a_map_at_equal_widths_is_counted():
    plain = build_preset("nano", overrides=["embedding_size=256"])
    mapped = build_preset("nano", overrides=["embedding_size=256", "has_embedding_map=true"])
    assert_formula_is_true(plain)
    assert_formula_is_true(mapped)
    assert count_parameters(mapped).total - count_parameters(plain).total == 256 * 256 + 256
