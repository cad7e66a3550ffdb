"""Compare the speed of two checkouts of albert: `python -m bench.checkouts OLD NEW TEXTS_DIR [ROUNDS]`.

Each round runs both checkouts, every measurement in its own process. The result is the median over rounds of
new ÷ old, with the lowest and the highest round.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

_EMBED = """
import sys, time, albert
model = albert.load("nano")
texts = [line for line in open(sys.argv[1], encoding="utf-8") if 20 < len(line) < 400][:3000]
model.embed(texts[:100])
start = time.perf_counter()
model.embed(texts)
print(len(texts) / (time.perf_counter() - start))
"""


def main(old: str, new: str, texts: str, rounds: str = "5") -> None:
    """Print a table of speeds: pretraining, fine-tuning, embedding and corpus preparation."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = _write_lines(Path(texts), folder / "lines.txt")
        _albert(old, f"vocab train {lines} --size 4000 --out {folder}/vocab")
        _albert(old, f"corpus prepare {lines} --vocab {folder}/vocab --out {folder}/corpus")
        _write_task(lines, folder / "task.csv")
        measures: dict[str, Callable[[str, Path], float]] = {
            "pretraining, tokens per second": lambda checkout, out: _train(
                checkout, f"pretrain nano --data {folder}/corpus --out {out} num_steps=40", out
            ),
            "fine-tuning, tokens per second": lambda checkout, out: _train(
                checkout,
                f"finetune classification --model nano --data {folder}/task.csv --out {out} num_steps=40",
                out,
            ),
            "embedding, texts per second": lambda checkout, out: float(
                _run(checkout, [sys.executable, "-c", _EMBED, str(lines)])
            ),
            "corpus prepare, MB per second": lambda checkout, out: _prepare(checkout, lines, folder, out),
        }
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in measures}
        for number in range(int(rounds)):
            order = (old, new) if number % 2 == 0 else (new, old)
            for name, measure in measures.items():
                values = {
                    checkout: measure(checkout, folder / f"out-{name[:4]}-{number}-{side}")
                    for side, checkout in enumerate(order)
                }
                found[name].append((values[old], values[new]))
                print(f"round {number + 1}: {name}: {values[old]:.1f}, {values[new]:.1f}", file=sys.stderr)
    print("| | old | new | new ÷ old, median (lowest, highest round) |\n|---|---|---|---|")
    for name, pairs in found.items():
        ratios = sorted(second / first for first, second in pairs)
        medians = [statistics.median(side) for side in zip(*pairs, strict=True)]
        spread = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}, {ratios[-1]:.2f})"
        print(f"| {name} | {medians[0]:,.1f} | {medians[1]:,.1f} | {spread} |")


def _write_lines(texts: Path, path: Path, *, max_bytes: int = 8_000_000) -> Path:
    with path.open("wb") as file:
        for source in sorted(texts.rglob("*.txt")):
            file.write(source.read_bytes().replace(b"\r\n", b"\n") + b"\n\n")
            if file.tell() > max_bytes:
                break
    return path


def _write_task(lines: Path, path: Path) -> None:
    texts = [line.strip() for line in lines.open(encoding="utf-8", errors="replace") if 20 < len(line) < 300]
    rows = [f"{json.dumps(text[:200]).replace(chr(92), '')},{len(text) % 2}\n" for text in texts[:4000]]
    path.write_text("text,label\n" + "".join(row for row in rows if row.count('"') == 2), encoding="utf-8")


def _train(checkout: str, command: str, out: Path) -> float:
    _albert(checkout, f"{command} log_every=5 num_evaluations=1 has_tensorboard=false")
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return float(
        statistics.median(line["tokens_per_second"] for line in lines if "tokens_per_second" in line)
    )


def _prepare(checkout: str, lines: Path, folder: Path, out: Path) -> float:
    start = time.perf_counter()
    _albert(checkout, f"corpus prepare {lines} --vocab {folder}/vocab --out {out} --workers 1")
    return lines.stat().st_size / 1e6 / (time.perf_counter() - start)


def _albert(checkout: str, command: str) -> str:
    return _run(checkout, [sys.executable, "-m", "albert", *command.split()])


def _run(checkout: str, words: list[str]) -> str:
    environment = {**os.environ, "PYTHONPATH": str(Path(checkout).resolve() / "src"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


if __name__ == "__main__":
    old, new, texts, *rounds = sys.argv[1:]
    main(old, new, texts, *rounds[:1])
