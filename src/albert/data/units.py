"""The two passes over a unit of work, and the deduplication between them.

The first pass cleans and hashes the text of a unit; between the passes the first occurrence of each hash, in
source order, is found; the second pass writes the shards without duplicates. Each pass is a pure function of
its task: any process that sees the same files writes the same bytes.
"""

import hashlib
import json
import platform
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import PositiveInt, field_validator

from albert.data.documents import ReadOptions, iter_slice
from albert.data.layouts import LAYOUTS, RawDocument, cut_passages
from albert.data.manifest import SHARDS_DIR, VOCAB_DIR, ShardEntry, load_vocabulary
from albert.data.paths import BLOCK_BYTES, iter_bytes
from albert.data.rows import iter_groups
from albert.data.shards import (
    MAX_BATCH_PIECES,
    ShardPart,
    build_part,
    choose_id_type,
    join_parts,
    write_parts,
)
from albert.data.sources import Unit, measure_source
from albert.data.storage import Storage, open_storage, put_json
from albert.errors import FileFormatError, InputError
from albert.files import hash_file, read_text, writing_to
from albert.settings import Settings
from albert.text.sentences import split_sentences
from albert.text.tokenizer import Tokenizer

RUN_NAME = "run.txt"
# To be raised with every change of the results of cleaning, splitting or tokenizing: results of another
# version are not resumed.
PREPARE_VERSION = 3
MAX_SHARD_PIECES = 1 << 26
# About a thousand sentences at a time suit SentencePiece best.
_BATCH_SENTENCES = 1000
_BATCH_CHARACTERS = 1 << 18
_NO_ROOM_HINT = "make room and run the same command again: what is done is kept"
# Cleaned text has no control characters: these two are free as separators in scratch files.
_DOCUMENT_END = b"\x1e"
_IS_SPLIT = b"\x1f"

Hashes = NDArray[np.uint64]
Flags = NDArray[np.bool_]


class PrepareSettings(Settings):
    """What changes the bytes of a corpus, besides its sources and its vocabulary.

    With `passage_characters`, documents are cut into passages of whole paragraphs of at least so many
    characters, and every passage becomes a document.
    """

    language: str = "en"
    text_key: str = "text"
    layout: str | None = None
    # Shorter paragraphs may repeat: "Yes.", "Chapter I", "What do you mean by that?" she asked.
    min_duplicate_characters: PositiveInt = 64
    passage_characters: PositiveInt | None = None

    @field_validator("layout")
    @classmethod
    def _check_layout(cls, layout: str | None) -> str | None:
        if layout is not None and layout not in LAYOUTS:
            raise ValueError(f"unknown; one of {', '.join(LAYOUTS)}")
        return layout


@dataclass(frozen=True)
class UnitTask:
    """A unit with everything that is needed to process it; `key` is a hash of what its result depends on.

    `out` and `scratch` are the paths or URLs of the corpus and the scratch files, `vocabulary` is a
    fingerprint, and `dropped` is what the first pass cleaned away.
    """

    unit: Unit
    settings: PrepareSettings
    out: str
    scratch: str
    vocabulary: str
    run_id: str = ""
    keeps_long_tokens: bool = False
    key: str = ""
    dropped: dict[str, int] = field(default_factory=dict)

    def name(self, kind: str, suffix: str) -> str:
        """Return the name of one of the unit's scratch files."""
        return f"{kind}-{self.unit.index:05d}{suffix}"


class HashRecord(Settings):
    """Written after the hashes and the cleaned text of a unit."""

    key: str
    num_text_bytes: int
    dropped: dict[str, int]


class UnitRecord(Settings):
    """Written after the shards of a unit."""

    key: str
    num_documents: int
    num_sentences: int
    num_pieces: int
    num_unknown: int
    num_characters: int
    dropped: dict[str, int]
    shards: tuple[ShardEntry, ...]


def build_key(*parts: object) -> str:
    """Hash plain data together with `PREPARE_VERSION`."""
    return hashlib.sha256(
        json.dumps([PREPARE_VERSION, *parts], sort_keys=True, default=str).encode()
    ).hexdigest()


def describe_unit(unit: Unit) -> list[object]:
    """Return what the documents of a unit depend on: contents and borders, not paths."""
    return [
        [
            part.source.name,
            part.source.kind,
            part.sha256,
            part.start,
            part.end,
            asdict(part.layout),
            part.heads,
        ]
        for part in unit.slices
    ]


def hash_unit(task: UnitTask) -> HashRecord:
    """Write the cleaned text of a unit, and the hashes of its paragraphs and documents."""
    scratch = _open_scratch(task)
    # The old record is removed first: the files it describes are about to be overwritten.
    scratch.remove(task.name("hashes", ".json"))
    paragraphs = bytearray()
    documents = bytearray()
    counts: Counter[str] = Counter()
    name = task.name("text", ".zst")
    least = task.settings.min_duplicate_characters
    with writing_to(f"{task.scratch}/{name}", hint=_NO_ROOM_HINT), scratch.writing(name) as text_path:
        for document in write_documents(text_path, _iter_unit(task, counts)):
            documents += hash_text("\n".join(document.paragraphs))
            if not document.is_split:
                paragraphs += b"".join(hash_text(text) for text in document.paragraphs if len(text) >= least)
        num_text_bytes = text_path.stat().st_size
    for kind, data in (("paragraphs", paragraphs), ("documents", documents)):
        with scratch.writing(task.name(kind, ".bin")) as path:
            path.write_bytes(data)
    record = HashRecord(key=task.key, num_text_bytes=num_text_bytes, dropped=dict(counts))
    put_json(scratch, task.name("hashes", ".json"), record.model_dump())
    return record


def _open_scratch(task: UnitTask) -> Storage:
    """Open the scratch folder, if it is the run's own: another machine may see another disk there."""
    scratch = open_storage(task.scratch)
    if scratch.find_size(RUN_NAME) is not None:
        with scratch.reading(RUN_NAME) as path:
            if read_text(path) == task.run_id:
                return scratch
    raise InputError(
        f"{task.scratch}: on {platform.node()} this is not the folder of this run; give an --out that all "
        "nodes share (a network disk or a URL), and that no other run writes to"
    )


def _iter_unit(task: UnitTask, counts: Counter[str]) -> Iterator[RawDocument]:
    options = ReadOptions(task.settings.text_key, counts, keeps_long_tokens=task.keeps_long_tokens)
    for part in task.unit.slices:
        yield from iter_slice(part, options)
        is_file = part.source.kind != "dataset"
        if is_file and measure_source(part.source, is_fresh=True)[1] != part.modified_ns:
            raise FileFormatError(
                f"{part.source.path}: changed while it was read; run the same command again"
            )


def write_documents(path: Path, documents: Iterable[RawDocument]) -> Iterator[RawDocument]:
    """Write documents to a compressed scratch file and pass them through."""
    waiting = bytearray()
    with pa.OSFile(str(path), "wb") as sink, pa.CompressedOutputStream(sink, "zstd") as stream:
        for document in documents:
            waiting += _IS_SPLIT if document.is_split else b""
            for number, paragraph in enumerate(document.paragraphs):
                waiting += b"\n" + paragraph.encode() if number else paragraph.encode()
                if len(waiting) >= BLOCK_BYTES:  # also inside a document, which may be very long
                    stream.write(bytes(waiting))
                    waiting.clear()
            waiting += _DOCUMENT_END
            yield document
        stream.write(bytes(waiting))


def read_documents(path: Path) -> Iterator[RawDocument]:
    """Read the documents of a scratch file."""
    rest: list[bytes] = []
    for block in iter_bytes(path):
        first, *others = block.split(_DOCUMENT_END)
        rest.append(first)
        for following in others:
            content = b"".join(rest)
            rest = [following]
            paragraphs = content.removeprefix(_IS_SPLIT).decode().split("\n")
            yield RawDocument(paragraphs, is_split=content.startswith(_IS_SPLIT))


def hash_text(text: str) -> bytes:
    """Hash a text, without white space at its ends, to 8 bytes.

    Among n different paragraphs, about n² / 2^65 share a hash with another by chance: of a hundred million,
    0.0003 are dropped by mistake.
    """
    return hashlib.blake2b(text.strip().encode("utf-8", "surrogatepass"), digest_size=8).digest()


class SeenHashes:
    """All hashes so far, in sorted runs whose lengths at least double: adding n of them costs n log n.

    Memory: 8 bytes for each distinct hash, and as much again while merging.
    """

    def __init__(self) -> None:
        self._runs: list[Hashes] = []

    def mark(self, hashes: Hashes) -> Flags:
        """Add hashes, and return which of them were there before, in earlier calls or earlier in this one."""
        if not len(hashes):
            return np.zeros(0, dtype=np.bool_)
        distinct, first = np.unique(hashes, return_index=True)
        is_known = np.zeros(len(distinct), dtype=np.bool_)
        for run in self._runs:
            places = np.searchsorted(run, distinct)
            places[places == len(run)] = 0
            is_known |= run[places] == distinct
        flags = np.ones(len(hashes), dtype=np.bool_)
        flags[first[~is_known]] = False
        added = distinct[~is_known]
        while self._runs and len(self._runs[-1]) <= 2 * len(added):
            added = np.concatenate([self._runs.pop(), added])
            added.sort(kind="stable")  # two sorted halves: a merge
        if len(added):
            self._runs.append(added)
        return flags


@dataclass
class Tally:
    """Counts of what is written and dropped."""

    dropped: Counter[str] = field(default_factory=Counter)
    num_characters: int = 0
    num_unknown: int = 0


def write_unit(task: UnitTask) -> UnitRecord:
    """Write the shards of a unit without its duplicates."""
    scratch = _open_scratch(task)
    scratch.remove(task.name("unit", ".json"))
    tokenizer = _load_vocabulary(task.out, task.vocabulary)
    tally = Tally(Counter(task.dropped))
    kept = cut_passages(_iter_kept(task, scratch, tally), task.settings.passage_characters)
    parts = iter_parts(kept, tokenizer, language=task.settings.language, tally=tally)
    shards: list[ShardEntry] = []
    while (first := next(parts, None)) is not None:
        name = f"{SHARDS_DIR}/{task.unit.index:05d}-{len(shards):03d}.arrow"
        shards.append(_write_shard(task, name, first, parts, choose_id_type(tokenizer.vocab_size)))
    counts = ("num_documents", "num_sentences", "num_pieces")
    record = UnitRecord(
        key=task.key,
        **{name: sum(getattr(shard, name) for shard in shards) for name in counts},
        num_unknown=tally.num_unknown,
        num_characters=tally.num_characters,
        dropped=dict(tally.dropped),
        shards=tuple(shards),
    )
    # A worker whose node was given up for dead may get here after the run has ended and removed its files.
    put_json(_open_scratch(task), task.name("unit", ".json"), record.model_dump(mode="json"))
    return record


@lru_cache(maxsize=1)
def _load_vocabulary(out: str, fingerprint: str) -> Tokenizer:
    tokenizer = load_vocabulary(open_storage(out))
    if tokenizer.fingerprint != fingerprint:
        raise FileFormatError(
            f"{out}/{VOCAB_DIR}: changed while the corpus was prepared; run the same command again"
        )
    return tokenizer


def _iter_kept(task: UnitTask, scratch: Storage, tally: Tally) -> Iterator[RawDocument]:
    """Yield the unit's documents without duplicate documents and paragraphs."""
    documents, paragraphs = (_read_flags(task, scratch, kind) for kind in ("documents", "paragraphs"))
    least = task.settings.min_duplicate_characters
    number = place = 0
    with scratch.reading(task.name("text", ".zst")) as path:
        for document in read_documents(path):
            compared = [] if document.is_split else [len(text) >= least for text in document.paragraphs]
            flags = paragraphs[place : place + sum(compared)]
            is_duplicate = bool(documents[number : number + 1].all())
            number, place = number + 1, place + len(flags)
            if is_duplicate:
                tally.dropped["duplicate_documents"] += 1
            elif flags.any():
                tally.dropped["duplicate_paragraphs"] += int(flags.sum())
                is_flagged = iter(flags.tolist())
                pairs = zip(document.paragraphs, compared, strict=True)
                yield RawDocument([text for text, is_long in pairs if not (is_long and next(is_flagged))])
            else:
                yield document
    if (number, place) != (len(documents), len(paragraphs)):
        name = f"{task.scratch}/{task.name('text', '.zst')}"
        raise FileFormatError(f"{name}: is not what the first pass wrote; remove it and run again")


def _read_flags(task: UnitTask, scratch: Storage, kind: str) -> Flags:
    with scratch.reading(task.name(f"{kind}-flags", ".bin")) as path:
        flags: Flags = np.fromfile(path, dtype=np.bool_)
    return flags


def iter_parts(
    documents: Iterable[RawDocument], tokenizer: Tokenizer, *, language: str, tally: Tally
) -> Iterator[ShardPart]:
    """Split documents into sentences, tokenize them, and yield record batches of whole documents."""
    split = (_split(document, language) for document in documents)
    groups = iter_groups(split, (len, _BATCH_SENTENCES), (_count_characters, _BATCH_CHARACTERS))
    parts = (part for group in groups for part in _encode(group, tokenizer, tally))
    yield from map(join_parts, iter_groups(parts, (lambda part: len(part.pieces), MAX_BATCH_PIECES)))


def _split(document: RawDocument, language: str) -> list[str]:
    if document.is_split:
        return list(document.paragraphs)
    return [
        text[start:end]
        for text in document.paragraphs
        for start, end in split_sentences(text, language=language)
    ]


def _count_characters(sentences: list[str]) -> int:
    return sum(map(len, sentences))


def _encode(documents: list[list[str]], tokenizer: Tokenizer, tally: Tally) -> Iterator[ShardPart]:
    id_dtype = choose_id_type(tokenizer.vocab_size).to_pandas_dtype()
    blocks, lengths = [np.zeros(0, id_dtype)], []
    # In blocks, since a single document may be very long: ids are large until they are packed.
    limits = (lambda _: 1, 4 * _BATCH_SENTENCES), (len, 4 * _BATCH_CHARACTERS)
    for sentences in iter_groups(chain.from_iterable(documents), *limits):
        tally.num_characters += _count_characters(sentences)
        rows = tokenizer.encode_ids(sentences)
        sizes = list(map(len, rows))
        lengths += sizes
        blocks.append(np.fromiter(chain.from_iterable(rows), dtype=id_dtype, count=sum(sizes)))
    part = build_part(blocks, lengths, list(map(len, documents)))
    num_filled = len(part.document_starts) - 1
    if num_filled < len(documents):
        tally.dropped["empty_documents"] += len(documents) - num_filled
    if num_filled:
        tally.num_unknown += int(np.count_nonzero(part.pieces == tokenizer.unk_id))
        yield part


def _write_shard(
    task: UnitTask, name: str, first: ShardPart, parts: Iterator[ShardPart], id_type: pa.DataType
) -> ShardEntry:
    """Write `first` and as many more parts as a shard may hold."""
    out = open_storage(task.out)
    totals: Counter[str] = Counter()

    def take() -> Iterator[ShardPart]:
        part: ShardPart | None = first
        while part is not None:
            totals["num_documents"] += len(part.document_starts) - 1
            totals["num_sentences"] += len(part.sentence_starts) - 1
            totals["num_pieces"] += len(part.pieces)
            yield part
            part = next(parts, None) if totals["num_pieces"] < MAX_SHARD_PIECES else None

    with writing_to(f"{out.place}/{name}", hint=_NO_ROOM_HINT), out.writing(name) as path:
        write_parts(path, take(), id_type=id_type)
        num_bytes, sha256 = path.stat().st_size, hash_file(path)
    return ShardEntry(name=name, **totals, num_bytes=num_bytes, sha256=sha256)
