"""How the machine is doing: nothing comes in; memory, swapping, load and the number of cores go out."""

import os
import sys
from pathlib import Path

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

STATUS_PATH = Path("/proc/self/status")  # of this process
MEMORY_PATH = Path("/proc/meminfo")  # of the system


def count_cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def measure_health() -> dict[str, float]:
    """Megabytes held and swapped out, pages that had to be fetched from the disk, and the system's load."""
    found: dict[str, float] = {}
    told = read_amounts(STATUS_PATH)
    if resource is not None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        found["major_faults"] = usage.ru_majflt
        # What getrusage calls the peak may be that of the process which started this one.
        own = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        found["peak_mb"] = _round_megabytes(told.get("VmHWM", own))
    if hasattr(os, "getloadavg"):
        found["load"] = round(os.getloadavg()[0], 2)
    if "VmSwap" in told:
        found["swap_mb"] = _round_megabytes(told["VmSwap"])
    return found


def read_amounts(path: Path) -> dict[str, int]:
    """Bytes by the names under which Linux tells of memory in that file; none where it does not tell."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    rows = [line.split() for line in lines if line.endswith(" kB")]
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) == 3 and row[1].isdecimal()}


def _round_megabytes(num_bytes: int) -> float:
    return round(num_bytes / 1024**2, 1)
