"""Measuring a training step in a fresh process."""

import sys

import pytest

from albert.model.config import ModelConfig, count_parameters
from albert.study import step_costs
from albert.study.step_costs import (
    DoesNotFitError,
    StepRequest,
    build_pair,
    count_operations,
    count_pair,
    measure_footprint,
)

CONFIG = ModelConfig(
    vocab_size=4000, embedding_size=64, hidden_size=128, num_hidden_layers=8, num_attention_heads=2,
    intermediate_size=512,
)  # fmt: skip
NUM_PARAMETERS = count_parameters(CONFIG).total
LEAST = 16 * NUM_PARAMETERS


def measure(**changes):
    values = {"batch_size": 1, "length": 8, "optimizer": "lamb", "num_steps": 1, "num_threads": 1, **changes}
    return measure_footprint(StepRequest(config=CONFIG, **values))


def test_a_step_is_measured():
    found = measure(batch_size=3, length=16, optimizer="adamw", num_passes=1, micro_batch_tokens=32)
    assert found.num_parameters == NUM_PARAMETERS
    assert found.num_tokens == 48
    assert found.model_seconds > 0.0
    assert found.optimizer_seconds > 0.0
    assert found.step_seconds == found.model_seconds + found.optimizer_seconds
    assert found.inference_seconds is not None
    assert found.inference_seconds > 0.0
    if sys.platform == "linux":
        assert found.memory_source == "VmHWM"
        # Weights, gradients and moments at least; and none of the hundreds of megabytes of libraries.
        assert 0.9 * LEAST < found.peak_bytes < LEAST + 100e6


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited by the kernel")
def test_a_batch_that_does_not_fit():
    with pytest.raises(DoesNotFitError):
        measure(batch_size=64, length=512, max_bytes=4 * LEAST)


def test_a_child_that_fails_is_no_result(monkeypatch):
    monkeypatch.setattr(step_costs, "CHILD", "albert.study.nowhere")
    with pytest.raises(RuntimeError, match="nowhere"):
        measure()


def test_the_pair_is_the_papers():
    sizes = {family: count.backbone for family, count in count_pair("large").items()}
    assert (round(sizes["ALBERT"] / 1e6), round(sizes["BERT"] / 1e6)) in [(18, 334), (18, 335)]
    operations = [count_operations(config, length=512) for config in build_pair("large").values()]
    assert operations[0] == pytest.approx(operations[1], rel=0.02)  # the same work with fewer weights


@pytest.mark.parametrize("shape", ["nano", "large"])
def test_a_pair_differs_in_three_settings(shape):
    albert, bert = (config.model_dump() for config in build_pair(shape, changes={"vocab_size": 999}).values())
    different = {key for key in albert if albert[key] != bert[key]}
    assert different == {"sharing", "embedding_size", "hidden_act"}
    assert (bert["embedding_size"], bert["vocab_size"]) == (albert["hidden_size"], 999)
