"""Rows of token ids for comparisons: SST-2, or random rows with the lengths of its sentences."""

import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from albert.tasks.catalogue import PUBLISHED_TASKS
from albert.tasks.classification import TextExample, iter_encoded_texts
from albert.text.folder import load_tokenizer
from bench.batches import ragged_batch
from bench.prepare import DATA

MAX_LENGTH = 128
BATCH_SIZE = 32
# Lengths in tokens of the published vocabulary with [CLS] and [SEP], and the number of sentences.
_SHARES = (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 0.999, 1)
_LENGTHS = {
    "train": (3, 4, 6, 7, 9, 11, 13, 17, 22, 25, 30, 36, 44, 49, 62, 81),
    "dev": (5, 13, 17, 21, 24, 27, 30, 34, 38, 41, 44, 48, 54, 55, 59, 60),
}
_COUNTS = {"train": 67_349, "dev": 872}


@dataclass(frozen=True)
class Row:
    """The token ids of a sentence, and its label."""

    ids: tuple[int, ...]
    label: int


@dataclass(frozen=True)
class Sentences:
    """Both splits, and a description of the data."""

    train: list[Row]
    dev: list[Row]
    source: str


def read_sentences() -> Sentences:
    """Read SST-2 if it is installed; else draw rows with the same lengths."""
    archive, vocabulary = DATA / "glue.tar.xz", DATA / "vocab" / "30k-clean.model"
    if not archive.exists() or not vocabulary.exists():
        return Sentences(
            draw_rows("train"), draw_rows("dev"), "Random rows with the lengths of SST-2's sentences"
        )
    task, tokenizer = PUBLISHED_TASKS["sst-2"], load_tokenizer(vocabulary)
    splits = {}
    with tempfile.TemporaryDirectory() as name, tarfile.open(archive) as file:
        for split in ("train", "dev"):
            file.extract(f"glue/{task.folder}/{split}.tsv", name, filter="data")
            found = task.read_split(Path(name), split).examples
            texts = [example for example in found if isinstance(example, TextExample)]
            items = iter_encoded_texts(texts, tokenizer=tokenizer, max_length=MAX_LENGTH)
            splits[split] = [Row(item.sequence.ids, int(str(item.label))) for item in items]
    return Sentences(splits["train"], splits["dev"], "SST-2 in the published vocabulary")


def draw_rows(split: str, *, seed: int = 0) -> list[Row]:
    """Draw as many rows as the split has, with the lengths of its sentences; speed depends on these only."""
    draw = np.random.default_rng(seed)
    lengths = np.interp(draw.random(_COUNTS[split]), _SHARES, _LENGTHS[split]).round().astype(int)
    text = np.resize(ragged_batch().tokens.ids_T.numpy(), int(lengths.sum()))
    parts = np.split(text, np.cumsum(lengths)[:-1])
    return [Row(tuple(part.tolist()), int(draw.integers(2))) for part in parts]


def shuffle(rows: Sequence[Row], *, seed: int = 0) -> list[Row]:
    """Shuffle the rows."""
    return [rows[index] for index in np.random.default_rng(seed).permutation(len(rows))]


def group_by_length(rows: Sequence[Row], *, seed: int = 0) -> list[Row]:
    """Order an epoch like the Trainer's grouping by length: 50 batches at a time are sorted."""
    from transformers.trainer_pt_utils import get_length_grouped_indices

    generator = torch.Generator().manual_seed(seed)
    order = get_length_grouped_indices([len(row.ids) for row in rows], BATCH_SIZE, generator=generator)
    return [rows[index] for index in order]


def split_rounds(rows: Sequence[Row], *, num_rounds: int, num_batches: int) -> list[list[Row]]:
    """Split rows into similar rounds of batches of consecutive rows, spread evenly over all rows."""
    count = num_rounds * num_batches
    table = ((np.arange(count) + 0.5) * (len(rows) // BATCH_SIZE) / count).astype(int)
    table = table.reshape(num_batches, num_rounds)
    table[1::2] = table[1::2, ::-1].copy()  # rounds alternate in getting the longer batch
    starts = (table * BATCH_SIZE).T.tolist()
    return [[row for start in group for row in rows[start : start + BATCH_SIZE]] for group in starts]


def measure_padding(rows: Sequence[Row], *, batch_size: int, is_full: bool = False) -> float:
    """Compute padded ÷ real tokens in batches of consecutive rows."""
    lengths = [len(row.ids) for row in rows]
    batches = [lengths[i : i + batch_size] for i in range(0, len(lengths), batch_size)]
    longest = (MAX_LENGTH if is_full else max(batch) for batch in batches)
    return sum(len(batch) * size for batch, size in zip(batches, longest, strict=True)) / sum(lengths)
