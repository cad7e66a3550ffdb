"""Prepare a corpus: convert text files and datasets to a folder of shards, vocabulary and manifest.

The first pass cleans and hashes the text of each unit of work. Then duplicates are found by their hashes, in
the order of the sources. The second pass writes the shards without duplicates, and the manifest follows. A
pass is a pure function of its task. Finished units are recorded in a scratch folder under a key of everything
they depend on, so that an interrupted run resumes where it stopped and repeats only units with another key.
"""

import hashlib
import io
import json
import platform
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import PositiveInt, field_validator

from albert.data import shards, sources, storage
from albert.data.cleaning import count
from albert.data.engines import Engine, build_engine
from albert.data.layouts import LAYOUTS, RawDocument, cut_passages
from albert.data.rows import iter_groups
from albert.data.shards import MANIFEST_NAME, SHARDS_DIR, VOCAB_DIR, Manifest, ShardEntry, ShardPart
from albert.data.sources import ReadOptions, Slice, Source, SourceSurvey
from albert.data.storage import ByteProgress, PathOrUrl, Storage
from albert.errors import AlbertError, InputError
from albert.files import hash_file, hold, read_json, read_text, writing_to
from albert.progress import NullReporter, Reporter
from albert.settings import Settings, build_settings
from albert.text.folder import load_tokenizer
from albert.text.sentences import find_rules, iter_sentences
from albert.text.tokenizer import Tokenizer

SCRATCH_NAME = ".prepare"
RUN_NAME = "run.txt"
# Increase it when results of cleaning, splitting or tokenizing change: a run does not resume other versions.
PREPARE_VERSION = 4
MAX_SHARD_TOKENS = 1 << 26
# SentencePiece is fastest with about a thousand sentences at a time.
_BATCH_SENTENCES = 1000
_BATCH_CHARACTERS = 1 << 18
_MAX_LISTED = 20  # sources whose layouts are listed one by one
_NO_SPACE_HINT = "free disk space and run the same command again: finished work is kept"

Hashes = NDArray[np.uint64]


class PrepareSettings(Settings):
    """The settings on which the bytes of a corpus depend, besides its sources and vocabulary."""

    language: str = "en"
    text_key: str = "text"
    layout: str | None = None
    # Shorter paragraphs may be repeated, such as "Yes." or "Chapter I".
    min_duplicate_characters: PositiveInt = 64
    # Split documents into passages of whole paragraphs with at least so many characters.
    passage_characters: PositiveInt | None = None

    @field_validator("layout")
    @classmethod
    def _check_layout(cls, layout: str | None) -> str | None:
        if layout is not None and layout not in LAYOUTS:
            raise ValueError(f"unknown; choose from {', '.join(LAYOUTS)}")
        return layout


@dataclass(frozen=True)
class Job:
    """The settings that all units of a run share; `vocabulary` is the tokenizer's fingerprint."""

    out: Storage
    settings: PrepareSettings
    vocabulary: str
    keeps_long_tokens: bool
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def scratch(self) -> Storage:
        return self.out.subfolder(SCRATCH_NAME)

    @property
    def read_options(self) -> ReadOptions:
        return ReadOptions(self.settings.text_key, self.keeps_long_tokens)


@dataclass(frozen=True)
class _Run:
    job: Job
    tokenizer: Tokenizer
    engine: Engine
    reporter: Reporter


def prepare_corpus(
    paths: Sequence[PathOrUrl],
    *,
    vocab: Path,
    out: PathOrUrl,
    settings: PrepareSettings | None = None,
    num_workers: int | None = None,
    engine: str = "local",
    address: str | None = None,
    overwrite: bool = False,
    reporter: Reporter | None = None,
    unit_bytes: int | None = None,
) -> Manifest:
    """Prepare a corpus, or resume its preparation; its bytes depend on sources, vocabulary and settings only.

    `paths` are files, folders, URLs, or `hf:NAME[@CONFIG][:SPLIT]`. `out` must be empty or contain this
    corpus; `overwrite` replaces one of other settings, vocabulary or sources. `engine` is `local` or `ray`,
    and `address` that of a running Ray cluster. `unit_bytes` is the approximate amount of text per shard.
    """
    settings = settings or PrepareSettings()
    reporter = reporter or NullReporter()
    find_rules(settings.language)  # raises if the language is unknown
    workers = build_engine(engine, num_workers=num_workers, address=address)
    tokenizer = load_tokenizer(Path(vocab))
    if engine != "local":  # other machines have another working directory
        paths, out = [_make_absolute(path) for path in paths], _make_absolute(out)
    found = sources.find_sources(paths, excluding=out)
    job = Job(storage.open_storage(out), settings, tokenizer.fingerprint, tokenizer.is_per_character)
    before = _check_out(job, found, overwrite)
    if ignored := sources.count_ignored(paths, excluding=out):
        reporter.say("ignored: " + ", ".join(f"{number} × {suffix}" for suffix, number in ignored.items()))
    busy = f"{job.out.location}: another run is preparing there; wait for it, or choose another --out"
    with hold(job.scratch.lock_path, busy=busy), workers as started:
        for folder in (job.out, job.scratch, job.out.subfolder(SHARDS_DIR), job.out.subfolder(VOCAB_DIR)):
            folder.remove_unfinished()
        with job.scratch.writing(RUN_NAME) as path:
            path.write_text(job.run_id)
        run = _Run(job, tokenizer, started, reporter)
        manifest = _prepare(run, found, unit_bytes or sources.choose_slice_bytes(found), before)
    job.scratch.clear()
    return manifest


def _make_absolute(path: PathOrUrl) -> PathOrUrl:
    is_remote = storage.is_url(path) or str(path).startswith(sources.DATASET_PREFIX)
    return path if is_remote else storage.to_path(path).absolute()


def _check_out(job: Job, given: Sequence[Source], overwrite: bool) -> Manifest | None:
    """Return the manifest of a finished corpus; raise an InputError if `out` contains anything else.

    With additional or changed sources it is the same corpus, with fewer another one.
    """
    out = job.out
    found = out.list_names()
    if found and not {SCRATCH_NAME, MANIFEST_NAME} & set(found):
        raise InputError(f"{out.location}: holds files but no prepared corpus; choose an empty --out")
    if MANIFEST_NAME not in found:
        return None
    manifest = shards.read_manifest(out)
    if overwrite:
        return None
    # Names are counted, because files of different folders may have the same name.
    missing = Counter(each.name for each in manifest.sources) - Counter(each.name for each in given)
    if manifest.vocabulary != job.vocabulary:
        other = "another vocabulary"
    elif manifest.settings != job.settings.model_dump():
        other = "other settings"
    elif missing:
        other = f"other sources ({next(iter(missing))} is not among these)"
    else:
        return manifest
    raise InputError(f"{out.location}: holds a corpus of {other}; choose another --out, or add --overwrite")


def _prepare(run: _Run, given: Sequence[Source], unit_bytes: int, before: Manifest | None) -> Manifest:
    out = run.job.out
    surveys = _survey(run, given, unit_bytes)
    entries = tuple(
        shards.SourceEntry(
            name=each.source.name,
            num_bytes=each.num_bytes,
            sha256=each.sha256,
            layout=each.layout.name,
            skipped=each.skipped,
        )
        for each in surveys
    )
    if before is not None and before.sources == entries and _are_complete(out, before.shards):
        shards.save_vocabulary(out, run.tokenizer)  # in case it was lost or damaged
        run.reporter.say(f"{out.location}: already prepared, nothing has changed")
        return before
    _report_layouts(surveys, run.reporter)
    tasks = _build_tasks(run.job, surveys, unit_bytes)
    hashed = _run_pass(run, "reading", hash_unit, tasks)
    tasks = [replace(task, dropped=record.dropped) for task, record in zip(tasks, hashed, strict=True)]
    tasks, num_documents = _mark_duplicates(tasks)
    if not num_documents:
        dropped = _count_dropped(surveys, hashed)
        reason = ", ".join(f"{number} {name}" for name, number in dropped.items())
        names = ", ".join(source.path for source in given[:3]) + (" …" if len(given) > 3 else "")
        raise InputError(f"{names}: no text found ({reason or 'nothing dropped'}); give other sources")
    # All sources have been read. Until now, an existing corpus stays unchanged.
    out.remove(MANIFEST_NAME)
    shards.save_vocabulary(out, run.tokenizer)
    records = _run_pass(run, "writing", write_unit, tasks)
    written = [shard for record in records for shard in record.shards]
    manifest = Manifest(
        vocabulary=run.tokenizer.fingerprint,
        vocab_size=run.tokenizer.vocab_size,
        num_documents=sum(shard.num_documents for shard in written),
        num_sentences=sum(shard.num_sentences for shard in written),
        num_tokens=sum(shard.num_tokens for shard in written),
        num_unknown=sum(record.num_unknown for record in records),
        num_characters=sum(record.num_characters for record in records),
        dropped=_count_dropped(surveys, records),
        settings=run.job.settings.model_dump(),
        sources=entries,
        shards=tuple(written),
    )
    known = {shard.name for shard in written}
    for name in (f"{SHARDS_DIR}/{name}" for name in out.subfolder(SHARDS_DIR).list_names()):
        if name not in known:  # left by an earlier run
            out.remove(name)
    shards.write_manifest(out, manifest)
    return manifest


def _survey(run: _Run, given: Sequence[Source], unit_bytes: int) -> list[SourceSurvey]:
    options, layout = run.job.read_options, run.job.settings.layout
    sizes = {source: sources.measure_source(source)[0] for source in given}  # a path may be given twice
    tasks = [sources.SurveyTask(source, options, layout, unit_bytes) for source in sizes]
    progress = ByteProgress(run.reporter, "scanning", total=sum(sizes.values()))
    found: dict[Source, SourceSurvey] = {}
    for task, survey in run.engine.run(sources.survey_source, tasks):
        found[task.source] = survey
        progress.advance(sizes[task.source])
    return [found[source] for source in given]


def _are_complete(out: Storage, entries: Iterable[ShardEntry]) -> bool:
    return all(out.has_content(each.name, num_bytes=each.num_bytes, sha256=each.sha256) for each in entries)


def _report_layouts(surveys: Sequence[SourceSurvey], reporter: Reporter) -> None:
    for survey in surveys:
        if survey.skipped:
            reporter.say(f"{survey.source.path}: {survey.skipped}, skipped")
        elif len(surveys) <= _MAX_LISTED:
            reporter.say(f"{survey.source.name}: {LAYOUTS[survey.layout.name]}")
    if len(surveys) > _MAX_LISTED:
        layouts = Counter(survey.layout.name for survey in surveys if not survey.skipped)
        for layout, number in sorted(layouts.items()):
            reporter.say(f"{number} sources: {LAYOUTS[layout]}")


def _count_dropped(surveys: Sequence[SourceSurvey], records: "Iterable[UnitRecord]") -> dict[str, int]:
    dropped = Counter(f"{survey.skipped}_files" for survey in surveys if survey.skipped)
    for record in records:
        dropped.update(record.dropped)
    return dict(sorted(dropped.items()))


@dataclass(frozen=True)
class UnitTask:
    """A unit of work: slices of one or several sources.

    `key` is a hash of everything the result depends on; `dropped` counts what the first pass removed.
    """

    index: int
    slices: tuple[Slice, ...]
    job: Job
    key: str = ""
    dropped: dict[str, int] = field(default_factory=dict)

    @property
    def num_bytes(self) -> int:
        return sum(part.num_bytes for part in self.slices)

    def name(self, stem: str, suffix: str) -> str:
        """Return the name of one of the unit's scratch files."""
        return f"{stem}-{self.index:05d}{suffix}"


def _build_tasks(job: Job, surveys: Sequence[SourceSurvey], unit_bytes: int) -> list[UnitTask]:
    """Group slices into units of work, in source order: small sources share a unit."""
    groups: list[list[Slice]] = []
    num_bytes = 0
    for part in (part for survey in surveys for part in survey.slices):
        if not groups or num_bytes + part.num_bytes > unit_bytes:
            groups.append([])
            num_bytes = 0
        groups[-1].append(part)
        num_bytes += part.num_bytes
    options = (job.settings.text_key, job.settings.min_duplicate_characters, job.keeps_long_tokens)
    return [
        UnitTask(index, tuple(slices), job, _build_key(*map(_describe_slice, slices), *options))
        for index, slices in enumerate(groups)
    ]


def _describe_slice(part: Slice) -> list[object]:
    """Return what the documents of a slice depend on: its content and its boundaries, not its path."""
    survey, source, layout = part.survey, part.survey.source, asdict(part.survey.layout)
    return [source.name, source.format, survey.sha256, part.start, part.end, layout, survey.heads]


def _build_key(*parts: object) -> str:
    content = json.dumps([PREPARE_VERSION, *parts], sort_keys=True, default=str)
    return hashlib.sha256(content.encode()).hexdigest()


class UnitRecord(Settings):
    """The record of a pass over a unit, which is written after its files."""

    key: str
    dropped: dict[str, int]
    num_text_bytes: int = 0  # of the first pass
    num_unknown: int = 0
    num_characters: int = 0
    shards: tuple[ShardEntry, ...] = ()


def _run_pass(
    run: _Run, stage: str, function: Callable[[UnitTask], UnitRecord], tasks: Sequence[UnitTask]
) -> list[UnitRecord]:
    """Run the tasks that are not finished, and return the record of every unit in order."""
    records = {task.index: record for task in tasks if (record := _find_record(task, stage)) is not None}
    waiting = [task for task in tasks if task.index not in records]
    total = sum(task.num_bytes for task in tasks)
    if records:
        run.reporter.say(f"{stage}: {len(records)} of {len(tasks)} units are already finished")
    done = total - sum(task.num_bytes for task in waiting)
    progress = ByteProgress(run.reporter, stage, total=total, done=done)
    for task, record in run.engine.run(function, waiting):
        records[task.index] = record
        progress.advance(task.num_bytes)
    return [records[task.index] for task in tasks]


def _find_record(task: UnitTask, stage: str) -> UnitRecord | None:
    """Read the record of a unit; return None if it is missing, damaged, or of another task."""
    scratch, name = task.job.scratch, task.name(stage, ".json")
    try:
        with scratch.reading(name) as path:
            record = build_settings(UnitRecord, values=read_json(path), source=name)
    except AlbertError:
        return None
    if record.key != task.key or not _are_complete(task.job.out, record.shards):
        return None
    if stage == "reading" and scratch.find_size(task.name("text", ".zst")) != record.num_text_bytes:
        return None
    return record


def _open_scratch(job: Job) -> Storage:
    """Open the scratch folder, unless it is another one: this machine may not share the disk."""
    scratch = job.scratch
    if scratch.find_size(RUN_NAME) is not None:
        with scratch.reading(RUN_NAME) as path:
            if read_text(path) == job.run_id:
                return scratch
    raise InputError(
        f"{scratch.location}: on {platform.node()} this is not the folder of this run; give an --out that "
        "all nodes share (a network disk or a URL), and that no other run writes to"
    )


def hash_unit(task: UnitTask) -> UnitRecord:
    """Write the cleaned text of a unit and the hashes of its paragraphs and documents (first pass)."""
    scratch = _open_scratch(task.job)
    # The old record is removed first, because its files are about to be overwritten.
    scratch.remove(task.name("reading", ".json"))
    hashes = {"paragraphs": bytearray(), "documents": bytearray()}
    options = task.job.read_options
    name = task.name("text", ".zst")
    min_characters = task.job.settings.min_duplicate_characters
    with writing_to(f"{scratch.location}/{name}", hint=_NO_SPACE_HINT), scratch.writing(name) as text_path:
        read = (document for part in task.slices for document in sources.iter_slice(part, options))
        for document in write_documents(text_path, read):
            hashes["documents"] += _hash_text("\n".join(document.paragraphs))
            if not document.is_split:
                long = (text for text in document.paragraphs if len(text) >= min_characters)
                hashes["paragraphs"] += b"".join(map(_hash_text, long))
        num_text_bytes = text_path.stat().st_size
    for stem, data in hashes.items():
        with scratch.writing(task.name(stem, ".bin")) as path:
            path.write_bytes(data)
    record = UnitRecord(key=task.key, num_text_bytes=num_text_bytes, dropped=dict(options.counts))
    storage.put_json(scratch, task.name("reading", ".json"), record.model_dump())
    return record


def _hash_text(text: str) -> bytes:
    # Of n different paragraphs, n² / 2^65 pairs are expected to collide: 0.0003 of a hundred million.
    return hashlib.blake2b(text.strip().encode("utf-8", "surrogatepass"), digest_size=8).digest()


def write_documents(path: Path, documents: Iterable[RawDocument]) -> Iterator[RawDocument]:
    """Write documents to a compressed scratch file, one line of JSON each, and yield them."""
    stream = pa.output_stream(str(path), compression="zstd")
    with io.BufferedWriter(stream, storage.BLOCK_BYTES) as file:
        for document in documents:
            file.write(json.dumps([document.is_split, document.paragraphs]).encode() + b"\n")
            yield document


def read_documents(path: Path) -> Iterator[RawDocument]:
    """Yield the documents of a file of `write_documents`."""
    stream = pa.input_stream(str(path), compression="zstd")
    with io.BufferedReader(stream, storage.BLOCK_BYTES) as file:
        for line in file:
            is_split, paragraphs = json.loads(line)
            yield RawDocument(paragraphs, is_split)


def _mark_duplicates(tasks: Iterable[UnitTask]) -> tuple[list[UnitTask], int]:
    """Mark the duplicates of each unit and add them to its key; also return the number of documents."""
    seen = {"documents": SeenHashes(), "paragraphs": SeenHashes()}
    keyed: list[UnitTask] = []
    num_documents = 0
    for task in tasks:
        job, marks = task.job, hashlib.sha256()
        for stem, hashes in seen.items():
            with job.scratch.reading(task.name(stem, ".bin")) as path:
                flags = hashes.mark(np.fromfile(path, dtype=np.uint64))
            num_documents += len(flags) if stem == "documents" else 0
            with job.scratch.writing(task.name(f"{stem}-flags", ".bin")) as path:
                flags.tofile(path)
            marks.update(flags.tobytes() + b"|")
        key = _build_key(task.key, job.vocabulary, job.settings.model_dump(), marks.hexdigest())
        keyed.append(replace(task, key=key))
    return keyed, num_documents


class SeenHashes:
    """The distinct hashes so far, sorted: 8 bytes each, and twice as much while new ones are added."""

    def __init__(self) -> None:
        self._seen: Hashes = np.zeros(0, dtype=np.uint64)

    def mark(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Add hashes, and return which ones occurred before, in earlier calls or earlier in this one."""
        distinct, first = np.unique(hashes, return_index=True)
        left, right = (np.searchsorted(self._seen, distinct, side=side) for side in ("left", "right"))
        is_new = left == right
        flags = np.ones(len(hashes), dtype=np.bool_)
        flags[first[is_new]] = False
        self._seen = np.concatenate([self._seen, distinct[is_new]])
        self._seen.sort(kind="stable")  # two sorted halves: a merge
        return flags


def write_unit(task: UnitTask) -> UnitRecord:
    """Write the shards of a unit without its duplicates (second pass)."""
    scratch, settings = _open_scratch(task.job), task.job.settings
    scratch.remove(task.name("writing", ".json"))
    tokenizer = _load_vocabulary(task.job.out, task.job.vocabulary)
    tally = Counter(task.dropped)
    kept = cut_passages(_iter_kept(task, scratch, tally), settings.passage_characters)
    parts = iter_parts(kept, tokenizer, language=settings.language, tally=tally)
    written: list[ShardEntry] = []
    while (first := next(parts, None)) is not None:
        name = f"{SHARDS_DIR}/{task.index:05d}-{len(written):03d}.arrow"
        id_type = shards.choose_id_type(tokenizer.vocab_size)
        written.append(_write_shard(task.job.out, name, first, parts, id_type))
    totals = {name: tally.pop(name, 0) for name in ("num_characters", "num_unknown")}
    record = UnitRecord(key=task.key, dropped=dict(tally), shards=tuple(written), **totals)
    # A worker of a node that was presumed lost may get here after the run has ended and removed its files.
    storage.put_json(_open_scratch(task.job), task.name("writing", ".json"), record.model_dump(mode="json"))
    return record


@lru_cache(maxsize=1)
def _load_vocabulary(out: Storage, fingerprint: str) -> Tokenizer:
    with tempfile.TemporaryDirectory(prefix="albert-") as folder:
        return shards.fetch_vocabulary(out, Path(folder))


def _iter_kept(task: UnitTask, scratch: Storage, tally: Counter[str]) -> Iterator[RawDocument]:
    """Yield the unit's documents without duplicate documents and paragraphs."""
    flags: dict[str, Iterator[bool]] = {}
    for stem in ("documents", "paragraphs"):
        with scratch.reading(task.name(f"{stem}-flags", ".bin")) as path:
            flags[stem] = iter(np.fromfile(path, dtype=np.bool_).tolist())
    min_characters = task.job.settings.min_duplicate_characters
    with scratch.reading(task.name("text", ".zst")) as path:
        for document in read_documents(path):
            kept = [
                text
                for text in document.paragraphs
                if document.is_split or len(text) < min_characters or not next(flags["paragraphs"])
            ]
            if next(flags["documents"]):
                tally["duplicate_documents"] += 1
                continue
            count(tally, "duplicate_paragraphs", len(document.paragraphs) - len(kept))
            yield RawDocument(kept, document.is_split)


def iter_parts(
    documents: Iterable[RawDocument], tokenizer: Tokenizer, *, language: str, tally: Counter[str]
) -> Iterator[ShardPart]:
    """Split documents into sentences, tokenize them, and yield record batches of whole documents."""
    split = (_split(document, language) for document in documents)
    groups = iter_groups(split, (len, _BATCH_SENTENCES), (_count_characters, _BATCH_CHARACTERS))
    parts = (part for group in groups for part in _encode(group, tokenizer, tally))
    limit = (lambda part: len(part.tokens), shards.MAX_BATCH_TOKENS)
    yield from map(shards.join_parts, iter_groups(parts, limit))


def _split(document: RawDocument, language: str) -> list[str]:
    if document.is_split:
        return list(document.paragraphs)
    return [each for text in document.paragraphs for each in iter_sentences(text, language=language)]


def _count_characters(sentences: list[str]) -> int:
    return sum(map(len, sentences))


def _encode(documents: list[list[str]], tokenizer: Tokenizer, tally: Counter[str]) -> Iterator[ShardPart]:
    id_dtype = shards.choose_id_type(tokenizer.vocab_size).to_pandas_dtype()
    blocks, lengths = [np.zeros(0, id_dtype)], []
    # In blocks, because a single document may be very long, and lists of ids are large.
    limits = (lambda _: 1, 4 * _BATCH_SENTENCES), (len, 4 * _BATCH_CHARACTERS)
    for sentences in iter_groups(chain.from_iterable(documents), *limits):
        tally["num_characters"] += _count_characters(sentences)
        rows = tokenizer.encode_ids(sentences)
        sizes = list(map(len, rows))
        lengths += sizes
        blocks.append(np.fromiter(chain.from_iterable(rows), dtype=id_dtype, count=sum(sizes)))
    part = shards.build_part(blocks, lengths, list(map(len, documents)))
    count(tally, "empty_documents", len(documents) - part.num_documents)
    if part.num_documents:
        tally["num_unknown"] += int(np.count_nonzero(part.tokens == tokenizer.unk_id))
        yield part


def _write_shard(
    out: Storage, name: str, first: ShardPart, parts: Iterator[ShardPart], id_type: pa.DataType
) -> ShardEntry:
    """Write `first` and as many more parts as fit into a shard."""
    totals: Counter[str] = Counter()

    def take() -> Iterator[ShardPart]:
        part: ShardPart | None = first
        while part is not None:
            totals["num_documents"] += part.num_documents
            totals["num_sentences"] += part.num_sentences
            totals["num_tokens"] += len(part.tokens)
            yield part
            part = next(parts, None) if totals["num_tokens"] < MAX_SHARD_TOKENS else None

    with writing_to(f"{out.location}/{name}", hint=_NO_SPACE_HINT), out.writing(name) as path:
        shards.write_parts(path, take(), id_type=id_type)
        num_bytes, sha256 = path.stat().st_size, hash_file(path)
    return ShardEntry(name=name, **totals, num_bytes=num_bytes, sha256=sha256)
