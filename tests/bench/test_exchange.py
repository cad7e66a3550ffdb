"""The predicted step of data-parallel training, by hand where that is possible."""

import pytest

from albert.model.config import count_parameters
from albert.study.step_costs import build_pair
from bench.exchange import (
    Bucket,
    Job,
    Link,
    find_exchange_share,
    list_buckets,
    predict_ddp,
    predict_speedup,
)
from tests.study.test_speed import made_up

LINK = Link(latency_seconds=1e-3, bits_per_second=8e6)  # a megabyte a second
LATE = Job(12.0, (Bucket(4_000_000, 1.0),), optimizer_seconds=1.0)


def test_by_hand():
    # Four processes: six messages of a megabyte, each a second and a millisecond; twice three small ones.
    found = predict_ddp(LATE, LINK, num_processes=4)
    assert found.compute_seconds == pytest.approx(12.0 / 4 + 1.0)
    assert found.exposed_seconds == pytest.approx(6 * 1.001)
    assert found.small_seconds == pytest.approx(6 * 0.001)


@pytest.mark.parametrize("shape", ["nano", "base", "large"])
def test_buckets_are_the_whole_gradient_in_order(shape):
    for config in build_pair(shape).values():
        buckets = list_buckets(config)
        assert sum(bucket.num_bytes for bucket in buckets) == 4 * count_parameters(config).total
        assert [b.ready_share for b in buckets] == sorted(b.ready_share for b in buckets)


def test_a_slow_link_leaves_the_bytes_and_a_fast_one_the_times():
    found = made_up()
    sizes = [count_parameters(found.pair[family]).total for family in ("BERT", "ALBERT")]
    slow, fast = (predict_speedup(found, Link(0.0, rate), num_processes=4) for rate in (1e3, 1e18))
    assert slow == pytest.approx(sizes[0] / sizes[1], rel=1e-3)
    assert fast == pytest.approx(1.3 / 1.1)


def test_the_share_of_the_exchange_by_hand():
    # BERT computes for 1 and exchanges for 1; ALBERT with a tenth of the bytes for 0.1: 2 / 1.1.
    assert find_exchange_share(2 / 1.1, size_ratio=10.0) == pytest.approx(0.5)
