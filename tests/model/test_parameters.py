"""The closed formula for the number of parameters agrees with the model and the paper."""

import pytest

from albert.model.albert_model import build_model
from albert.model.config import PRESETS, build_preset, count_parameters
from albert.study.parameters import list_groups, list_sharing, list_sizes

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


def test_sizes_and_groups_are_the_published_ones():
    found = {row.name: (row.backbone, row.with_heads) for row in list_sizes()}
    assert found["albert-base"] == (11_683_584, 11_813_810)
    assert found["albert-large"] == (17_683_968, 17_847_474)
    assert found["albert-xlarge"] == (58_724_864, 59_021_490)
    assert found["albert-xxlarge"] == (222_595_584, 223_158_450)
    millions = {row.num_hidden_groups: round(row.backbone / 1e6, 2) for row in list_groups()}
    assert millions == {1: 11.68, 2: 18.77, 3: 25.86, 4: 32.95, 6: 47.12, 12: 89.65}


def test_all_figures_of_the_paper_agree_except_two_that_contradict_its_shapes():
    rows = list_sizes() + list_sharing()
    assert {row.name for row in rows if not row.agrees} == {"albert-xlarge", "albert-xxlarge"}
