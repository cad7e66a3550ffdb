"""`make bench`: measures everything and writes docs/benchmarks.md; `python -m bench NAME…` renews sections."""

import datetime
import json
import subprocess
import sys
import tempfile
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
    against_transformers,
    attention,
    communication,
    examples,
    finetuning,
    prepare,
    pretraining,
    saving,
    scaling_check,
    sentences,
)

REPORT = Path(__file__).parents[1] / "docs" / "benchmarks.md"
HEAD = """# Benchmarks

Made by `make bench`; a section alone by `python -m bench NAME`: {names}. Both sides of a
comparison run in turns in one run; a ratio is the median over rounds of the other side's time to ours. *Needed* is the bar that
was set before anything was measured. Some sections need texts that are not ours to hand out ([CONTRIBUTING.md](../CONTRIBUTING.md));
without them they stay as they are."""


def describe_sides() -> str:
    """The machine, and the versions of both sides."""
    import transformers

    return f"{describe_machine()}, transformers {transformers.__version__}"


def format_model(found: dict[str, Any]) -> str:
    """The comparison with `transformers`: ratios with both their factors."""
    padding = found["padding_factor"]
    lines = [
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


def format_sentences() -> str:
    """Boundaries found and speed, ours and the libraries that are installed."""
    with tempfile.TemporaryDirectory() as name:
        novels = prepare.unpack_novels(Path(name), megabytes=1)
        paragraphs = [line for path in novels[:1] for line in read_text(path).splitlines() if line.strip()]
    return sentences.format_results(sentences.measure(paragraphs))


def format_prepare() -> str:
    """Text to shards: megabytes a second on one core."""
    found = prepare.measure()
    clock, processor = found["by_the_clock"], found["by_processor_time"]
    return "\n".join(
        [
            f"{found['megabytes']:.1f} MB of novels, one core, median of {prepare.REPEATS} rounds in turns. Needed: 3 MB/s.",
            "*Published style*: everything in memory, Python lists (`bench/published_style.py`).",
            "",
            "| | by the clock | by processor time |",
            "|---|---|---|",
            f"| ours | **{clock['ours']:.2f} MB/s** | {processor['ours']:.2f} MB/s |",
            f"| published style | {clock['simply']:.2f} MB/s | {processor['simply']:.2f} MB/s |",
            f"| ratio | **{found['ratio']:.2f}×** | {processor['ours'] / processor['simply']:.2f}× |",
        ]
    )


@contextmanager
def _prepared_novels() -> Iterator[Path]:
    """Some novels as a corpus of the published vocabulary."""
    with tempfile.TemporaryDirectory() as name:
        folder, vocab = Path(name), prepare.DATA / "vocab" / "30k-clean.model"
        prepare.unpack_novels(folder / "novels", megabytes=prepare.MEGABYTES)
        prepare_corpus([folder / "novels"], vocab=vocab, out=folder / "corpus", num_workers=2)
        yield folder / "corpus"


def format_examples() -> str:
    """Shards to batches: pieces a second on one core."""
    with _prepared_novels() as corpus:
        rows = examples.measure(open_corpus(corpus), load_tokenizer(corpus / VOCAB_DIR))
    return examples.format_rows(rows, source=f"{prepare.MEGABYTES} MB of novels")


def format_pretraining() -> str:
    """A pretraining step against a plain loop around `transformers`."""
    with _prepared_novels() as corpus:
        rows = [pretraining.compare(case, corpus) for case in pretraining.CASES]
        shares = pretraining.measure_shares(corpus)
    return pretraining.format_results(rows, shares)


def format_memory() -> str:
    """Memory of preparing and of reading, on much and on more text."""
    with tempfile.TemporaryDirectory() as name:
        prepare.unpack_novels(Path(name), megabytes=1)  # says at once if the data is not here
    lines = [
        "Megabytes of resident memory above the interpreter's, at the peak. Preparing with two workers: the largest",
        "process, and all together (a page that several share counts once). Reading: an epoch of examples of 512 pieces",
        "at random places. Copies of the novels, perturbed so that they are no duplicates. Allowed: 400 MB, and 16 bytes",
        "for each distinct paragraph.",
        "",
        "| text | preparing, largest process | preparing, all | reading |",
        "|---|---|---|---|",
    ]
    for megabytes in (100, 1000):
        words = [sys.executable, "-m", "bench.prepare", "memory", str(megabytes), "2"]
        found = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
        lines.append(
            f"| {megabytes} MB | {found['largest_process_above_mb']:.0f} | {found['all_processes_above_mb']:.0f} | "
            f"{found['reading_above_mb']:.0f} |"
        )
    return "\n".join(lines)


SECTIONS: dict[str, tuple[str, Callable[[], str]]] = {
    "model": (
        "Against `transformers`, albert-base, two threads",
        lambda: format_model(against_transformers.measure()),
    ),
    "attention": ("Ways to attend over a ragged batch", lambda: format_attention(attention.measure())),
    "sentences": ("Sentence splitting", format_sentences),
    "prepare": ("Preparing a corpus: text to shards", format_prepare),
    "examples": ("Examples: shards to ready batches", format_examples),
    "pretraining": ("Pretraining steps against a plain loop", format_pretraining),
    "finetuning": ("Fine-tuning and evaluation against the Trainer", finetuning.format_section),
    "memory": ("Memory of preparing and reading", format_memory),
    "communication": ("Bytes that two processes exchange in a step", communication.format_section),
    "scaling": ("Step time of many processes: the formula and its check", scaling_check.format_section),
    "saving": ("Checkpoints of two processes, written aside", saving.format_section),
}


def read_sections() -> dict[str, str]:
    """The sections that the report has, by their titles."""
    parts = read_text(REPORT).split("\n## ")[1:] if REPORT.exists() else []
    return {part.partition("\n")[0]: part.partition("\n")[2].strip() for part in parts}


def main(names: list[str]) -> None:
    """Measure the named sections, or all, and put them into the report."""
    torch.set_num_threads(against_transformers.THREADS)
    for name in names or SECTIONS:
        if name not in SECTIONS:
            raise SystemExit(f"no section {name!r}; there are {', '.join(SECTIONS)}")
        print(name, file=sys.stderr, flush=True)
        title, measure = SECTIONS[name]
        try:
            body = measure()
        except SystemExit as reason:  # its data is not here
            print(f"left as it is: {reason}", file=sys.stderr)
            continue
        found = read_sections()
        found[title] = f"{body}\n\n{datetime.date.today().isoformat()}. {describe_sides()}."
        known = [title for title, _ in SECTIONS.values() if title in found]
        report = "\n\n".join(
            [HEAD.format(names=", ".join(SECTIONS)), *(f"## {title}\n\n{found[title]}" for title in known)]
        )
        write_text(REPORT, report + "\n")
    print(read_text(REPORT))


if __name__ == "__main__":
    main(sys.argv[1:])
