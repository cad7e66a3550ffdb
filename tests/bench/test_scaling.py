"""The formula of many processes: its limits, by hand where a hand can follow."""

import pytest

from albert.model.parameters import count_parameters
from bench.scaling import (
    NUM_PROCESSES,
    STRATEGIES,
    Bucket,
    Job,
    Link,
    build_pair,
    count_operations,
    list_buckets,
    main,
    predict_ddp,
    predict_fsdp,
)

LINK = Link(latency_seconds=1e-3, bits_per_second=8e6)  # a megabyte a second
LATE = Job(12.0, (Bucket(4_000_000, 1.0),), optimizer_seconds=1.0)


def test_by_hand():
    # Four processes: six messages of a megabyte, each a second and a millisecond; twice three small ones.
    found = predict_ddp(LATE, LINK, num_processes=4)
    assert found.compute_seconds == pytest.approx(12.0 / 4 + 1.0)
    assert found.exposed_seconds == pytest.approx(6 * 1.001)
    assert found.hidden_seconds == pytest.approx(0.0)
    assert found.small_seconds == pytest.approx(6 * 0.001)
    spread = predict_fsdp(LATE, LINK, num_processes=4)
    assert spread.seconds == pytest.approx(13.0 / 4 + 6 * 1.001 + 6 * 0.001)  # each moves its own weights


@pytest.mark.parametrize("predict", STRATEGIES.values(), ids=STRATEGIES)
def test_one_process_exchanges_nothing(predict):
    found = predict(LATE, LINK, num_processes=1)
    assert found.seconds == 13.0
    assert found.exposed_seconds == found.hidden_seconds == found.small_seconds == 0.0


@pytest.mark.parametrize("predict", STRATEGIES.values(), ids=STRATEGIES)
def test_a_perfect_network_divides_the_work(predict):
    job = Job(12.0, LATE.buckets)
    for size in NUM_PROCESSES:
        found = predict(job, Link(0.0, 1e30), num_processes=size)
        assert found.seconds == pytest.approx(12.0 / size)


def test_a_ring_never_sends_more_than_twice_its_bytes():
    seconds = [Link(0.0, 8.0).find_ring_seconds(1.0, num_processes=size) for size in NUM_PROCESSES]
    assert seconds == [2 * (size - 1) / size for size in NUM_PROCESSES]


@pytest.mark.parametrize("predict", STRATEGIES.values(), ids=STRATEGIES)
@pytest.mark.parametrize("family", ["ALBERT", "BERT"])
def test_a_worse_network_is_never_faster(predict, family):
    job = Job(3.0, list_buckets(build_pair("base")[family]))
    for size in NUM_PROCESSES[1:]:
        by_rate = [
            predict(job, Link(1e-4, rate), num_processes=size).seconds for rate in (1e11, 1e10, 1e9, 1e8)
        ]
        by_latency = [predict(job, Link(delay, 1e9), num_processes=size).seconds for delay in (0, 1e-5, 1e-3)]
        assert by_rate == sorted(by_rate)
        assert by_latency == sorted(by_latency)


def test_what_is_ready_early_is_hidden_behind_the_rest():
    # Two processes, three seconds each, of which two go backwards; a bucket takes a second.
    early = Job(6.0, (Bucket(1_000_000, 0.0), Bucket(1_000_000, 0.5)))
    found = predict_ddp(early, Link(0.0, 8e6), num_processes=2)
    assert (found.exposed_seconds, found.hidden_seconds) == pytest.approx((0.0, 2.0))
    late = Job(6.0, (Bucket(1_000_000, 0.5), Bucket(1_000_000, 1.0)))
    found = predict_ddp(late, Link(0.0, 8e6), num_processes=2)
    assert (found.exposed_seconds, found.hidden_seconds) == pytest.approx((1.0, 1.0))
    cut = Job(6.0, late.buckets, micro_batch_seconds=0.75)  # half a second to hide behind
    found = predict_ddp(cut, Link(0.0, 8e6), num_processes=2)
    assert (found.exposed_seconds, found.hidden_seconds) == pytest.approx((1.75, 0.25))


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
    sizes = {family: count_parameters(config).backbone for family, config in build_pair("large").items()}
    assert (round(sizes["ALBERT"] / 1e6), round(sizes["BERT"] / 1e6)) in [(18, 334), (18, 335)]
    operations = [count_operations(config, length=512) for config in build_pair("large").values()]
    assert operations[0] == pytest.approx(operations[1], rel=0.02)  # the same work with fewer weights


def test_the_table_is_printed(capsys):
    main(["--shape", "base", "--bandwidth", "1e9", "--latency", "1e-4"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| processes | ALBERT, 1 Gbit/s | BERT, 1 Gbit/s |"
    assert [line.split("|")[1].strip() for line in lines[2:]] == [str(size) for size in NUM_PROCESSES]
    assert "(1.0×)" in lines[2]
