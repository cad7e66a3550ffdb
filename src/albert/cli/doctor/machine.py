"""The checks of the machine: versions, threads, memory, load, device, compiler and disk."""

import os
import platform
import shutil
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from albert import __version__
from albert.cli.doctor.run import Finding, Value
from albert.errors import InputError
from albert.training.run_folder import MEMORY_PATH, count_cores, read_amounts

_QUOTA_PATH = Path("/sys/fs/cgroup/cpu.max")
_MIN_FREE_GB = 2.0


def diagnose_machine() -> list[Finding]:
    """Return one finding for each check; those with a problem have a hint."""
    import torch

    versions = {"albert": __version__, "torch": torch.__version__, "python": platform.python_version()}
    return [
        _build("versions", versions),
        check_threads(),
        check_memory(),
        check_load(),
        check_device(),
        check_compiler(),
        check_disk(),
    ]


def check_threads() -> Finding:
    """Compare the number of threads with the cores this process may use."""
    import torch

    cores, threads, quota = count_cores(), torch.get_num_threads(), read_quota()
    usable = cores if quota is None else max(1, min(cores, round(quota)))
    variable = os.environ.get("OMP_NUM_THREADS")
    values: dict[str, Value] = {"cores_allowed": cores, "cores_in_all": os.cpu_count() or cores}
    values |= {} if quota is None else {"quota_of_cores": quota}
    values |= {"torch_threads": threads, "OMP_NUM_THREADS": variable or "not set"}
    # torch counts two hardware threads as one core.
    is_few = threads < usable and (variable is not None or 2 * threads < usable)
    return _build("threads", values, f"export OMP_NUM_THREADS={usable}", threads > usable or is_few)


def check_memory() -> Finding:
    """Find short memory and swapping."""
    sizes = read_memory()
    if not sizes:
        return _build("memory", {"memory": "not known on this system"})
    used, available = sizes["SwapTotal"] - sizes["SwapFree"], sizes["MemAvailable"]
    values: dict[str, Value] = {"total_gb": sizes["MemTotal"], "available_gb": available}
    values |= {"swap_used_gb": used, "swap_gb": sizes["SwapTotal"]}
    return _build("memory", values, "close other programs", available < _MIN_FREE_GB or used > available)


def check_load() -> Finding:
    """Find other processes that use the cores."""
    if not hasattr(os, "getloadavg"):
        return _build("load", {"load": "not known on this system"})
    load, cores = os.getloadavg()[0], count_cores()
    values: dict[str, Value] = {"load_of_the_last_minute": load, "cores_allowed": cores}
    return _build("load", values, "other processes use the cores: find them with `top`", load > cores)


def check_device() -> Finding:
    """Report the device that `auto` selects and whether it has bf16."""
    from albert.model.runtime import autocast, select_device

    device = select_device()
    try:
        autocast(device, "bf16")
        advice = "yes: try runtime.precision=bf16"
    except InputError:
        advice = "not in this hardware: use float32"
    return _build("arithmetic", {"device": str(device), "bf16": advice})


def check_compiler() -> Finding:
    """Look for what `is_compiled=true` needs."""
    names = (os.environ.get("CXX"), "g++", "clang++", "cl")
    found = next((path for name in names if name and (path := shutil.which(name))), None)
    has_headers = (Path(sysconfig.get_paths()["include"]) / "Python.h").exists()
    values = {"compiler": found or "none", "headers": "yes" if has_headers else "none"}
    hint = "is_compiled=true needs g++ and python3-dev: install them"
    return _build("compiler", values, hint, not (found and has_headers))


def check_disk() -> Finding:
    """Find a disk without space for checkpoints; three of albert-base take 420 MB."""
    usage = shutil.disk_usage(".")
    values: dict[str, Value] = {"folder": str(Path.cwd()), "free_gb": usage.free / 1e9}
    values["total_gb"] = usage.total / 1e9
    return _build("disk", values, "free space, or use another --out", usage.free < _MIN_FREE_GB * 1e9)


def read_quota(path: Path = _QUOTA_PATH) -> float | None:
    """Return the number of cores a container may use; None if there is no limit."""
    try:
        quota, period = path.read_text(encoding="ascii").split()
        return int(quota) / int(period)
    except (OSError, ValueError):  # no such file, or `max`
        return None


def read_memory(path: Path = MEMORY_PATH) -> dict[str, float]:
    """Return memory sizes in GB by their names in Linux; empty on other systems."""
    found = {name: size / 1e9 for name, size in read_amounts(path).items()}
    return found if {"MemTotal", "MemAvailable", "SwapTotal", "SwapFree"} <= found.keys() else {}


def _build(title: str, values: Mapping[str, Value], hint: str = "", has_problem: bool = False) -> Finding:
    return Finding(
        "machine", "warning" if has_problem else "fine", title, values, hint if has_problem else ""
    )
