"""The number of threads by affinity and quota, and how idle threads wait."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from albert import threads
from albert.threads import count_cores, read_quota

V2, V1 = "0::/user.slice/job\n", "4:memory:/job\n3:cpu,cpuacct:/docker/3f2a\n0::/\n"


def write_files(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.mark.parametrize(
    ("membership", "files", "quota"),
    [
        (V2, {"user.slice/job/cpu.max": "150000 100000\n"}, 1.5),
        (V2, {"user.slice/job/cpu.max": "max 100000\n"}, None),
        (V2, {"user.slice/job/cpu.max": "max 100000\n", "user.slice/cpu.max": "50000 100000\n"}, 0.5),
        ("0::/host/path\n", {"cpu.max": "200000 100000\n"}, 2.0),  # a container that sees itself as root
        (V1, {"cpu,cpuacct/docker/3f2a/cpu.cfs_quota_us": "300000\n",
              "cpu,cpuacct/docker/3f2a/cpu.cfs_period_us": "100000\n"}, 3.0),
        (V1, {"cpu,cpuacct/docker/3f2a/cpu.cfs_quota_us": "-1\n",
              "cpu,cpuacct/docker/3f2a/cpu.cfs_period_us": "100000\n"}, None),
        (V1, {"cpu,cpuacct/cpu.cfs_quota_us": "50000\n", "cpu,cpuacct/cpu.cfs_period_us": "100000\n"}, 0.5),
        (V1, {}, None),
    ],
)  # fmt: skip
def test_quotas_of_control_groups(membership, files, quota, tmp_path):
    write_files(tmp_path, {"cgroup": membership, **{f"fs/{name}": text for name, text in files.items()}})
    assert read_quota(tmp_path / "fs", tmp_path / "cgroup") == quota


def test_no_control_groups_is_no_limit(tmp_path):
    assert read_quota(tmp_path, tmp_path / "nothing") is None


@pytest.mark.parametrize(("quota", "cores"), [(None, 3), (0.5, 1), (1.2, 1), (1.6, 2), (8.0, 3)])
def test_cores_are_limited_by_affinity_and_quota(quota, cores, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 3, 7}, raising=False)
    monkeypatch.setattr(threads, "read_quota", lambda: quota)
    assert count_cores() == cores
    if quota is None:
        monkeypatch.delattr(os, "sched_getaffinity")  # macOS has none
        assert count_cores() == 64


def run_python(code: str, **variables: str) -> list[str]:
    kept = {k: v for k, v in os.environ.items() if k not in (*threads.SPIN_VARIABLES, threads.NUM_VARIABLE)}
    found = subprocess.run(
        [sys.executable, "-c", code], env=kept | variables, capture_output=True, text=True, check=True
    )
    return found.stdout.split()


SHOW = f"import os; print(*map(os.environ.get, {(*threads.SPIN_VARIABLES, threads.NUM_VARIABLE)}))"


@pytest.mark.parametrize(
    ("variables", "shown"),
    [
        ({}, ["None", str(threads.SPIN_COUNT), "3"]),
        ({"OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "2"}, ["passive", "None", "2"]),
        ({"GOMP_SPINCOUNT": "7"}, ["None", "7", "3"]),
    ],
)
def test_a_users_own_variables_are_kept(variables, shown):
    tune = "import albert.threads as t; t.count_cores = lambda: 3; t.tune_threads();"
    assert run_python(tune + SHOW, **variables) == shown


def test_importing_albert_changes_nothing_and_threads_change_after_torch_is_loaded():
    assert run_python("import albert, albert.tasks.predictor;" + SHOW) == ["None"] * 3
    code = "import torch, albert; print(albert.tune_threads(1), torch.get_num_threads());"
    assert run_python(code + SHOW) == ["1", "1", "None", str(threads.SPIN_COUNT), "None"]


def test_commands_let_idle_threads_sleep():
    code = f"import albert.cli.main as cli\ncli._run = lambda words: exec({SHOW!r})\ncli.main([])"
    assert run_python(code) == ["None", str(threads.SPIN_COUNT), "None"]
