"""`python -m bench.prepare`: compare the speed of `albert corpus prepare` with a plain script, on novels.

`python -m bench.prepare memory MEGABYTES [WORKERS]` prepares that much text, made of altered copies of the
novels, and prints the peak of the resident memory.
"""

import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

DATA = Path(os.environ.get("ALBERT_DATA", Path(__file__).parents[2] / "shared" / "data"))
MEGABYTES = 20
REPEATS = 3
_FIRST_SPACE = re.compile(r"(?m)^(\S+) ")


def unpack_novels(folder: Path, *, megabytes: int) -> list[Path]:
    """Unpack novels up to a size, taking every fourth first, so that all file layouts are included."""
    archive = DATA / "novels.tar.xz"
    if not archive.exists():
        raise SystemExit(f"{archive} not found; set ALBERT_DATA to the folder that has it")
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    found = sorted(folder.rglob("*.txt"))
    kept: list[Path] = []
    size = 0
    for path in (path for first in range(4) for path in found[first::4]):
        if size < megabytes * 1_000_000:
            kept.append(path)
            size += path.stat().st_size
        else:
            path.unlink()
    return kept


def measure() -> dict[str, Any]:
    """Time both interleaved on the same files and one core; medians in megabytes of text per second."""
    from albert.data.prepare import prepare_corpus
    from bench.published_style import prepare_in_memory
    from bench.timing import median_ratio, time_interleaved

    vocab = DATA / "vocab" / "30k-clean.model"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = unpack_novels(folder / "novels", megabytes=MEGABYTES)
        size = sum(path.stat().st_size for path in paths) / 1e6
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(cores)})

        processor: dict[str, list[float]] = {"ours": [], "published": []}

        def ours() -> None:
            shutil.rmtree(folder / "corpus", ignore_errors=True)
            start = time.process_time()
            prepare_corpus([folder / "novels"], vocab=vocab, out=folder / "corpus")
            processor["ours"].append(time.process_time() - start)

        def published() -> None:
            start = time.process_time()
            prepare_in_memory(paths, vocab=vocab, out=folder / "corpus.pkl")
            processor["published"].append(time.process_time() - start)

        try:
            times = time_interleaved({"ours": ours, "published": published}, repeats=REPEATS)
        finally:
            os.sched_setaffinity(0, cores)
    return {
        "megabytes": size,
        "by_wall_time": {name: size / statistics.median(seconds) for name, seconds in times.items()},
        # On a busy machine, wall time includes the work of other processes.
        "by_processor_time": {name: size / statistics.median(each[1:]) for name, each in processor.items()},
        "ratio": median_ratio(times["published"], times["ours"]),
    }


def write_copies(folder: Path, *, megabytes: int) -> None:
    """Write copies of the novels, each with its own word inserted into every line."""
    with tempfile.TemporaryDirectory() as name:
        paths = unpack_novels(Path(name), megabytes=1000)
        left = megabytes * 1_000_000
        for number in range(10_000):
            for path in paths:
                text = path.read_text(encoding="utf-8", errors="replace")
                copy = _FIRST_SPACE.sub(rf"\1 number{number} ", text).encode()
                (folder / f"{number:04d}-{path.name}").write_bytes(copy)
                left -= len(copy)
                if left <= 0:
                    return


class MemoryMonitor:
    """Sample the resident memory of this process and its children; keep the peaks of the largest and of all.

    In the sum of all processes, a shared page is counted once.
    """

    def __enter__(self) -> "MemoryMonitor":
        import psutil  # type: ignore[import-untyped]

        self._process = psutil.Process()
        self.peaks = {"all": 0, "largest": 0}
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_stopped.set()
        self._thread.join()

    def _sample(self) -> None:
        import psutil

        while not self._is_stopped.wait(0.1):
            found = []
            for process in (self._process, *self._process.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    found.append(process.memory_full_info())
            self.peaks["all"] = max(self.peaks["all"], sum(each.pss for each in found))
            self.peaks["largest"] = max([self.peaks["largest"], *(each.rss for each in found)])


def measure_memory(*, megabytes: int, num_workers: int) -> dict[str, Any]:
    """Prepare a corpus, and measure the peak memory above that of the interpreter."""
    import psutil

    interpreter = psutil.Process().memory_info().rss
    from albert.data.prepare import prepare_corpus

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "texts").mkdir()
        write_copies(folder / "texts", megabytes=megabytes)
        start = time.perf_counter()
        with MemoryMonitor() as monitor:
            manifest = prepare_corpus(
                [folder / "texts"],
                vocab=DATA / "vocab" / "30k-clean.model",
                out=folder / "corpus",
                num_workers=num_workers,
            )
        seconds = time.perf_counter() - start
        reading = measure_reading(folder / "corpus")
    return {
        "megabytes": megabytes,
        "workers": num_workers,
        "megabytes_per_second": megabytes / seconds,
        "interpreter_mb": interpreter / 1e6,
        "largest_process_above_mb": (monitor.peaks["largest"] - interpreter) / 1e6,
        "all_processes_above_mb": (monitor.peaks["all"] - interpreter) / 1e6,
        "reading_above_mb": reading,
        "dropped": manifest.dropped,
        "tokens": manifest.num_tokens,
    }


def measure_reading(corpus: Path) -> float:
    """Measure the peak memory of a process that reads examples of a corpus, in MB above the interpreter."""
    words = [sys.executable, "-m", "bench.prepare", "read", str(corpus)]
    return float(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def read_examples(corpus: Path) -> None:
    """Build an epoch of examples in random order, and print the peak memory above the interpreter's."""
    import psutil

    interpreter = psutil.Process().memory_info().rss
    from albert.data.corpus import open_corpus
    from albert.examples.batches import build_source
    from albert.text.folder import load_tokenizer

    source = build_source(open_corpus(corpus), load_tokenizer(corpus / "vocab"))
    with MemoryMonitor() as monitor:
        for step in range(source.num_examples // 256):
            source.build_step(step, batch_size=256)
    print((monitor.peaks["largest"] - interpreter) / 1e6)


def main(words: list[str]) -> None:
    """Run a command line."""
    if words[:1] == ["read"]:
        read_examples(Path(words[1]))
    elif words[:1] == ["memory"]:
        num_workers = int(words[2]) if len(words) > 2 else 1
        print(json.dumps(measure_memory(megabytes=int(words[1]), num_workers=num_workers), indent=2))
    else:
        print(json.dumps(measure(), indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
