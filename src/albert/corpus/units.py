"""A unit of work comes in; its hashes go out in the first pass, its shards in the second.

Both are pure functions of their task: any process that sees the same files gives the same bytes.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from albert.corpus.deduplicate import Flags, hash_document, hash_paragraphs
from albert.corpus.encoding import Tally, iter_parts
from albert.corpus.manifest import ShardEntry
from albert.corpus.paragraphs import RawDocument
from albert.corpus.readers import ReadOptions, iter_slice
from albert.corpus.scratch_text import read_documents, write_documents
from albert.corpus.shards import ShardPart, choose_id_type, write_parts
from albert.corpus.survey import Unit, measure_source
from albert.errors import FileFormatError
from albert.files import atomic_path, write_json
from albert.settings import Settings
from albert.text.folder import load_tokenizer
from albert.text.tokenizer import Tokenizer

VOCAB_DIR = "vocab"
# To be raised with every change of what cleaning, splitting or tokenizing gives: results of another version
# are not gone on with.
PREPARE_VERSION = 1
SHARDS_DIR = "shards"
MAX_SHARD_PIECES = 1 << 26


class PrepareSettings(Settings):
    """What changes the bytes of a corpus, besides its sources and its vocabulary."""

    language: str = "en"
    text_key: str = "text"
    layout: str | None = None
    min_duplicate_characters: int = 64


@dataclass(frozen=True)
class UnitTask:
    """A unit with all that is needed to do it; `key` is a hash of everything its result depends on.

    `vocabulary` is the fingerprint of the vocabulary in the corpus's folder, `dropped` what the first pass
    cleaned away.
    """

    unit: Unit
    settings: PrepareSettings
    out: str
    scratch: str
    vocabulary: str
    key: str = ""
    dropped: dict[str, int] = field(default_factory=dict)

    def scratch_path(self, kind: str, suffix: str) -> Path:
        """Where the unit's file of a kind lies between the passes."""
        return Path(self.scratch) / f"{kind}-{self.unit.index:05d}{suffix}"


class HashRecord(Settings):
    """Written after a unit's hashes and its cleaned text: that they are whole, and what was cleaned away."""

    key: str
    num_text_bytes: int
    dropped: dict[str, int]


class UnitRecord(Settings):
    """Written after a unit's shards: what they hold, and what was dropped on the way."""

    key: str
    num_documents: int
    num_sentences: int
    num_pieces: int
    num_unknown: int
    num_characters: int
    dropped: dict[str, int]
    shards: tuple[ShardEntry, ...]


def build_key(*parts: object) -> str:
    """A hash of plain data, and of the version of what is done with it."""
    return hashlib.sha256(
        json.dumps([PREPARE_VERSION, *parts], sort_keys=True, default=str).encode()
    ).hexdigest()


def describe_unit(unit: Unit) -> list[object]:
    """What a unit's documents depend on: contents and borders, not places."""
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


def hash_unit(task: UnitTask) -> int:
    """First pass: write a unit's cleaned text and the hashes of its paragraphs and documents.

    The unit's share of the work goes out, here and below.
    """
    # The old record goes first: it must not vouch for what is about to be written over.
    task.scratch_path("hashes", ".json").unlink(missing_ok=True)
    paragraphs = bytearray()
    documents = bytearray()
    counts: Counter[str] = Counter()
    text_path = task.scratch_path("text", ".zst")
    least = task.settings.min_duplicate_characters
    with refuse_full_disk(text_path):
        for document in write_documents(text_path, _iter_unit(task, counts)):
            documents += hash_document(document.paragraphs)
            if not document.is_split:
                paragraphs += hash_paragraphs(document.paragraphs, min_characters=least)
    for kind, data in (("paragraphs", paragraphs), ("documents", documents)):
        with atomic_path(task.scratch_path(kind, ".bin")) as aside:
            aside.write_bytes(data)
    record = HashRecord(key=task.key, num_text_bytes=text_path.stat().st_size, dropped=dict(counts))
    write_json(task.scratch_path("hashes", ".json"), record.model_dump())
    return task.unit.num_bytes


def write_unit(task: UnitTask) -> int:
    """Second pass: write a unit's shards without its duplicates."""
    tokenizer = _load_vocabulary(str(Path(task.out) / VOCAB_DIR), task.vocabulary)
    id_type = choose_id_type(tokenizer.vocab_size)
    tally = Tally(Counter(task.dropped))
    parts = iter_parts(_iter_kept(task, tally), tokenizer, language=task.settings.language, tally=tally)
    shards: list[ShardEntry] = []
    while (first := next(parts, None)) is not None:
        name = f"{SHARDS_DIR}/{task.unit.index:05d}-{len(shards):03d}.arrow"
        shards.append(_write_one(Path(task.out), name, _take(first, parts), id_type))
    record = UnitRecord(
        key=task.key,
        num_documents=sum(shard.num_documents for shard in shards),
        num_sentences=sum(shard.num_sentences for shard in shards),
        num_pieces=sum(shard.num_pieces for shard in shards),
        num_unknown=tally.num_unknown,
        num_characters=tally.num_characters,
        dropped=dict(tally.dropped),
        shards=tuple(shards),
    )
    write_json(task.scratch_path("unit", ".json"), record.model_dump(mode="json"))
    return task.unit.num_bytes


def hash_shard(path: Path) -> str:
    """The checksum of a shard's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def refuse_full_disk(path: Path) -> Iterator[None]:
    """Say which file could not be written; Arrow's own errors do not."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).splitlines()[0]
        raise FileFormatError(
            f"{path}: cannot be written ({reason}); make room and run the same command again: "
            "what is done is kept"
        ) from error


@lru_cache(maxsize=1)
def _load_vocabulary(folder: str, fingerprint: str) -> Tokenizer:
    tokenizer = load_tokenizer(Path(folder))
    if tokenizer.fingerprint != fingerprint:
        raise FileFormatError(f"{folder}: changed while the corpus was prepared; run the same command again")
    return tokenizer


def _iter_unit(task: UnitTask, counts: Counter[str]) -> Iterator[RawDocument]:
    options = ReadOptions(task.settings.text_key, counts)
    for part in task.unit.slices:
        yield from iter_slice(part, options)
        if part.source.kind != "dataset" and measure_source(part.source)[1] != part.modified_ns:
            raise FileFormatError(
                f"{part.source.path}: changed while it was read; run the same command again"
            )


def _iter_kept(task: UnitTask, tally: Tally) -> Iterator[RawDocument]:
    """The unit's documents without duplicate documents and paragraphs."""
    documents, paragraphs = _read_flags(task, "documents"), _read_flags(task, "paragraphs")
    least = task.settings.min_duplicate_characters
    number = place = 0
    text_path = task.scratch_path("text", ".zst")
    for document in read_documents(text_path):
        compared = [] if document.is_split else [len(text) >= least for text in document.paragraphs]
        flags = paragraphs[place : place + sum(compared)]
        is_duplicate = bool(documents[number : number + 1].all())
        number, place = number + 1, place + len(flags)
        if is_duplicate:
            tally.dropped["duplicate_documents"] += 1
        elif flags.any():
            tally.dropped["duplicate_paragraphs"] += int(flags.sum())
            yield _drop_flagged(document, compared, flags)
        else:
            yield document
    if (number, place) != (len(documents), len(paragraphs)):
        raise FileFormatError(f"{text_path}: is not what the first pass wrote; remove it and run again")


def _drop_flagged(document: RawDocument, compared: list[bool], flags: Flags) -> RawDocument:
    answers = iter(flags.tolist())
    kept = [
        text
        for text, is_compared in zip(document.paragraphs, compared, strict=True)
        if not (is_compared and next(answers))
    ]
    return RawDocument(kept)


def _read_flags(task: UnitTask, kind: str) -> Flags:
    flags: Flags = np.fromfile(task.scratch_path(f"{kind}-flags", ".bin"), dtype=np.bool_)
    return flags


def _take(first: ShardPart, parts: Iterator[ShardPart]) -> Iterator[ShardPart]:
    """As many parts as a shard may hold, the first of them already drawn."""
    yield first
    num_pieces = len(first.pieces)
    while num_pieces < MAX_SHARD_PIECES and (part := next(parts, None)) is not None:
        yield part
        num_pieces += len(part.pieces)


def _write_one(out: Path, name: str, parts: Iterator[ShardPart], id_type: pa.DataType) -> ShardEntry:
    totals: Counter[str] = Counter()

    def watch() -> Iterator[ShardPart]:
        for part in parts:
            totals["documents"] += len(part.document_starts) - 1
            totals["sentences"] += len(part.sentence_starts) - 1
            totals["pieces"] += len(part.pieces)
            yield part

    path = out / name
    with refuse_full_disk(path):
        write_parts(path, watch(), id_type=id_type)
    return ShardEntry(
        name=name,
        num_documents=totals["documents"],
        num_sentences=totals["sentences"],
        num_pieces=totals["pieces"],
        num_bytes=path.stat().st_size,
        sha256=hash_shard(path),
    )
