"""The machine: nothing comes in; its cores, memory, load, arithmetic, compiler and disk go out, judged."""

import os
import platform
import shutil
import sysconfig
from collections.abc import Callable
from pathlib import Path

from albert import __version__
from albert.app.doctor.findings import Figure, Finding
from albert.errors import InputError
from albert.training.metrics import MEMORY_PATH, count_cores, read_amounts

_QUOTA_PATH = Path("/sys/fs/cgroup/cpu.max")
_MIN_FREE_GB = 2.0


def check_versions() -> Finding:
    """What is installed."""
    import torch

    figures: dict[str, Figure] = {"albert": __version__, "torch": torch.__version__}
    return _say("versions", {**figures, "python": platform.python_version()})


def check_threads() -> Finding:
    """As many threads as this process has cores: fewer leave some idle, more wait for each other."""
    import torch

    cores, threads = count_cores(), torch.get_num_threads()
    quota = read_quota()
    usable = cores if quota is None else max(1, min(cores, round(quota)))
    wanted = os.environ.get("OMP_NUM_THREADS")
    figures: dict[str, Figure] = {"cores_allowed": cores, "cores_in_all": os.cpu_count() or cores}
    if quota is not None:
        figures["quota_of_cores"] = quota
    figures |= {"torch_threads": threads, "OMP_NUM_THREADS": wanted or "not set"}
    # Two hardware threads of one core are one core to torch: half as many is its own choice.
    is_few = threads < usable and (wanted is not None or 2 * threads < usable)
    if threads > usable or is_few:
        return _say("threads", figures, f"export OMP_NUM_THREADS={usable}; models of toy size may want fewer")
    return _say("threads", figures)


def check_memory() -> Finding:
    """Room for a model, its moments and its batches, without swapping."""
    amounts = read_memory()
    if not amounts:
        return _say("memory", {"memory": "not known on this system"})
    used = amounts["SwapTotal"] - amounts["SwapFree"]
    figures: dict[str, Figure] = {
        "total_gb": amounts["MemTotal"],
        "available_gb": amounts["MemAvailable"],
        "swap_used_gb": used,
        "swap_gb": amounts["SwapTotal"],
    }
    is_short = amounts["MemAvailable"] < _MIN_FREE_GB or used > amounts["MemAvailable"]
    cure = "close other programs: what is swapped out is slow to come back"
    return _say("memory", figures, cure if is_short else "")


def check_load() -> Finding:
    """Whether others compute here."""
    if not hasattr(os, "getloadavg"):
        return _say("load", {"load": "not known on this system"})
    load, cores = os.getloadavg()[0], count_cores()
    figures: dict[str, Figure] = {"load_of_the_last_minute": load, "cores_allowed": cores}
    cure = "the cores are taken; `top` shows by whom. A run beside it takes a multiple of the time"
    return _say("load", figures, cure if load > cores else "")


def check_arithmetic() -> Finding:
    """The device that `auto` takes, and whether bf16 is worth asking for."""
    from albert.model.runtime import autocast, select_device

    device = select_device()
    try:
        autocast(device, "bf16")
        advice = "yes: try runtime.precision=bf16"
    except InputError:
        advice = "not in this hardware: stay with float32"
    return _say("arithmetic", {"device": str(device), "bf16": advice})


def check_compiler() -> Finding:
    """What `is_compiled=true` needs: a C++ compiler, and Python's headers."""
    names = (os.environ.get("CXX"), "g++", "clang++", "cl")
    found = next((path for name in names if name and (path := shutil.which(name))), None)
    has_headers = (Path(sysconfig.get_paths()["include"]) / "Python.h").exists()
    figures: dict[str, Figure] = {"compiler": found or "none", "headers": "yes" if has_headers else "none"}
    cure = "is_compiled=true would fail: install g++ and python3-dev (is_compiled=false needs neither)"
    return _say("compiler", figures, "" if found and has_headers else cure)


def check_disk() -> Finding:
    """Room for checkpoints where we are; one of albert-base takes 140 MB, and a run keeps three."""
    usage = shutil.disk_usage(".")
    figures: dict[str, Figure] = {"free_gb": usage.free / 1e9, "total_gb": usage.total / 1e9}
    cure = "make room, or choose --out elsewhere" if usage.free < _MIN_FREE_GB * 1e9 else ""
    return _say("disk", {"folder": str(Path.cwd()), **figures}, cure)


CHECKS: tuple[Callable[[], Finding], ...] = (
    check_versions,
    check_threads,
    check_memory,
    check_load,
    check_arithmetic,
    check_compiler,
    check_disk,
)


def examine_machine() -> list[Finding]:
    """One finding for each check, in order; what is off has a cure."""
    return [check() for check in CHECKS]


def read_quota(path: Path = _QUOTA_PATH) -> float | None:
    """The cores that a container may fill, which may be fewer than it sees; None: no limit is known."""
    try:
        quota, period = path.read_text(encoding="ascii").split()
        return int(quota) / int(period)
    except (OSError, ValueError):  # no such file, or `max`
        return None


def read_memory(path: Path = MEMORY_PATH) -> dict[str, float]:
    """The system's memory in GB, by the kernel's names; empty where it does not tell."""
    found = {name: amount / 1e9 for name, amount in read_amounts(path).items()}
    return found if {"MemTotal", "MemAvailable", "SwapTotal", "SwapFree"} <= found.keys() else {}


def _say(title: str, figures: dict[str, Figure], cure: str = "") -> Finding:
    return Finding("machine", "warning" if cure else "fine", title, figures, cure)
