"""Run all benchmarks and write docs/benchmarks.md: `make bench`, or `python -m bench NAME…` for some."""

import datetime
import json
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from albert.data.corpus import open_corpus
from albert.data.prepare import prepare_corpus
from albert.data.shards import VOCAB_DIR
from albert.files import read_text, write_text
from albert.study.step_costs import describe_machine
from albert.text.folder import load_tokenizer
from bench import (
    accelerate,
    against_transformers,
    attention,
    busy,
    communication,
    examples,
    finetuning,
    int8,
    onnx,
    prepare,
    pretraining,
    saving,
    scaling_check,
    sentences,
)

REPORT = Path(__file__).parents[1] / "docs" / "benchmarks.md"
HEAD = """# Benchmarks

Written by `make bench`; `python -m bench NAME` runs single sections: {names}.

Both sides of a comparison are interleaved in one run. A ratio is the median over rounds of the other side's
time divided by ours. *Target* is the limit that was set before the first measurement. Some sections need
texts that may not be redistributed ([CONTRIBUTING.md](../CONTRIBUTING.md)); without them they keep
their earlier figures."""


def describe_sides() -> str:
    """Describe the machine and the versions of both sides."""
    import transformers

    return f"{describe_machine()}, transformers {transformers.__version__}"


def format_model(found: dict[str, Any]) -> str:
    """Format the comparison with `transformers`."""
    padding = found["padding_factor"]
    lines = [
        "Sequence classification at base width (E 128, H 768, 12 layers), float32, no dropout. A training",
        "step is forward, loss, backward and a fused AdamW step. The ragged batch has 32 sentences and",
        f"paragraphs (`bench/texts.txt`): {found['real_tokens']} tokens, {min(found['lengths'])} to",
        f"{max(found['lengths'])} per sequence, padded ÷ real = **{padding:.2f}**. *Usual* is one padded",
        "batch. *At its best* is sorted by length, with the fastest of the batch sizes",
        f"{', '.join(map(str, against_transformers.BATCH_SIZES))}.",
        "",
        "| | ours, median (quartiles) | `transformers`, usual | ratio | target | ratio, at its best |",
        "|---|---|---|---|---|---|",
    ]
    for name in ("forward", "training"):
        dense, ragged, best = (found[f"{batch}_{name}"] for batch in ("dense", "ragged", "best"))
        target = "1.15" if name == "forward" else "–"
        lines.append(
            f"| {name}, dense 8 × 128 | {dense['ours']} | {dense['theirs']} | **{dense['ratio']:.2f}×** | "
            f"{target} | |"
        )
        ragged_target = 0.9 * padding * dense["ratio"]
        lines.append(
            f"| {name}, ragged | {ragged['ours']} | {ragged['theirs']} | **{ragged['ratio']:.2f}×** | "
            f"{ragged_target:.2f} = 0.9 × {padding:.2f} × {dense['ratio']:.2f} | {best['ratio']:.2f}× "
            f"(batches of {best['best_batch_size']}) |"
        )
    peak = {side: count / 2**20 for side, count in found["peak_bytes"].items()}
    lines += [
        "",
        "Peak memory of the ragged training step above the memory before it, each in a fresh process:",
        f"ours **{peak['ours']:.0f} MiB**, `transformers` {peak['theirs']:.0f} MiB "
        f"({peak['ours'] / peak['theirs']:.2f}×), ours with gradient checkpointing "
        f"{peak['checkpointed']:.0f} MiB.",
    ]
    return "\n".join(lines)


def format_attention(rows: list[dict[str, Any]]) -> str:
    """Format a table for each batch."""
    lines = [
        "Milliseconds of the attention of one layer, medians; heads of width 64. *Training* is forward and",
        "backward.",
    ]
    for batch in dict.fromkeys(row["batch"] for row in rows):
        lines += [
            "",
            f"**{batch}**",
            "",
            "| method | 12 heads: forward | training | 4 heads: forward | training |",
            "|---|---|---|---|---|",
        ]
        for method in dict.fromkeys(row["method"] for row in rows):
            cells = [
                f"{row[column]:.1f}"
                for row in rows
                if row["batch"] == batch and row["method"] == method
                for column in ("forward_ms", "training_ms")
            ]
            lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines)


def format_sentences() -> str:
    """Compare sentence splitters on novels, and format the table."""
    with tempfile.TemporaryDirectory() as name:
        novels = prepare.unpack_novels(Path(name), megabytes=1)
        paragraphs = [line for path in novels[:1] for line in read_text(path).splitlines() if line.strip()]
    return sentences.format_results(sentences.measure(paragraphs))


def format_prepare() -> str:
    """Compare corpus preparation with a plain script, and format the table."""
    found = prepare.measure()
    wall, processor = found["by_wall_time"], found["by_processor_time"]
    return "\n".join(
        [
            f"{found['megabytes']:.1f} MB of novels, one core, medians of {prepare.REPEATS} interleaved",
            "rounds. Target: 3 MB/s. *Published style*: everything in memory, Python lists",
            "(`bench/published_style.py`).",
            "",
            "| | wall time | processor time |",
            "|---|---|---|",
            f"| ours | **{wall['ours']:.2f} MB/s** | {processor['ours']:.2f} MB/s |",
            f"| published style | {wall['published']:.2f} MB/s | {processor['published']:.2f} MB/s |",
            f"| ratio | **{found['ratio']:.2f}×** | {processor['ours'] / processor['published']:.2f}× |",
        ]
    )


@contextmanager
def _prepared_novels() -> Iterator[Path]:
    """Prepare a corpus of novels with the published vocabulary."""
    with tempfile.TemporaryDirectory() as name:
        folder, vocab = Path(name), prepare.DATA / "vocab" / "30k-clean.model"
        prepare.unpack_novels(folder / "novels", megabytes=prepare.MEGABYTES)
        prepare_corpus([folder / "novels"], vocab=vocab, out=folder / "corpus", num_workers=2)
        yield folder / "corpus"


def format_examples() -> str:
    """Measure building batches from shards, and format the table."""
    with _prepared_novels() as corpus:
        rows = examples.measure(open_corpus(corpus), load_tokenizer(corpus / VOCAB_DIR))
    return examples.format_rows(rows, source=f"{prepare.MEGABYTES} MB of novels")


def format_pretraining() -> str:
    """Compare a pretraining step with a plain loop around `transformers`, and format the table."""
    with _prepared_novels() as corpus:
        rows = [pretraining.compare(case, corpus) for case in pretraining.CASES]
        shares = pretraining.measure_time_shares(corpus)
    return pretraining.format_results(rows, shares)


def format_memory() -> str:
    """Measure the memory of preparing and reading a corpus of two sizes, and format the table."""
    with tempfile.TemporaryDirectory() as name:
        prepare.unpack_novels(Path(name), megabytes=1)  # stops early if the data is missing
    lines = [
        "Peak resident memory in MB above the interpreter. Preparing with two workers: the largest process,",
        "and the sum of all (shared pages count once). Reading: an epoch of examples of 512 tokens in",
        "random order. The text is made of altered copies of the novels, so that paragraphs are not",
        "duplicates. Limit: 400 MB, and 16 bytes per distinct paragraph.",
        "",
        "| text | preparing, largest process | preparing, all | reading |",
        "|---|---|---|---|",
    ]
    for megabytes in (100, 1000):
        words = [sys.executable, "-m", "bench.prepare", "memory", str(megabytes), "2"]
        found = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
        lines.append(
            f"| {megabytes} MB | {found['largest_process_above_mb']:.0f} | "
            f"{found['all_processes_above_mb']:.0f} | {found['reading_above_mb']:.0f} |"
        )
    return "\n".join(lines)


SECTIONS: dict[str, tuple[str, Callable[[], str]]] = {
    "model": (
        "Against `transformers`, albert-base, two threads",
        lambda: format_model(against_transformers.measure()),
    ),
    "accelerate": ("Models of other libraries, accelerated", accelerate.format_section),
    "attention": ("Attention over ragged batches", lambda: format_attention(attention.measure())),
    "sentences": ("Sentence splitting", format_sentences),
    "prepare": ("Preparing a corpus: text to shards", format_prepare),
    "examples": ("Examples: shards to ready batches", format_examples),
    "pretraining": ("Pretraining steps against a plain loop", format_pretraining),
    "finetuning": ("Fine-tuning and evaluation against the Trainer", finetuning.format_section),
    "int8": ("Int8 against float32 and ONNX Runtime", lambda: int8.format_results(int8.measure())),
    "onnx": ("ONNX export against `transformers`", onnx.format_section),
    "memory": ("Memory of preparing and reading", format_memory),
    "communication": ("Bytes that two processes exchange in a step", communication.format_section),
    "scaling": ("Step time of many processes: formula and measurement", scaling_check.format_section),
    "busy": ("Busy machines: waiting threads", busy.format_section),
    "saving": ("Background checkpoints of two processes", saving.format_section),
}


def wrap_paragraphs(text: str) -> str:
    """Wrap the lines of a page, except those of tables and code."""
    wrapper = textwrap.TextWrapper(120, break_long_words=False, break_on_hyphens=False)
    return "\n\n".join(
        block if block.startswith(("|", "    ", "#")) else wrapper.fill(block) for block in text.split("\n\n")
    )


def read_sections() -> dict[str, str]:
    """Read the sections of the report, by title."""
    parts = read_text(REPORT).split("\n## ")[1:] if REPORT.exists() else []
    return {part.partition("\n")[0]: part.partition("\n")[2].strip() for part in parts}


def main(names: list[str]) -> None:
    """Measure the named sections, or all, and write them into the report."""
    torch.set_num_threads(against_transformers.THREADS)
    for name in names or SECTIONS:
        if name not in SECTIONS:
            raise SystemExit(f"unknown section {name!r}; choose from {', '.join(SECTIONS)}")
        print(name, file=sys.stderr, flush=True)
        title, measure = SECTIONS[name]
        try:
            body = measure()
        except SystemExit as reason:  # its data is missing
            print(f"skipped: {reason}", file=sys.stderr)
            continue
        found = read_sections()
        found[title] = f"{body}\n\n{datetime.date.today().isoformat()}. {describe_sides()}."
        known = [title for title, _ in SECTIONS.values() if title in found]
        head = HEAD.format(names=", ".join(SECTIONS))
        report = "\n\n".join([head, *(f"## {title}\n\n{found[title]}" for title in known)])
        write_text(REPORT, wrap_paragraphs(report) + "\n")
    print(read_text(REPORT))


if __name__ == "__main__":
    main(sys.argv[1:])
