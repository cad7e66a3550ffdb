"""What the system tells of memory and cores: read where it is told, and left out where it is not."""

import os

from albert.training.metrics import STATUS_PATH, count_cores, measure_health, read_amounts


def test_amounts_of_memory_are_bytes_and_what_is_none_is_passed_over(tmp_path):
    path = tmp_path / "status"
    path.write_text("Name:\tpython\nUmask:\t0022\nVmHWM:\t    2048 kB\nHugePages_Total:  0\nVmSwap: ? kB\n")
    assert read_amounts(path) == {"VmHWM": 2048 * 1024}
    assert read_amounts(tmp_path / "nothing") == {}


def test_the_peak_of_this_process_is_told_in_megabytes():
    found = measure_health()
    assert found["peak_mb"] > 10
    if STATUS_PATH.exists():
        assert found["peak_mb"] >= round(read_amounts(STATUS_PATH)["VmRSS"] / 1024**2, 1)


def test_cores_are_those_that_this_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 7}, raising=False)
    assert count_cores() == 2
    monkeypatch.delattr(os, "sched_getaffinity")  # macOS has none
    assert count_cores() == 64
