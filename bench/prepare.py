"""`python -m bench.prepare`: megabytes per second of `albert prepare` and of a plain script, on novels.

`python -m bench.prepare memory MEGABYTES [WORKERS]` prepares that much text, made of copies that differ, in a
fresh process and prints the peak of its resident memory.
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
    """Every fourth novel, then the next, until there is enough: all layouts are among them."""
    archive = DATA / "novels.tar.xz"
    if not archive.exists():
        raise SystemExit(f"{archive}: missing; ALBERT_DATA names the folder that has it")
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
    """Both on the same files in turns, on one core; medians in megabytes of text a second."""
    from albert.data.prepare import prepare_corpus
    from bench.published_style import prepare_simply
    from bench.timing import ratio, time_in_turns

    vocab = DATA / "vocab" / "30k-clean.model"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = unpack_novels(folder / "novels", megabytes=MEGABYTES)
        size = sum(path.stat().st_size for path in paths) / 1e6
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(cores)})

        processor: dict[str, list[float]] = {"ours": [], "simply": []}

        def ours() -> None:
            shutil.rmtree(folder / "corpus", ignore_errors=True)
            start = time.process_time()
            prepare_corpus([folder / "novels"], vocab=vocab, out=folder / "corpus")
            processor["ours"].append(time.process_time() - start)

        def simply() -> None:
            start = time.process_time()
            prepare_simply(paths, vocab=vocab, out=folder / "simple.pkl")
            processor["simply"].append(time.process_time() - start)

        try:
            times = time_in_turns({"ours": ours, "simply": simply}, repeats=REPEATS)
        finally:
            os.sched_setaffinity(0, cores)  # what is measured next has them all
    return {
        "megabytes": size,
        "by_the_clock": {name: size / statistics.median(seconds) for name, seconds in times.items()},
        # On a busy machine the clock counts others' work, too.
        "by_processor_time": {name: size / statistics.median(each[1:]) for name, each in processor.items()},
        "ratio": ratio(times["simply"], times["ours"]),
    }


def write_copies(folder: Path, *, megabytes: int) -> None:
    """Copies of the novels, each with a word of its own behind the first of every line."""
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


class Watch:
    """The peaks of resident memory, looked at all the time: of the largest process, and of all together.

    Together, a page that several processes share is counted once.
    """

    def __enter__(self) -> "Watch":
        import psutil  # type: ignore[import-untyped]

        self._process = psutil.Process()
        self.peaks = {"all": 0, "largest": 0}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        import psutil

        while not self._is_over.wait(0.1):
            found = []
            for process in (self._process, *self._process.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    found.append(process.memory_full_info())
            self.peaks["all"] = max(self.peaks["all"], sum(each.pss for each in found))
            self.peaks["largest"] = max([self.peaks["largest"], *(each.rss for each in found)])


def measure_memory(*, megabytes: int, num_workers: int) -> dict[str, Any]:
    """Prepare so much text and give the peak of memory above that of the interpreter alone."""
    import psutil

    interpreter = psutil.Process().memory_info().rss
    from albert.data.prepare import prepare_corpus

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "texts").mkdir()
        write_copies(folder / "texts", megabytes=megabytes)
        start = time.perf_counter()
        with Watch() as watch:
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
        "megabytes_a_second": megabytes / seconds,
        "interpreter_mb": interpreter / 1e6,
        "largest_process_above_mb": (watch.peaks["largest"] - interpreter) / 1e6,
        "all_processes_above_mb": (watch.peaks["all"] - interpreter) / 1e6,
        "reading_above_mb": reading,
        "dropped": manifest.dropped,
        "pieces": manifest.num_tokens,
    }


def measure_reading(corpus: Path) -> float:
    """Megabytes above the interpreter, at the peak, of a process that reads examples all over a corpus."""
    words = [sys.executable, "-m", "bench.prepare", "read", str(corpus)]
    return float(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def read_examples(corpus: Path) -> None:
    """Make an epoch of examples at random places, and print the peak of memory above the interpreter's."""
    import psutil

    interpreter = psutil.Process().memory_info().rss
    from albert.data.corpus import open_corpus
    from albert.examples.batches import build_source
    from albert.text.folder import load_tokenizer

    source = build_source(open_corpus(corpus), load_tokenizer(corpus / "vocab"))
    with Watch() as watch:
        for step in range(source.num_examples // 256):
            source.build_step(step, batch_size=256)
    print((watch.peaks["largest"] - interpreter) / 1e6)


def main(words: list[str]) -> None:
    """Measure what is asked for and print it."""
    if words[:1] == ["read"]:
        read_examples(Path(words[1]))
    elif words[:1] == ["memory"]:
        num_workers = int(words[2]) if len(words) > 2 else 1
        print(json.dumps(measure_memory(megabytes=int(words[1]), num_workers=num_workers), indent=2))
    else:
        print(json.dumps(measure(), indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
