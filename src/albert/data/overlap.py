"""Find how many texts of a task's files occur in a corpus.

A text *occurs whole* if its tokens are consecutive inside one document of the corpus. It *overlaps* if a run
of n of its tokens is (13 by default); `share` is how much of it is in such runs. Texts of fewer than n tokens
are too common to say anything and are counted apart. The corpus is streamed: memory depends on the task's
files alone.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albert.data.cleaning import looks_binary
from albert.data.corpus import Corpus
from albert.data.paths import HEAD_BYTES, iter_bytes
from albert.data.rows import find_format
from albert.data.shards import ShardPart
from albert.errors import FileFormatError, InputError
from albert.files import MAX_CSV_FIELD
from albert.text.tokenizer import Tokenizer

NUM_PIECES = 13
MAX_EXAMPLES = 5
_FILTER_BITS = 24
_BLOCK = 1 << 20
_CHUNK_TEXTS = 1000
Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class OverlapExample:
    """A text that was found, and how much of it."""

    text: str
    share: float
    is_whole: bool


@dataclass(frozen=True)
class FileOverlap:
    """What was found of one file; shares and counts are of the texts that are long enough."""

    name: str
    num_texts: int
    num_short: int
    num_overlapping: int
    num_mostly: int
    num_whole: int
    examples: tuple[OverlapExample, ...]


@dataclass(frozen=True)
class _Texts:
    """All long texts of all files, as pieces end to end; `owners` are their files, `grams` their hashes."""

    texts: list[str]
    owners: list[int]
    pieces: NDArray[np.int64]
    starts: NDArray[np.int64]
    grams: Hashes
    num_texts: list[int]


def find_overlap(
    corpus: Corpus, paths: Sequence[Path], tokenizer: Tokenizer, *, num_pieces: int = NUM_PIECES
) -> list[FileOverlap]:
    """Look for the texts of each file in the corpus; refused: another vocabulary, files without text."""
    if num_pieces < 1:
        raise InputError(f"runs of {num_pieces} pieces are too short; at least 1")
    if tokenizer.fingerprint != corpus.manifest.vocabulary:
        raise InputError(f"{corpus.name}: prepared with another vocabulary than this one; give its own")
    known = _read_texts(paths, tokenizer, num_pieces)
    wanted = np.unique(known.grams)
    is_found = np.zeros(len(wanted), dtype=np.bool_)
    is_whole = np.zeros(len(known.texts), dtype=np.bool_)
    if len(wanted):
        _scan(corpus, known, wanted, is_found, is_whole, num_pieces)
    return _report(paths, known, is_found[np.searchsorted(wanted, known.grams)], is_whole, num_pieces)


def iter_texts(path: Path) -> Iterator[str]:
    """Yield every text of a task's file, or of all files of a folder.

    These are the cells of .tsv and .csv, the strings of .json and .jsonl, and the lines of other files.
    """
    path = Path(path)
    if path.is_dir():
        for file in sorted(file for file in path.rglob("*") if file.is_file()):
            if not any(part.startswith(".") for part in file.relative_to(path).parts):
                yield from iter_texts(file)
        return
    data = b"".join(iter_bytes(path))
    if looks_binary(data[:HEAD_BYTES]):
        raise FileFormatError(
            f"{path}: is no text in UTF-8; what is read are .tsv, .csv, .json, .jsonl and lines of text: "
            "convert it, or leave it out"
        )
    text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")
    lines = text.removesuffix("\n").split("\n")  # other characters that end lines may be inside a text
    format = find_format(path)
    if format == "tsv":
        yield from (cell for line in lines for cell in line.split("\t"))
    elif format == "csv":
        csv.field_size_limit(MAX_CSV_FIELD)
        yield from (cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row)
    elif format == "jsonl":
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield from _iter_strings(_parse(line, f"{path}: line {number}"))
    elif format == "json" or text.lstrip().startswith("{"):  # RACE has JSON in files named .txt
        yield from _iter_strings(_parse(text, str(path)))
    else:
        yield from lines


def _parse(text: str, source: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{source}: not valid JSON ({error}); mend it or fetch it again") from error


def _iter_strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _iter_strings(inner)


def _read_texts(paths: Sequence[Path], tokenizer: Tokenizer, num_pieces: int) -> _Texts:
    texts: list[str] = []
    owners: list[int] = []
    rows: list[NDArray[np.int64]] = []
    num_texts: list[int] = []
    for owner, path in enumerate(paths):
        # A text that stands in a file twice, as a passage with its questions, is one text.
        distinct = list(dict.fromkeys(text.strip() for text in iter_texts(path) if text.strip()))
        if not distinct:
            raise InputError(f"{path}: no text in it; give the files of a task")
        num_texts.append(len(distinct))
        for first in range(0, len(distinct), _CHUNK_TEXTS):
            chunk = distinct[first : first + _CHUNK_TEXTS]
            for text, ids in zip(chunk, tokenizer.encode_ids(chunk), strict=True):
                if len(ids) >= num_pieces:
                    texts.append(text)
                    owners.append(owner)
                    rows.append(np.array(ids, dtype=np.int64))
    pieces = np.concatenate([np.zeros(0, dtype=np.int64), *rows])
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows], dtype=np.int64)])
    grams = [hash_runs(row, num_pieces) for row in rows]
    return _Texts(texts, owners, pieces, starts, np.concatenate([np.zeros(0, np.uint64), *grams]), num_texts)


def hash_runs(pieces: NDArray[Any], num_pieces: int) -> Hashes:
    """A 64-bit hash of every run of n pieces."""
    factors = np.random.Generator(np.random.PCG64(13)).integers(1 << 62, size=num_pieces, dtype=np.uint64)
    count = max(len(pieces) - num_pieces + 1, 0)
    hashes = np.zeros(count, dtype=np.uint64)
    numbers = pieces.astype(np.uint64) + np.uint64(1)
    for k, factor in enumerate(factors):
        hashes += numbers[k : k + count] * (factor * np.uint64(2) + np.uint64(1))
    # The products leave the low bits regular; one round of mixing makes all bits fit for a table.
    hashes ^= hashes >> np.uint64(31)
    hashes *= np.uint64(0x9E3779B97F4A7C15)
    hashes ^= hashes >> np.uint64(29)
    return hashes


def _scan(
    corpus: Corpus,
    known: _Texts,
    wanted: Hashes,
    is_found: NDArray[Any],
    is_whole: NDArray[Any],
    num_pieces: int,
) -> None:
    # Most runs of the corpus are in no text: one look into a table of bits settles those.
    table = np.zeros(1 << _FILTER_BITS, dtype=np.bool_)
    table[wanted >> np.uint64(64 - _FILTER_BITS)] = True
    first_gram: dict[int, list[int]] = {}
    for text, start in enumerate(known.starts[:-1]):
        gram = int(known.grams[start - text * (num_pieces - 1)])
        first_gram.setdefault(gram, []).append(text)
    for number, part in enumerate(corpus.parts):
        corpus.let_go(max(number - 1, 0))
        for place, hashes in _iter_runs(part, num_pieces):
            near = np.flatnonzero(table[hashes >> np.uint64(64 - _FILTER_BITS)])
            spots = np.searchsorted(wanted, hashes[near])
            spots[spots == len(wanted)] = 0
            is_hit = wanted[spots] == hashes[near]
            hits = near[is_hit]
            inside = _is_inside(part, place + hits, num_pieces)
            is_found[spots[is_hit][inside]] = True
            for spot, gram in zip(
                (place + hits[inside]).tolist(), hashes[hits[inside]].tolist(), strict=True
            ):
                for text in first_gram.get(gram, ()):
                    if not is_whole[text]:
                        is_whole[text] = _stands_at(part, spot, known, text)


def _iter_runs(part: ShardPart, num_pieces: int) -> Iterator[tuple[int, Hashes]]:
    """The hashes of all runs of a part, a block at a time, with the place of the first."""
    for place in range(0, max(len(part.pieces) - num_pieces + 1, 0), _BLOCK):
        yield place, hash_runs(part.pieces[place : place + _BLOCK + num_pieces - 1], num_pieces)


def _is_inside(part: ShardPart, places: NDArray[np.int64], length: int) -> NDArray[np.bool_]:
    """Which runs of a length, beginning at these places, lie inside one document."""
    borders = part.sentence_starts[part.document_starts]
    ends = borders[np.searchsorted(borders, places, side="right")]
    inside: NDArray[np.bool_] = places + length <= ends
    return inside


def _stands_at(part: ShardPart, place: int, known: _Texts, text: int) -> bool:
    pieces = known.pieces[known.starts[text] : known.starts[text + 1]]
    if place + len(pieces) > len(part.pieces):
        return False
    is_equal = bool((part.pieces[place : place + len(pieces)] == pieces).all())
    return is_equal and bool(_is_inside(part, np.array([place]), len(pieces))[0])


def _report(
    paths: Iterable[Path],
    known: _Texts,
    found: NDArray[np.bool_],
    is_whole: NDArray[np.bool_],
    num_pieces: int,
) -> list[FileOverlap]:
    shares = [_share(known, found, text, num_pieces) for text in range(len(known.texts))]
    reports: list[FileOverlap] = []
    for owner, path in enumerate(paths):
        own = [text for text, mine in enumerate(known.owners) if mine == owner]
        ranked = sorted((text for text in own if shares[text]), key=lambda text: (-shares[text], text))
        reports.append(
            FileOverlap(
                name=str(path),
                num_texts=known.num_texts[owner],
                num_short=known.num_texts[owner] - len(own),
                num_overlapping=len(ranked),
                num_mostly=sum(shares[text] >= 0.5 for text in ranked),
                num_whole=sum(bool(is_whole[text]) for text in own),
                examples=tuple(
                    OverlapExample(known.texts[text], round(shares[text], 3), bool(is_whole[text]))
                    for text in ranked[:MAX_EXAMPLES]
                ),
            )
        )
    return reports


def _share(known: _Texts, found: NDArray[np.bool_], text: int, num_pieces: int) -> float:
    """The share of a text's pieces that lie in a run which the corpus has."""
    start, end = int(known.starts[text]), int(known.starts[text + 1])
    first = start - text * (num_pieces - 1)  # each text before this one has so many runs fewer than pieces
    hits = np.flatnonzero(found[first : first + end - start - num_pieces + 1])
    if not len(hits):
        return 0.0
    is_covered = np.zeros(end - start, dtype=np.bool_)
    for k in range(num_pieces):
        is_covered[hits + k] = True
    return float(is_covered.mean())
