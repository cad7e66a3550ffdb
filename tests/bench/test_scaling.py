"""The table of many processes: its limits on every network, and how it is printed."""

import pytest

from bench.exchange import Bucket, Job, Link
from bench.scaling import STRATEGIES, predict_fsdp

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
