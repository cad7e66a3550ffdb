"""`make bench`: measures everything and writes docs/benchmarks.md."""

import datetime
import platform
import sys
from pathlib import Path
from typing import Any

import torch

from albert.files import write_text
from bench import against_transformers, attention

REPORT = Path(__file__).parents[1] / "docs" / "benchmarks.md"


def describe_machine() -> str:
    """Processor, cores and versions; nothing that names a host."""
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "CPU")
    import transformers

    return (
        f"{model}, {torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}; Python "
        f"{platform.python_version()}, torch {torch.__version__}, transformers {transformers.__version__}"
    )


def format_model(found: dict[str, Any]) -> str:
    """The comparison with `transformers`: ratios with both their factors."""
    padding = found["padding_factor"]
    lines = [
        "## Against `transformers`, albert-base, two threads",
        "",
        "Sequence classification at base width (E 128, H 768, 12 layers), float32, no dropout. A training step is",
        "forward, loss, backward and a fused AdamW step. The ragged batch is 32 real sentences and paragraphs",
        f"(`bench/texts.txt`): {found['real_tokens']} tokens, {min(found['lengths'])} to {max(found['lengths'])} in a"
        f" sequence, padded ÷ real = **{padding:.2f}**.",
        "*Usual* is one padded batch. *At its best* is sorted by length, in the fastest of the batch sizes "
        f"{', '.join(map(str, against_transformers.BATCH_SIZES))}.",
        "",
        "| | ours, median (middle half) | `transformers`, usual | ratio | needed | ratio, at its best |",
        "|---|---|---|---|---|---|",
    ]
    for name in ("forward", "training"):
        dense, ragged, best = (found[f"{kind}_{name}"] for kind in ("dense", "ragged", "best"))
        needed = "1.15" if name == "forward" else "–"
        lines.append(
            f"| {name}, dense 8 × 128 | {dense['ours']} | {dense['theirs']} | **{dense['ratio']:.2f}×** | {needed} | |"
        )
        bar = 0.9 * padding * dense["ratio"]
        lines.append(
            f"| {name}, ragged | {ragged['ours']} | {ragged['theirs']} | **{ragged['ratio']:.2f}×** | "
            f"{bar:.2f} = 0.9 × {padding:.2f} × {dense['ratio']:.2f} | {best['ratio']:.2f}× "
            f"(batches of {best['best_batch_size']}) |"
        )
    peak = {side: count / 2**20 for side, count in found["peak_bytes"].items()}
    lines += [
        "",
        f"Peak memory of the ragged training step above what the process held before it, each in a fresh process: "
        f"ours **{peak['ours']:.0f} MiB**, `transformers` {peak['theirs']:.0f} MiB "
        f"({peak['ours'] / peak['theirs']:.2f}×), ours with gradient checkpointing {peak['checkpointed']:.0f} MiB.",
    ]
    return "\n".join(lines)


def format_attention(rows: list[dict[str, Any]]) -> str:
    """One table a batch: why the model attends in runs of equal length."""
    lines = [
        "## Ways to attend over a ragged batch",
        "",
        "Milliseconds of one layer's attention, median; heads of width 64. *Training* is forward and backward.",
    ]
    for batch in dict.fromkeys(row["batch"] for row in rows):
        lines += [
            "",
            f"**{batch}**",
            "",
            "| way | 12 heads: forward | training | 4 heads: forward | training |",
            "|---|---|---|---|---|",
        ]
        for way in dict.fromkeys(row["way"] for row in rows):
            cells = [
                f"{row[kind]:.1f}"
                for row in rows
                if row["batch"] == batch and row["way"] == way
                for kind in ("forward_ms", "training_ms")
            ]
            lines.append(f"| {way} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and write."""
    torch.set_num_threads(against_transformers.THREADS)
    print("attention", file=sys.stderr)
    ways = format_attention(attention.measure())
    model = format_model(against_transformers.measure())
    head = (
        "# Benchmarks\n\nMade by `make bench`, in one run, both sides in turns; a ratio is the median over rounds of "
        f"the other side's time to ours.\n\n{datetime.date.today().isoformat()}. {describe_machine()}."
    )
    report = "\n\n".join([head, model, ways]) + "\n"
    write_text(REPORT, report)
    print(report)


if __name__ == "__main__":
    main()
