"""The checks of the machine."""

import json

import torch

from albert.cli.doctor import machine


def test_the_machine_is_one_line_for_each_check(run_albert):
    done = run_albert("doctor")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    names = ["versions", "threads", "memory", "load", "arithmetic", "compiler", "disk"]
    assert [line.split()[1] for line in lines] == names
    assert f"torch: {torch.__version__}" in lines[0]
    data = json.loads(run_albert("doctor", "--json").out)
    assert (data["run"], data["plot"]) == (None, None)
    assert [found["title"] for found in data["findings"]] == names


def test_too_few_and_too_many_threads_are_seen_on_the_machine(monkeypatch):
    monkeypatch.setattr(machine, "count_cores", lambda: 8)
    monkeypatch.setattr(machine, "read_quota", lambda: None)
    for threads, variable, is_off in (
        (8, None, False),
        (4, None, False),
        (4, "4", True),
        (1, None, True),
        (9, "9", True),
    ):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        if variable is not None:
            monkeypatch.setenv("OMP_NUM_THREADS", variable)
        found = machine.check_threads()
        assert (found.severity == "warning", "OMP_NUM_THREADS=8" in found.hint) == (is_off, is_off), threads


def test_the_quota_of_a_container_counts(tmp_path, monkeypatch):
    path = tmp_path / "cpu.max"
    path.write_text("150000 100000\n")
    assert machine.read_quota(path) == 1.5
    path.write_text("max 100000\n")
    assert machine.read_quota(path) is None
    monkeypatch.setattr(machine, "count_cores", lambda: 8)
    monkeypatch.setattr(machine, "read_quota", lambda: 2.0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    assert "OMP_NUM_THREADS=2" in machine.check_threads().hint


def test_short_memory_is_seen(tmp_path, monkeypatch):
    path = tmp_path / "meminfo"
    lines = "MemTotal: 16000000 kB\nMemAvailable: {} kB\nSwapTotal: 8000000 kB\nSwapFree: {} kB\n"
    amounts = (9_000_000, 8_000_000, "fine"), (900_000, 8_000_000, "warning"), (3_000_000, 0, "warning")
    for free, swap_free, severity in amounts:
        path.write_text(lines.format(free, swap_free))
        with monkeypatch.context() as patch:
            memory = machine.read_memory(path)
            patch.setattr(machine, "read_memory", lambda memory=memory: memory)
            assert machine.check_memory().severity == severity
    assert machine.read_memory(tmp_path / "nothing") == {}
