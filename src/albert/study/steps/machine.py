"""The machine that measures: nothing comes in; what it is, its free memory and a process's peak go out."""

import contextlib
import gc
import platform
import sys
from pathlib import Path

from albert.errors import InputError
from albert.training.metrics import MEMORY_PATH, STATUS_PATH, read_amounts

_CLEAR_PATH = Path("/proc/self/clear_refs")
_CPU_PATH = Path("/proc/cpuinfo")


def describe_machine(*, num_threads: int | None = None) -> str:
    """Processor, threads (torch's choice where none are given) and versions; nothing that names a host."""
    import torch

    capability = torch.backends.cpu.get_cpu_capability()
    number = num_threads or torch.get_num_threads()
    return (
        f"{_name_processor()}, {number} {'thread' if number == 1 else 'threads'}, {capability}; Python "
        f"{platform.python_version()}, torch {torch.__version__}"
    )


def _name_processor() -> str:
    with contextlib.suppress(OSError), _CPU_PATH.open(encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine() or "CPU"


def read_available_bytes() -> int | None:
    """Memory that the system can still give away; None where it does not tell."""
    return read_amounts(MEMORY_PATH).get("MemAvailable")


class PeakMemory:
    """Resident memory at its highest inside the block, above what there was at its start.

    On Linux by the kernel's high-water mark, which is set back at the start; elsewhere by the peak of the
    whole process, which misses what stays below an earlier one. `source` says which it was.
    """

    source = "VmHWM"

    def __enter__(self) -> "PeakMemory":
        gc.collect()
        if STATUS_PATH.exists():
            # Where it may not be set back, a peak that is higher than all before it still shows.
            with contextlib.suppress(OSError):
                _CLEAR_PATH.write_text("5")
            self.start = _read_status("VmRSS")
        else:
            self.source = "getrusage"
            self.start = _read_usage()
        return self

    def __exit__(self, *_: object) -> None:
        end = _read_status("VmHWM") if self.source == "VmHWM" else _read_usage()
        self.peak_bytes = end - self.start


def limit_memory(num_bytes: int) -> None:
    """Let this process take so much more memory: what is too large fails here, not somebody else's work.

    Linux only, where the limit is on private memory; elsewhere nothing is limited.
    """
    if not STATUS_PATH.exists():
        return
    import resource

    held = _read_status("VmData")
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = held + num_bytes if hard == resource.RLIM_INFINITY else min(held + num_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))
    # And if the system runs out all the same, this is the process to end.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _read_status(key: str) -> int:
    found = read_amounts(STATUS_PATH).get(key)
    assert found is not None, f"the kernel tells {key} of every process"
    return found


def _read_usage() -> int:
    try:
        import resource
    except ImportError as error:
        raise InputError(
            f"peak memory cannot be measured on this system ({sys.platform}); use Linux or macOS"
        ) from error
    unit = 1 if sys.platform == "darwin" else 1024
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * unit
