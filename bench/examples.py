"""Measure tokens per second from shards to batches on one core, ours and in the published style."""

import time
from pathlib import Path
from typing import Any

import numpy as np

from albert.data.corpus import Corpus
from albert.examples.batches import ExampleSource, build_source
from albert.examples.settings import ExampleSettings
from albert.settings import build_settings
from albert.text.tokenizer import Tokenizer
from bench.published_examples import build_examples

LENGTHS = (512, 128)
BATCH_SIZES = (32, 256)
ROUNDS = 5
NUM_DOCUMENTS = 10  # of the published style: a few thousand examples


def measure(corpus: Corpus, tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """Return a row for each length and batch size: medians over interleaved rounds, in processor time."""
    rows = []
    documents = read_documents(corpus, NUM_DOCUMENTS)
    for length in LENGTHS:
        settings = build_settings(ExampleSettings, values={"max_length": length})
        source = build_source(corpus, tokenizer, settings=settings)
        theirs: list[float] = []
        ours: dict[int, list[float]] = {size: [] for size in BATCH_SIZES}
        for round_number in range(ROUNDS):
            theirs.append(time_published(source, documents, tokenizer.vocab_size))
            for size in BATCH_SIZES:
                ours[size].append(time_ours(source, batch_size=size, first_step=round_number * 1000))
        rows += [
            {
                "max_length": length,
                "batch_size": size,
                "ours": float(np.median(ours[size])),
                "published": float(np.median(theirs)),
            }
            for size in BATCH_SIZES
        ]
    return rows


def time_ours(source: ExampleSource, *, batch_size: int, first_step: int) -> float:
    """Measure tokens per second over about a million tokens."""
    start, tokens, step = time.process_time(), 0, first_step
    while tokens < 1_000_000:
        tokens += sum(len(batch.ids_T) for batch in source.build_step(step, batch_size=batch_size))
        step += 1
    return tokens / (time.process_time() - start)


def time_published(source: ExampleSource, documents: list[list[list[int]]], vocab_size: int) -> float:
    """Measure tokens per second of building examples, before they are batched."""
    start = time.process_time()
    examples = build_examples(
        documents,
        max_length=source.settings.max_length,
        begins_word=source.table.begins_word.tolist(),
        cls_id=source.table.cls_id,
        sep_id=source.table.sep_id,
        mask_id=source.table.mask_id,
        vocab_size=vocab_size,
    )
    return sum(len(example.ids) for example in examples) / (time.process_time() - start)


def read_documents(corpus: Corpus, count: int) -> list[list[list[int]]]:
    """Read the first documents as lists of sentences."""
    documents = []
    for part in corpus.parts:
        for a, b in zip(part.document_starts[:-1], part.document_starts[1:], strict=True):
            sentences = range(int(a), int(b))
            documents.append(
                [
                    part.tokens[part.sentence_starts[s] : part.sentence_starts[s + 1]].tolist()
                    for s in sentences
                ]
            )
            if len(documents) == count:
                return documents
    return documents


def format_rows(rows: list[dict[str, Any]], *, source: Path | str) -> str:
    """Format the section of docs/benchmarks.md."""
    lines = [
        f"Million tokens per second of processor time, medians of {ROUNDS} interleaved rounds, on {source}.",
        "Targets: 2 at length 512, 1 at 128. *Published style*: sentences in memory, Python lists, static",
        "masks (`bench/published_examples.py`).",
        "",
        "| length | batch | ours | published style | ratio |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['max_length']} | {row['batch_size']} | **{row['ours'] / 1e6:.2f}** | "
        f"{row['published'] / 1e6:.3f} | {row['ours'] / row['published']:.0f}× |"
        for row in rows
    ]
    return "\n".join(lines)
