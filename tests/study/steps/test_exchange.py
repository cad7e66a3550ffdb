"""The formula of many processes, by hand where a hand can follow; and the pair that it is about."""

import pytest

from albert.errors import InputError
from albert.model.parameters import count_parameters
from albert.study.steps.equal_shapes import PRESET_OF, build_pair, count_operations, count_pair
from albert.study.steps.exchange import Bucket, Job, Link, list_buckets, predict_ddp

LINK = Link(latency_seconds=1e-3, bits_per_second=8e6)  # a megabyte a second
LATE = Job(12.0, (Bucket(4_000_000, 1.0),), optimizer_seconds=1.0)
NUM_PROCESSES = (1, 2, 4, 8, 16, 32, 64)


def test_by_hand():
    # Four processes: six messages of a megabyte, each a second and a millisecond; twice three small ones.
    found = predict_ddp(LATE, LINK, num_processes=4)
    assert found.compute_seconds == pytest.approx(12.0 / 4 + 1.0)
    assert found.exposed_seconds == pytest.approx(6 * 1.001)
    assert found.small_seconds == pytest.approx(6 * 0.001)


def test_a_ring_never_sends_more_than_twice_its_bytes():
    seconds = [Link(0.0, 8.0).find_ring_seconds(1.0, num_processes=size) for size in NUM_PROCESSES]
    assert seconds == [2 * (size - 1) / size for size in NUM_PROCESSES]


def test_what_is_ready_early_is_hidden_behind_the_rest():
    # Two processes, three seconds each, of which two go backwards; a bucket takes a second.
    early = Job(6.0, (Bucket(1_000_000, 0.0), Bucket(1_000_000, 0.5)))
    found = predict_ddp(early, Link(0.0, 8e6), num_processes=2)
    assert found.exposed_seconds == pytest.approx(0.0)
    late = Job(6.0, (Bucket(1_000_000, 0.5), Bucket(1_000_000, 1.0)))
    found = predict_ddp(late, Link(0.0, 8e6), num_processes=2)
    assert found.exposed_seconds == pytest.approx(1.0)
    cut = Job(6.0, late.buckets, micro_batch_seconds=0.75)  # half a second to hide behind
    found = predict_ddp(cut, Link(0.0, 8e6), num_processes=2)
    assert found.exposed_seconds == pytest.approx(1.75)


@pytest.mark.parametrize("shape", ["nano", "base", "large"])
def test_buckets_are_the_whole_gradient_in_order(shape):
    for config in build_pair(shape).values():
        buckets = list_buckets(config)
        assert sum(bucket.num_bytes for bucket in buckets) == 4 * count_parameters(config).total
        assert [b.ready_share for b in buckets] == sorted(b.ready_share for b in buckets)


def test_a_shared_block_hides_next_to_nothing():
    albert, bert = (list_buckets(config) for config in build_pair("large").values())
    share = [
        sum(b.num_bytes for b in each if b.ready_share == 1.0) / Job(1.0, each).num_bytes
        for each in (albert, bert)
    ]
    assert share[0] > 0.9
    assert share[1] < 0.2


def test_the_pair_is_the_papers():
    sizes = {family: count.backbone for family, count in count_pair("large").items()}
    assert (round(sizes["ALBERT"] / 1e6), round(sizes["BERT"] / 1e6)) in [(18, 334), (18, 335)]
    operations = [count_operations(config, length=512) for config in build_pair("large").values()]
    assert operations[0] == pytest.approx(operations[1], rel=0.02)  # the same work with fewer weights


@pytest.mark.parametrize("shape", PRESET_OF)
def test_a_pair_differs_in_three_settings(shape):
    albert, bert = (config.model_dump() for config in build_pair(shape, changes={"vocab_size": 999}).values())
    different = {key for key in albert if albert[key] != bert[key]}
    assert different == {"sharing", "embedding_size", "hidden_act"}
    assert (bert["embedding_size"], bert["vocab_size"]) == (albert["hidden_size"], 999)


def test_an_unknown_shape_is_refused():
    with pytest.raises(InputError, match="unknown shape 'huge'; there are nano, small, base"):
        build_pair("huge")
