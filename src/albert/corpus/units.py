"""A unit of work comes in; its hashes go out in the first pass, its shards in the second.

Both are pure functions of their task: any process that sees the same files gives the same bytes.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from albert.corpus.deduplicate import Flags, hash_document, hash_paragraphs
from albert.corpus.encoding import Tally, iter_parts
from albert.corpus.manifest import ShardEntry
from albert.corpus.paragraphs import RawDocument
from albert.corpus.readers import ReadOptions, iter_slice
from albert.corpus.shards import ShardPart, choose_id_type, write_parts
from albert.corpus.survey import Unit, measure_source
from albert.errors import FileFormatError
from albert.files import atomic_path, write_json
from albert.settings import Settings
from albert.text.folder import load_tokenizer
from albert.text.tokenizer import Tokenizer

VOCAB_DIR = "vocab"
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
    """A unit with all that is needed to do it; `key` is a hash of everything its result depends on."""

    unit: Unit
    settings: PrepareSettings
    out: str
    scratch: str
    key: str

    def scratch_path(self, kind: str, suffix: str) -> Path:
        """Where the unit's file of a kind lies between the passes."""
        return Path(self.scratch) / f"{kind}-{self.unit.index:05d}{suffix}"


class HashRecord(Settings):
    """Written after a unit's hashes: that they are whole, and of what."""

    key: str


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
    """A hash of plain data."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


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
    """First pass: write the hashes of a unit's paragraphs and documents; its share of the work goes out."""
    paragraphs = bytearray()
    documents = bytearray()
    for document in _iter_unit(task, Counter()):
        documents += hash_document(document.paragraphs)
        if not document.is_split:
            paragraphs += hash_paragraphs(
                document.paragraphs, min_characters=task.settings.min_duplicate_characters
            )
    for kind, data in (("paragraphs", paragraphs), ("documents", documents)):
        with atomic_path(task.scratch_path(kind, ".bin")) as aside:
            aside.write_bytes(data)
    write_json(task.scratch_path("hashes", ".json"), HashRecord(key=task.key).model_dump())
    return task.unit.num_bytes


def write_unit(task: UnitTask) -> int:
    """Second pass: write a unit's shards without its duplicates; its share of the work goes out."""
    tokenizer = _load_vocabulary(str(Path(task.out) / VOCAB_DIR))
    id_type = choose_id_type(tokenizer.vocab_size)
    tally = Tally()
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


@lru_cache(maxsize=1)
def _load_vocabulary(folder: str) -> Tokenizer:
    return load_tokenizer(Path(folder))


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
    for document in _iter_unit(task, tally.dropped):
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
        names = ", ".join(part.source.path for part in task.unit.slices)
        raise FileFormatError(f"{names}: changed between the two passes; run the same command again")


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
    try:
        write_parts(path, watch(), id_type=id_type)
    except OSError as error:
        reason = (error.strerror or str(error)).splitlines()[0]
        raise FileFormatError(
            f"{path}: cannot be written ({reason}); make room and run the same command again: "
            "what is done is kept"
        ) from error
    return ShardEntry(
        name=name,
        num_documents=totals["documents"],
        num_sentences=totals["sentences"],
        num_pieces=totals["pieces"],
        num_bytes=path.stat().st_size,
        sha256=hash_shard(path),
    )
