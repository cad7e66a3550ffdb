"""The table of many processes: its limits on every network, and how it is printed."""

import pytest

from bench.exchange import Bucket, Job, Link
from bench.scaling import NUM_PROCESSES, STRATEGIES, main, predict_fsdp

LINK = Link(latency_seconds=1e-3, bits_per_second=8e6)  # a megabyte a second
LATE = Job(12.0, (Bucket(4_000_000, 1.0),), optimizer_seconds=1.0)


def test_by_hand():
    spread = predict_fsdp(LATE, LINK, num_processes=4)
    assert spread.seconds == pytest.approx(13.0 / 4 + 6 * 1.001 + 6 * 0.001)  # each moves its own weights


@pytest.mark.parametrize("predict", STRATEGIES.values(), ids=STRATEGIES)
def test_one_process_exchanges_nothing(predict):
    found = predict(LATE, LINK, num_processes=1)
    assert found.seconds == 13.0
    assert found.exposed_seconds == found.small_seconds == 0.0


@pytest.mark.parametrize("predict", STRATEGIES.values(), ids=STRATEGIES)
def test_a_perfect_network_divides_the_work(predict):
    job = Job(12.0, LATE.buckets)
    for size in NUM_PROCESSES:
        found = predict(job, Link(0.0, 1e30), num_processes=size)
        assert found.seconds == pytest.approx(12.0 / size)


def test_the_table_is_printed(capsys):
    main(["--shape", "base", "--bandwidth", "1e9", "--latency", "1e-4"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| processes | ALBERT, 1 Gbit/s | BERT, 1 Gbit/s |"
    assert [line.split("|")[1].strip() for line in lines[2:]] == [str(size) for size in NUM_PROCESSES]
    assert "(1.0×)" in lines[2]
