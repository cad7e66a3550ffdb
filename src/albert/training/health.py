"""How the machine is doing: nothing comes in; memory, swapping, load and the number of cores go out."""

import os
import sys

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]


def count_cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def measure_health() -> dict[str, float]:
    """Megabytes held and swapped out, pages that had to be fetched from the disk, and the system's load."""
    found: dict[str, float] = {}
    if resource is not None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        found["major_faults"] = usage.ru_majflt
        # What getrusage calls the peak may be that of the process which started this one.
        peak = _read_status("VmHWM")
        own = usage.ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)
        found["peak_mb"] = round(own, 1) if peak is None else peak
    if hasattr(os, "getloadavg"):
        found["load"] = round(os.getloadavg()[0], 2)
    swapped = _read_status("VmSwap")
    if swapped is not None:
        found["swap_mb"] = swapped
    return found


def _read_status(key: str) -> float | None:
    """Megabytes that Linux keeps under this name of the process."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            line = next(line for line in file if line.startswith(f"{key}:"))
            return round(int(line.split()[1]) / 1024, 1)
    except (OSError, StopIteration, ValueError):
        return None
