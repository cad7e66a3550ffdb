"""The predicted step of data-parallel training, by hand where that is possible."""

from dataclasses import asdict

import pytest

from albert.files import write_json
from albert.model.config import count_parameters
from albert.study.speed import ShapeSpeed, SpeedRound
from albert.study.step_costs import Footprint, build_pair
from bench.exchange import (
    Bucket,
    Job,
    Link,
    find_exchange_share,
    list_buckets,
    main,
    predict_ddp,
    predict_speedup,
)

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


@pytest.mark.parametrize("shape", ["nano", "base", "large"])
def test_buckets_are_the_whole_gradient_in_order(shape):
    for config in build_pair(shape).values():
        buckets = list_buckets(config)
        assert sum(bucket.num_bytes for bucket in buckets) == 4 * count_parameters(config).total
        assert [b.ready_share for b in buckets] == sorted(b.ready_share for b in buckets)


def make_speed(*, albert=(1.0, 1.1, 0.9), bert=(1.2, 1.1, 1.8)):
    """Rounds with these times of the model and 0.1 s of the optimizer."""
    pair = build_pair("base")

    def step(family, seconds):
        return Footprint(10**9, seconds, 0.1, 1024, count_parameters(pair[family]).total)

    rounds = [
        SpeedRound({"ALBERT": step("ALBERT", one), "BERT": step("BERT", other)})
        for one, other in zip(albert, bert, strict=True)
    ]
    return ShapeSpeed("base", pair, tuple(rounds))


def test_a_slow_link_leaves_the_bytes_and_a_fast_one_the_times():
    found = make_speed()
    sizes = [count_parameters(found.pair[family]).total for family in ("BERT", "ALBERT")]
    slow, fast = (predict_speedup(found, Link(0.0, rate), num_processes=4) for rate in (1e3, 1e18))
    assert slow == pytest.approx(sizes[0] / sizes[1], rel=1e-3)
    assert fast == pytest.approx(1.3 / 1.1)


def test_the_share_of_the_exchange_by_hand():
    # BERT computes for 1 and exchanges for 1; ALBERT with a tenth of the bytes for 0.1: 2 / 1.1.
    assert find_exchange_share(2 / 1.1, size_ratio=10.0) == pytest.approx(0.5)


def test_the_table_of_a_speed_study(tmp_path, capsys):
    parts = {
        f"base/round-{n}": {"stamp": "", "found": asdict(r)} for n, r in enumerate(make_speed().rounds, 1)
    }
    write_json(tmp_path / "results.json", {"study": "speed", "settings": {"model": {}}, "parts": parts})
    main([str(tmp_path), "--links", "1", "10"])
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| base")]
    assert [row[1] for row in rows] == ["1 Gbit/s", "10 Gbit/s"]
    assert [row[2:4] for row in rows] == [["47.3 MB", "439 MB"]] * 2
