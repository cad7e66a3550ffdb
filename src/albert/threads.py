"""Threads: how many cores this process may use, and how long its idle threads spin before they sleep.

OpenMP's threads spin while they wait for each other. On a busy machine the thread they wait for is not
running, so they take the core that it needs: a training step beside two other programs can be 25 times
slower. With a short spin, threads sleep early, which costs little on a quiet machine (docs/benchmarks.md).
The runtime reads these variables once, when torch is loaded.
"""

import os
import sys
from pathlib import Path

SPIN_VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
NUM_VARIABLE = "OMP_NUM_THREADS"
SPIN_COUNT = 1000
_CGROUPS = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")


def tune_threads(num_threads: int | None = None) -> int:
    """Use as many threads as the process may use, and let idle threads sleep early.

    Call it before torch is imported: later, only the number of threads can change. The commands of albert do
    this by themselves; as a library, albert changes nothing unless you call this function. Environment
    variables that you have set (OMP_NUM_THREADS, OMP_WAIT_POLICY, GOMP_SPINCOUNT) are kept.

    Args:
        num_threads: The number of threads; by default OMP_NUM_THREADS, or as many as the CPU affinity and the
            CPU quota of the container allow.

    Returns:
        The number of threads.

    >>> num_threads = albert.tune_threads()
    """
    set_variables()
    given = os.environ.get(NUM_VARIABLE, "")
    number = num_threads or (int(given) if given.isdecimal() and int(given) else count_cores())
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(number)
    else:
        os.environ[NUM_VARIABLE] = str(number)
    return number


def set_variables() -> None:
    """Set the variables that the user has not set; the number of threads only where a quota limits it."""
    if is_spinning():
        os.environ["GOMP_SPINCOUNT"] = str(SPIN_COUNT)
    if count_cores() < _count_affinity():
        os.environ.setdefault(NUM_VARIABLE, str(count_cores()))


def is_spinning() -> bool:
    """Whether idle threads spin as long as OpenMP does by default."""
    return not any(name in os.environ for name in SPIN_VARIABLES)


def count_cores() -> int:
    """Count the cores that this process may use, by its affinity and its container's CPU quota."""
    quota, cores = read_quota(), _count_affinity()
    return cores if quota is None else max(1, min(cores, round(quota)))


def _count_affinity() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def read_quota(cgroups: Path = _CGROUPS, membership: Path = _MEMBERSHIP) -> float | None:
    """Read how many cores the control groups of this process allow (version 1 and 2), or None for no limit.

    A group is also limited by the groups around it. In a container, the path of the group may be that of the
    host, where only the outermost folder exists.
    """
    try:
        lines = membership.read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return None
    quotas = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = cgroups / controllers if controllers else cgroups
        group = root / path.strip("/")
        folders = [group, *(folder for folder in group.parents if folder.is_relative_to(root))]
        quotas += [quota for folder in folders if (quota := _read_group(folder)) is not None]
    return min(quotas, default=None)


def _read_group(folder: Path) -> float | None:
    try:
        if (folder / "cpu.max").exists():  # version 2
            quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        else:
            quota, period = (
                (folder / f"cpu.cfs_{name}_us").read_text(encoding="ascii") for name in ("quota", "period")
            )
        cores = int(quota) / int(period)
    except (OSError, ValueError):  # no limit: no such file, or `max`
        return None
    return cores if cores > 0 else None  # version 1: -1 is no limit
