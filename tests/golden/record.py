"""Record what albert computes on fixed inputs, so that a change can be compared with the code before it.

    python -m tests.golden.record run OUT.json [CASE ...]
    python -m tests.golden.record compare OLD_CHECKOUT NEW_CHECKOUT [CASE ...]
    python -m tests.golden.record resume OLD_CHECKOUT NEW_CHECKOUT

`compare` records two checkouts on this machine and expects every bit to be the same. `resume` interrupts runs
of the old checkout, continues them with the new one and compares the weights. `test_golden.py` compares with
`golden.json`, which `run` wrote, perhaps on another machine: integers and texts by hash, floats within 1e-3.

Everything goes through the command line, whose flags, files and JSON are stable, never through modules.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.golden.cases import CASES, Golden, Record, drop_volatile
from tests.golden.inputs import REPOSITORY, write_task


def record_cases(names: Sequence[str] = ()) -> dict[str, Record]:
    """Run cases in this process, with one thread."""
    import torch

    torch.set_num_threads(1)
    records = {}
    with _temporary_folder() as folder:
        golden = Golden(folder)
        for name in names or CASES:
            start = time.perf_counter()
            records[name] = Record()
            CASES[name](golden, records[name])
            print(f"{name}: {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
    return records


def compare(old: str, new: str, names: Sequence[str]) -> int:
    """Record both checkouts; print every difference and return how many there are."""
    before, after = _record_checkout(old, names), _record_checkout(new, names)
    num_values = num_different = 0
    for name in before:
        for part in ("exact", "bits"):
            for key in sorted({*before[name][part], *after[name][part]}):
                pair = [each[name][part].get(key) for each in (before, after)]
                num_values += 1
                num_different += pair[0] != pair[1]
                if pair[0] != pair[1]:
                    print(f"{name}: {part} {key!r}: {pair[0]} != {pair[1]}")
    print(f"{num_values} values of {len(before)} cases compared, {num_different} different")
    return num_different


def resume(old: str, new: str) -> int:
    """Continue interrupted runs of the old checkout with the new one; return how many files differ.

    The corpus, the fine-tuned model and the study that the new checkout opens are the old one's.
    """
    with _temporary_folder() as folder:
        golden = Golden(folder)
        data = write_task(folder / "task", "classification")
        corpus, vocab = folder / "corpus", folder / "vocab"
        _run(old, f"vocab train {golden.sources} --size 500 --out {vocab}")
        _run(old, f"corpus prepare {golden.sources} --vocab {vocab} --out {corpus}")
        steps = "num_steps=300 log_every=1"
        commands = {
            "pretrain": f"pretrain {golden.recipe} --data {corpus} {steps}",
            "finetune": f"finetune classification --model {folder}/pretrain --data {data} {steps}",
            "study": f"study {golden.study} --data {corpus} pretrain.num_steps=300 pretrain.log_every=1",
        }
        for name, command in commands.items():
            _run(old, f"{command} --out {folder / name}")
            _interrupt(old, command, folder / f"{name}-stopped")
            option = "" if name == "study" else "--resume"
            _run(new, f"{command} --out {folder / name}-stopped {option}")
        for name, checkout in (("evaluate", old), ("evaluate-stopped", new)):
            options = f"--model {folder}/finetune --data {data} --out {folder / name}"
            _run(checkout, f"evaluate classification {options}")
        num_different = 0
        for name in (*commands, "evaluate"):
            for pattern in ("model.safetensors", "result.json", "predictions.jsonl"):
                for path in sorted((folder / name).rglob(pattern)):
                    other = folder / f"{name}-stopped" / path.relative_to(folder / name)
                    is_same = _read(path) == _read(other)
                    num_different += not is_same
                    print(f"{'identical' if is_same else 'DIFFERENT'}: {path.relative_to(folder)}")
        return num_different


def _read(path: Path) -> Any:
    if path.name != "result.json":
        return path.read_bytes()
    return drop_volatile(json.loads(path.read_text(encoding="utf-8")))


def _record_checkout(checkout: str, names: Sequence[str]) -> dict[str, Any]:
    with _temporary_folder() as folder:
        command = [sys.executable, "-m", "tests.golden.record", "run", str(folder / "out.json"), *names]
        subprocess.run(command, check=True, env=_environment(checkout), cwd=REPOSITORY)
        found: dict[str, Any] = json.loads((folder / "out.json").read_text(encoding="utf-8"))
        return found


def _environment(checkout: str) -> dict[str, str]:
    path = str(Path(checkout).resolve() / "src")
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def _run(checkout: str, command: str) -> None:
    words = [sys.executable, "-m", "albert", *command.split()]
    done = subprocess.run(words, env=_environment(checkout), capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stderr}"


def _interrupt(checkout: str, command: str, out: Path) -> None:
    """Start a command and press Ctrl-C once a run below `out` has logged ten steps."""
    words = [sys.executable, "-m", "albert", *command.split(), "--out", str(out)]
    none = subprocess.DEVNULL
    with subprocess.Popen(words, env=_environment(checkout), stdout=none, stderr=none) as process:
        while process.poll() is None and not any(
            path.read_bytes().count(b"\n") >= 10 for path in out.rglob("metrics.jsonl")
        ):
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
    assert process.returncode == 130, f"{command} ended with {process.returncode} before it was interrupted"


@contextlib.contextmanager
def _temporary_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="golden-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main(words: list[str]) -> int:
    if words[:1] == ["run"] and len(words) > 1:
        path, records = Path(words[1]), {}
        if words[2:] and path.exists():  # other cases keep their values
            records = json.loads(path.read_text(encoding="utf-8"))
        records |= {name: vars(record) for name, record in record_cases(words[2:]).items()}
        path.write_text(json.dumps(records, sort_keys=True) + "\n", encoding="utf-8")
        return 0
    if words[:1] == ["compare"] and len(words) > 2:
        return int(compare(words[1], words[2], words[3:]) > 0)
    if words[:1] == ["resume"] and len(words) == 3:
        return int(resume(words[1], words[2]) > 0)
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
