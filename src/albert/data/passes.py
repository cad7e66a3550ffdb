"""A unit of work comes in; its hashes go out in the first pass, its shards in the second.

Both are pure functions of their task: any process that sees the same files gives the same bytes.
"""

import platform
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pyarrow as pa

from albert.data.deduplicate import Flags, hash_document, hash_paragraphs
from albert.data.encoding import Tally, iter_parts
from albert.data.manifest import SHARDS_DIR, ShardEntry
from albert.data.paragraphs import RawDocument, cut_passages
from albert.data.readers import ReadOptions, iter_slice
from albert.data.scratch_text import read_documents, write_documents
from albert.data.shards import ShardPart, choose_id_type, write_parts
from albert.data.storage import Storage, open_storage, put_json
from albert.data.survey import measure_source
from albert.data.units import RUN_NAME, HashRecord, UnitRecord, UnitTask
from albert.data.vocabulary import VOCAB_DIR, load_vocabulary
from albert.errors import FileFormatError, InputError
from albert.files import hash_file, read_text, writing_to
from albert.text.tokenizer import Tokenizer

MAX_SHARD_PIECES = 1 << 26
_SO_FAR_KEPT = "make room and run the same command again: what is done is kept"


def hash_unit(task: UnitTask) -> HashRecord:
    """First pass: write a unit's cleaned text and the hashes of its paragraphs and documents."""
    scratch = _open_scratch(task)
    # The old record goes first: it must not vouch for what is about to be written over.
    scratch.remove(task.name("hashes", ".json"))
    paragraphs = bytearray()
    documents = bytearray()
    counts: Counter[str] = Counter()
    name = task.name("text", ".zst")
    least = task.settings.min_duplicate_characters
    with writing_to(f"{task.scratch}/{name}", cure=_SO_FAR_KEPT), scratch.writing(name) as text_path:
        for document in write_documents(text_path, _iter_unit(task, counts)):
            documents += hash_document(document.paragraphs)
            if not document.is_split:
                paragraphs += hash_paragraphs(document.paragraphs, min_characters=least)
        num_text_bytes = text_path.stat().st_size
    for kind, data in (("paragraphs", paragraphs), ("documents", documents)):
        with scratch.writing(task.name(kind, ".bin")) as path:
            path.write_bytes(data)
    record = HashRecord(key=task.key, num_text_bytes=num_text_bytes, dropped=dict(counts))
    put_json(scratch, task.name("hashes", ".json"), record.model_dump())
    return record


def write_unit(task: UnitTask) -> UnitRecord:
    """Second pass: write a unit's shards without its duplicates."""
    scratch = _open_scratch(task)
    scratch.remove(task.name("unit", ".json"))
    tokenizer = _load_vocabulary(task.out, task.vocabulary)
    id_type = choose_id_type(tokenizer.vocab_size)
    tally = Tally(Counter(task.dropped))
    kept = cut_passages(_iter_kept(task, scratch, tally), task.settings.passage_characters)
    parts = iter_parts(kept, tokenizer, language=task.settings.language, tally=tally)
    shards: list[ShardEntry] = []
    while (first := next(parts, None)) is not None:
        name = f"{SHARDS_DIR}/{task.unit.index:05d}-{len(shards):03d}.arrow"
        shards.append(_write_one(open_storage(task.out), name, _take(first, parts), id_type))
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
    # One whose node was given up for dead may get here after the run has ended and swept up.
    put_json(_open_scratch(task), task.name("unit", ".json"), record.model_dump(mode="json"))
    return record


def _open_scratch(task: UnitTask) -> Storage:
    """The scratch folder, if it is the one that the run has: another machine may see another disk there."""
    scratch = open_storage(task.scratch)
    if scratch.find_size(RUN_NAME) is not None:
        with scratch.reading(RUN_NAME) as path:
            if read_text(path) == task.run_id:
                return scratch
    raise InputError(
        f"{task.scratch}: on {platform.node()} this is not the folder of this run; give an --out that all "
        "nodes share (a network disk or a URL), and that no other run writes to"
    )


@lru_cache(maxsize=1)
def _load_vocabulary(out: str, fingerprint: str) -> Tokenizer:
    tokenizer = load_vocabulary(open_storage(out))
    if tokenizer.fingerprint != fingerprint:
        raise FileFormatError(
            f"{out}/{VOCAB_DIR}: changed while the corpus was prepared; run the same command again"
        )
    return tokenizer


def _iter_unit(task: UnitTask, counts: Counter[str]) -> Iterator[RawDocument]:
    options = ReadOptions(task.settings.text_key, counts, keeps_long_tokens=task.keeps_long_tokens)
    for part in task.unit.slices:
        yield from iter_slice(part, options)
        if (
            part.source.kind != "dataset"
            and measure_source(part.source, is_fresh=True)[1] != part.modified_ns
        ):
            raise FileFormatError(
                f"{part.source.path}: changed while it was read; run the same command again"
            )


def _iter_kept(task: UnitTask, scratch: Storage, tally: Tally) -> Iterator[RawDocument]:
    """The unit's documents without duplicate documents and paragraphs."""
    documents, paragraphs = (_read_flags(task, scratch, kind) for kind in ("documents", "paragraphs"))
    least = task.settings.min_duplicate_characters
    number = place = 0
    for document in _read_text(task, scratch):
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
        name = f"{task.scratch}/{task.name('text', '.zst')}"
        raise FileFormatError(f"{name}: is not what the first pass wrote; remove it and run again")


def _drop_flagged(document: RawDocument, compared: list[bool], flags: Flags) -> RawDocument:
    answers = iter(flags.tolist())
    kept = [
        text
        for text, is_compared in zip(document.paragraphs, compared, strict=True)
        if not (is_compared and next(answers))
    ]
    return RawDocument(kept)


def _read_text(task: UnitTask, scratch: Storage) -> Iterator[RawDocument]:
    with scratch.reading(task.name("text", ".zst")) as path:
        yield from read_documents(path)


def _read_flags(task: UnitTask, scratch: Storage, kind: str) -> Flags:
    with scratch.reading(task.name(f"{kind}-flags", ".bin")) as path:
        flags: Flags = np.fromfile(path, dtype=np.bool_)
    return flags


def _take(first: ShardPart, parts: Iterator[ShardPart]) -> Iterator[ShardPart]:
    """As many parts as a shard may hold, the first of them already drawn."""
    yield first
    num_pieces = len(first.pieces)
    while num_pieces < MAX_SHARD_PIECES and (part := next(parts, None)) is not None:
        yield part
        num_pieces += len(part.pieces)


def _write_one(out: Storage, name: str, parts: Iterator[ShardPart], id_type: pa.DataType) -> ShardEntry:
    totals: Counter[str] = Counter()

    def watch() -> Iterator[ShardPart]:
        for part in parts:
            totals["documents"] += len(part.document_starts) - 1
            totals["sentences"] += len(part.sentence_starts) - 1
            totals["pieces"] += len(part.pieces)
            yield part

    with writing_to(f"{out.place}/{name}", cure=_SO_FAR_KEPT), out.writing(name) as path:
        write_parts(path, watch(), id_type=id_type)
        num_bytes, sha256 = path.stat().st_size, hash_file(path)
    return ShardEntry(
        name=name,
        num_documents=totals["documents"],
        num_sentences=totals["sentences"],
        num_pieces=totals["pieces"],
        num_bytes=num_bytes,
        sha256=sha256,
    )
