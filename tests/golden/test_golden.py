"""What albert computes on fixed inputs is what it computed when `golden.json` was recorded.

On one machine the values agree to the bit. Across kinds of CPU, 20 steps of fine-tuning differ by up to 4e-4
in the norm of a bias that is nearly 0, and by up to 2e-4 (relative) in a correlation.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.golden.cases import CASES, Golden, Record

GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def golden(tmp_path_factory) -> Iterator[Golden]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield Golden(tmp_path_factory.mktemp("golden-values"))
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", CASES)
def test_values_are_the_recorded_ones(golden, name):
    record = Record()
    CASES[name](golden, record)
    assert record.exact == GOLDEN[name]["exact"]
    assert record.floats.keys() == GOLDEN[name]["floats"].keys()
    for key, values in record.floats.items():
        assert values == pytest.approx(GOLDEN[name]["floats"][key], rel=1e-3, abs=1e-3), key
