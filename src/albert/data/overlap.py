"""Count the texts of a task's files that occur in a corpus.

A text *occurs whole* if its tokens are consecutive inside one document of the corpus. It *overlaps* if n
consecutive tokens of it are (13 by default); `share` is the part of its tokens in such runs. Texts of fewer
than n tokens are counted separately. The corpus is streamed, so memory depends on the task's files only.
"""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albert.data.cleaning import looks_binary
from albert.data.corpus import Corpus
from albert.data.rows import find_format, iter_groups
from albert.data.shards import ShardPart, reject_other_vocabulary
from albert.data.storage import HEAD_BYTES, iter_bytes
from albert.errors import FileFormatError, InputError
from albert.files import MAX_CSV_FIELD
from albert.text.tokenizer import Tokenizer

NUM_TOKENS = 13
MAX_EXAMPLES = 5
_FILTER_BITS = 24
_BLOCK = 1 << 20
_CHUNK_TEXTS = 1000
Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class OverlapExample:
    """A text that occurs in the corpus, in part or whole."""

    text: str
    share: float
    is_whole: bool


@dataclass(frozen=True)
class FileOverlap:
    """The number of texts of one file that occur in the corpus."""

    name: str
    num_texts: int
    num_short: int
    num_overlapping: int
    num_mostly: int
    num_whole: int
    examples: tuple[OverlapExample, ...]


@dataclass
class _Text:
    text: str
    path: Path
    ids: NDArray[np.int64]
    runs: Hashes  # of every run of tokens
    is_whole: bool = False
    share: float = 0.0


def find_overlap(
    corpus: Corpus, paths: Sequence[Path], tokenizer: Tokenizer, *, num_tokens: int = NUM_TOKENS
) -> list[FileOverlap]:
    """Search the corpus for runs of `num_tokens` tokens of the texts of each file."""
    if num_tokens < 1:
        raise InputError(f"the number of tokens is {num_tokens}; set it to at least 1")
    reject_other_vocabulary(corpus.manifest, corpus.name, tokenizer.fingerprint)
    counts: dict[Path, int] = {}
    texts: list[_Text] = []
    for path in paths:
        # A text that is repeated in a file, such as the passage of several questions, counts once.
        distinct = list(dict.fromkeys(text.strip() for text in iter_texts(path) if text.strip()))
        if not distinct:
            raise InputError(f"{path}: contains no text; give the files of a task")
        counts[path] = len(distinct)
        for group in iter_groups(distinct, (lambda _: 1, _CHUNK_TEXTS)):
            for text, row in zip(group, tokenizer.encode_ids(group), strict=True):
                if len(row) >= num_tokens:
                    ids = np.array(row, dtype=np.int64)
                    texts.append(_Text(text, path, ids, hash_runs(ids, num_tokens)))
    wanted = np.unique(np.concatenate([np.zeros(0, np.uint64), *(text.runs for text in texts)]))
    is_found = np.zeros(len(wanted), dtype=np.bool_)
    if len(wanted):
        _scan(corpus, texts, wanted, is_found, num_tokens)
    for each in texts:
        is_covered = np.zeros(len(each.ids), dtype=np.bool_)
        hits = np.flatnonzero(is_found[np.searchsorted(wanted, each.runs)])
        is_covered[hits[:, None] + np.arange(num_tokens)] = True
        each.share = float(is_covered.mean())
    reports = []
    for path, num_texts in counts.items():
        own = [each for each in texts if each.path == path]
        ranked = sorted((each for each in own if each.share), key=lambda each: -each.share)
        best = ranked[:MAX_EXAMPLES]
        reports.append(
            FileOverlap(
                name=str(path),
                num_texts=num_texts,
                num_short=num_texts - len(own),
                num_overlapping=len(ranked),
                num_mostly=sum(each.share >= 0.5 for each in ranked),
                num_whole=sum(each.is_whole for each in own),
                examples=tuple(
                    OverlapExample(each.text, round(each.share, 3), each.is_whole) for each in best
                ),
            )
        )
    return reports


def iter_texts(path: Path) -> Iterator[str]:
    """Yield the cells of a .tsv or .csv, the strings of JSON, or the lines of other files."""
    if path.is_dir():
        for file in sorted(file for file in path.rglob("*") if file.is_file()):
            if not any(part.startswith(".") for part in file.relative_to(path).parts):
                yield from iter_texts(file)
        return
    data = b"".join(iter_bytes(path))
    if looks_binary(data[:HEAD_BYTES]):
        raise FileFormatError(f"{path}: not UTF-8 text; convert it to .tsv, .csv, .jsonl or lines of text")
    text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")
    lines = text.removesuffix("\n").split("\n")  # Unicode's other line ends may be inside a text
    format = find_format(path)
    if format == "tsv":
        yield from (cell for line in lines for cell in line.split("\t"))
    elif format == "csv":
        csv.field_size_limit(MAX_CSV_FIELD)
        yield from (cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row)
    elif format in ("json", "jsonl") or text.lstrip().startswith("{"):  # RACE has JSON in files named .txt
        for number, value in enumerate(lines if format == "jsonl" else [text], start=1):
            try:
                yield from _iter_strings(json.loads(value if value.strip() else "null"))
            except (ValueError, RecursionError) as error:  # noqa: PERF203 - each line is JSON by itself
                source = f"{path}: line {number}" if format == "jsonl" else f"{path}"
                raise FileFormatError(f"{source}: not valid JSON ({error}); fix it") from error
    else:
        yield from lines


def _iter_strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _iter_strings(inner)


def hash_runs(tokens: NDArray[Any], num_tokens: int) -> Hashes:
    """Compute a 64-bit hash of every run of `num_tokens` ids."""
    factors = np.random.Generator(np.random.PCG64(13)).integers(1 << 62, size=num_tokens, dtype=np.uint64)
    count = max(len(tokens) - num_tokens + 1, 0)
    hashes = np.zeros(count, dtype=np.uint64)
    numbers = tokens.astype(np.uint64) + np.uint64(1)
    for k, factor in enumerate(factors):
        hashes += numbers[k : k + count] * (factor * np.uint64(2) + np.uint64(1))
    # The low bits of the products are regular; one round of mixing makes all bits usable in a table.
    hashes ^= hashes >> np.uint64(31)
    hashes *= np.uint64(0x9E3779B97F4A7C15)
    hashes ^= hashes >> np.uint64(29)
    return hashes


def _scan(
    corpus: Corpus, texts: Sequence[_Text], wanted: Hashes, is_found: NDArray[np.bool_], num_tokens: int
) -> None:
    """Mark the `wanted` hashes that occur in the corpus, and the texts that occur whole."""
    # A table of bits rules out most runs of the corpus, which are in no text.
    shift = np.uint64(64 - _FILTER_BITS)
    table = np.zeros(1 << _FILTER_BITS, dtype=np.bool_)
    table[wanted >> shift] = True
    beginning: dict[int, list[_Text]] = {}
    for text in texts:
        beginning.setdefault(int(text.runs[0]), []).append(text)
    for number, part in enumerate(corpus.parts):
        corpus.release(max(number - 1, 0))
        for start in range(0, max(len(part.tokens) - num_tokens + 1, 0), _BLOCK):
            hashes = hash_runs(part.tokens[start : start + _BLOCK + num_tokens - 1], num_tokens)
            candidates = np.flatnonzero(table[hashes >> shift])
            indices = np.searchsorted(wanted, hashes[candidates])
            indices[indices == len(wanted)] = 0
            is_hit = wanted[indices] == hashes[candidates]
            hits = candidates[is_hit]
            inside = _is_inside(part, start + hits, num_tokens)
            is_found[indices[is_hit][inside]] = True
            for hit in hits[inside].tolist():
                for text in beginning.get(int(hashes[hit]), ()):
                    first, size = start + hit, len(text.ids)
                    if not text.is_whole and _is_inside(part, np.array([first]), size)[0]:
                        text.is_whole = bool((part.tokens[first : first + size] == text.ids).all())


def _is_inside(part: ShardPart, starts: NDArray[np.int64], length: int) -> NDArray[np.bool_]:
    """Return whether runs of `length` tokens from these starts are inside one document."""
    document_starts = part.sentence_starts[part.document_starts]
    ends = document_starts[np.searchsorted(document_starts, starts, side="right")]
    inside: NDArray[np.bool_] = starts + length <= ends
    return inside
