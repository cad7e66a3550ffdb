"""Prepare a corpus: from text files and datasets to a folder of shards, vocabulary and manifest.

Survey the sources, hash their paragraphs, find the duplicates, write the shards, and last the manifest.
Finished work is recorded in a scratch folder under a key of everything it depends on, so that an interrupted
run resumes where it stopped and repeats only what no longer fits.
"""

import hashlib
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeVar

import numpy as np

from albert.data.documents import Source
from albert.data.engines import Engine, build_engine
from albert.data.layouts import LAYOUTS
from albert.data.manifest import (
    MANIFEST_NAME,
    SHARDS_DIR,
    VOCAB_DIR,
    Manifest,
    SourceEntry,
    are_whole,
    read_manifest,
    save_vocabulary,
    write_manifest,
)
from albert.data.paths import PathOrUrl, is_url, to_path
from albert.data.sources import (
    DATASET_PREFIX,
    SourceSurvey,
    SurveyTask,
    build_units,
    choose_unit_bytes,
    find_ignored,
    find_sources,
    measure_source,
    survey_source,
)
from albert.data.storage import Meter, Storage, open_storage, put_json
from albert.data.units import (
    PREPARE_VERSION,
    RUN_NAME,
    HashRecord,
    PrepareSettings,
    SeenHashes,
    UnitRecord,
    UnitTask,
    build_key,
    describe_unit,
    hash_unit,
    write_unit,
)
from albert.errors import AlbertError, InputError
from albert.files import hold, read_json
from albert.progress import NullReporter, Reporter
from albert.settings import Settings, build_settings
from albert.text.folder import load_tokenizer
from albert.text.sentences import find_rules
from albert.text.tokenizer import Tokenizer

SCRATCH_NAME = ".prepare"
_SURVEY_NAME = "survey.json"
_SECONDS_BETWEEN_SAVES = 30.0
_QUIET_BYTES = 1 << 26  # a survey of less needs no progress bar
_COUNTS = ("num_documents", "num_sentences", "num_pieces", "num_unknown", "num_characters")
_SKIPPED = {"binary": "binary_files", "empty": "empty_files"}
R = TypeVar("R")
S = TypeVar("S", bound=Settings)


@dataclass(frozen=True)
class _Run:
    """What the steps of one call of `prepare_corpus` share."""

    out: Storage
    scratch: Storage
    settings: PrepareSettings
    tokenizer: Tokenizer
    engine: Engine
    reporter: Reporter
    run_id: str


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
    """Prepare a corpus, or resume one; the bytes depend on sources, vocabulary and settings alone.

    Args:
        paths: Files, folders, URLs, or `hf:NAME[@CONFIG][:SPLIT]`.
        vocab: Folder or file of the vocabulary.
        out: Folder or URL of the corpus; must be empty, or hold this corpus.
        settings: Language, layout and the like.
        num_workers: Number of processes (1 by default), or of tasks at once on a Ray cluster (all cores).
        engine: `local` or `ray`.
        address: Address of a running Ray cluster.
        overwrite: Replace a corpus of other settings, vocabulary or sources.
        reporter: Receives progress and messages.
        unit_bytes: About how much text a shard is made of.
    """
    settings = settings or PrepareSettings()
    find_rules(settings.language)  # raises if the language is unknown
    workers = build_engine(engine, num_workers=num_workers, address=address)
    tokenizer = load_tokenizer(Path(vocab))
    if engine != "local":  # processes on other machines have another working directory
        paths, out = [_make_absolute(path) for path in paths], _make_absolute(out)
    sources = find_sources(paths, leaving_out=out)
    store = open_storage(out)
    found = store.list_names()
    if found and not {SCRATCH_NAME, MANIFEST_NAME} & set(found):
        raise InputError(
            f"{store.place}: holds files that are no prepared corpus; choose an empty folder for --out"
        )
    scratch = store.below(SCRATCH_NAME)
    check = partial(_check_finished, store, tokenizer, settings, sources, overwrite)
    check()  # before anything there is changed
    reporter = reporter or NullReporter()
    if ignored := find_ignored(paths, leaving_out=out):
        reporter.say("left alone: " + ", ".join(f"{number} × {kind}" for kind, number in ignored.items()))
    busy = f"{store.place}: another run is preparing there; wait for it, or choose another --out"
    with hold(scratch.lock_path, busy=busy), workers as started:
        before = check()  # again: another run may have ended in between
        for folder in (store, scratch, store.below(SHARDS_DIR), store.below(VOCAB_DIR)):
            folder.sweep()
        run = _Run(store, scratch, settings, tokenizer, started, reporter, uuid.uuid4().hex)
        with scratch.writing(RUN_NAME) as path:
            path.write_text(run.run_id)
        manifest = _prepare(run, sources, unit_bytes or choose_unit_bytes(sources), before)
    scratch.clear()
    return manifest


def _make_absolute(path: PathOrUrl) -> PathOrUrl:
    is_dataset = str(path).startswith(DATASET_PREFIX)
    return path if is_url(path) or is_dataset else to_path(path).absolute()


def _check_finished(
    out: Storage, tokenizer: Tokenizer, settings: PrepareSettings, sources: Sequence[Source], overwrite: bool
) -> Manifest | None:
    """Return the manifest of a finished corpus; raise `InputError` if it is of something else.

    More sources, or changed ones, are another state of the same corpus; fewer are another corpus.
    """
    if out.find_size(MANIFEST_NAME) is None:
        return None
    manifest = read_manifest(out)
    if overwrite:
        return None
    # Files of different folders may share a name: there must be as many of it.
    missing = Counter(each.name for each in manifest.sources) - Counter(each.name for each in sources)
    if manifest.vocabulary != tokenizer.fingerprint:
        other = "another vocabulary"
    elif manifest.settings != settings.model_dump():
        other = "other settings"
    elif missing:
        other = f"other sources ({next(iter(missing))} is not among these)"
    else:
        return manifest
    raise InputError(f"{out.place}: holds a corpus of {other}; choose another --out, or add --overwrite")


def _prepare(run: _Run, sources: Sequence[Source], unit_bytes: int, before: Manifest | None) -> Manifest:
    settings, tokenizer = run.settings, run.tokenizer
    keeps_long_tokens = tokenizer.is_per_character
    surveys = survey_sources(
        [
            SurveyTask(source, settings.text_key, settings.layout, unit_bytes, keeps_long_tokens)
            for source in sources
        ],
        run.scratch,
        engine=run.engine,
        reporter=run.reporter,
    )
    if before is not None and _is_same(before, surveys, run.reporter) and are_whole(run.out, before.shards):
        save_vocabulary(run.out, tokenizer)  # in case it was lost or damaged
        run.reporter.say(f"{run.out.place}: is prepared already, and nothing has changed")
        return before
    _say_layouts(surveys, run.reporter)
    tasks = [
        UnitTask(
            unit,
            settings,
            run.out.place,
            run.scratch.place,
            tokenizer.fingerprint,
            run.run_id,
            keeps_long_tokens,
            key=build_key(
                describe_unit(unit), settings.text_key, settings.min_duplicate_characters, keeps_long_tokens
            ),
        )
        for unit in build_units(surveys, unit_bytes=unit_bytes)
    ]
    hashed = _hash(run, tasks)
    marked, num_documents = _mark_duplicates(run, hashed)
    if not num_documents:
        _raise_no_text(surveys, (task.dropped for task in hashed))
    # All sources were read completely: until now, a corpus that was here before stays as it was.
    run.out.remove(MANIFEST_NAME)
    save_vocabulary(run.out, tokenizer)
    records = _run_pass(run, "writing", write_unit, marked, _read_unit_record)
    manifest = _build_manifest(run, surveys, records)
    known = {shard.name for shard in manifest.shards}
    for name in (f"{SHARDS_DIR}/{name}" for name in run.out.below(SHARDS_DIR).list_names()):
        if name not in known:  # left by an earlier run
            run.out.remove(name)
    write_manifest(run.out, manifest)
    return manifest


def _is_same(before: Manifest, surveys: Sequence[SourceSurvey], reporter: Reporter) -> bool:
    """Whether the sources are those of the corpus that is there; report what is new or changed."""
    sources = tuple(map(_describe_source, surveys))
    old, new = ({entry.name: entry for entry in entries} for entries in (before.sources, sources))
    for name in {**old, **new}:
        if name not in old:
            reporter.say(f"{name}: is new")
        elif old[name] != new[name]:
            reporter.say(f"{name}: changed since the corpus was prepared")
    return before.sources == sources


def _describe_source(survey: SourceSurvey) -> SourceEntry:
    return SourceEntry(**{key: getattr(survey, key) for key in SourceEntry.model_fields})


def _say_layouts(surveys: Sequence[SourceSurvey], reporter: Reporter) -> None:
    for survey in surveys:
        if survey.skipped:
            reporter.say(f"{survey.path}: {survey.skipped}, skipped")
    read = [survey for survey in surveys if not survey.skipped]
    if len(read) <= 20:
        for survey in read:
            reporter.say(f"{survey.name}: {LAYOUTS[survey.layout]}")
        return
    for layout, number in sorted(Counter(survey.layout for survey in read).items()):
        reporter.say(f"{number} sources: {LAYOUTS[layout]}")


def _run_pass(
    run: _Run,
    stage: str,
    function: Callable[[UnitTask], R],
    tasks: Sequence[UnitTask],
    read: Callable[[UnitTask], R | None],
) -> list[R]:
    """Run the tasks that are not done yet, and return the record of every unit, in order."""
    records = {task.unit.index: record for task in tasks if (record := read(task)) is not None}
    waiting = [task for task in tasks if task.unit.index not in records]
    total = sum(task.unit.num_bytes for task in tasks)
    if records:
        run.reporter.say(f"{stage}: {len(records)} of {len(tasks)} units were done before")
    done = total - sum(task.unit.num_bytes for task in waiting)
    meter = Meter(run.reporter, stage, total=total, done=done)
    for task, record in run.engine.run(function, waiting):
        records[task.unit.index] = record
        meter.advance(task.unit.num_bytes)
    return [records[task.unit.index] for task in tasks]


def _hash(run: _Run, tasks: Sequence[UnitTask]) -> list[UnitTask]:
    records = _run_pass(run, "reading", hash_unit, tasks, _read_hash_record)
    return [replace(task, dropped=record.dropped) for task, record in zip(tasks, records, strict=True)]


def _mark_duplicates(run: _Run, tasks: Iterable[UnitTask]) -> tuple[list[UnitTask], int]:
    """Write which documents and paragraphs of each unit are duplicates, and add that to its key.

    Also return the number of documents, duplicates included.
    """
    seen = {"documents": SeenHashes(), "paragraphs": SeenHashes()}
    keyed: list[UnitTask] = []
    num_documents = 0
    for task in tasks:
        marks = hashlib.sha256()
        for kind, hashes in seen.items():
            with run.scratch.reading(task.name(kind, ".bin")) as path:
                flags = hashes.mark(np.fromfile(path, dtype=np.uint64))
            num_documents += len(flags) if kind == "documents" else 0
            with run.scratch.writing(task.name(f"{kind}-flags", ".bin")) as path:
                flags.tofile(path)
            marks.update(flags.tobytes() + b"|")
        key = build_key(task.key, run.tokenizer.fingerprint, run.settings.model_dump(), marks.hexdigest())
        keyed.append(replace(task, key=key))
    return keyed, num_documents


def _count_dropped(surveys: Sequence[SourceSurvey], of_units: Iterable[Mapping[str, int]]) -> "Counter[str]":
    dropped = Counter(_SKIPPED[survey.skipped] for survey in surveys if survey.skipped)
    for each in of_units:
        dropped.update(each)
    return dropped


def _raise_no_text(surveys: Sequence[SourceSurvey], of_units: Iterable[Mapping[str, int]]) -> NoReturn:
    dropped = sorted(_count_dropped(surveys, of_units).items())
    skipped = ", ".join(f"{number} {kind}" for kind, number in dropped) or "nothing was dropped"
    names = ", ".join(survey.path for survey in surveys[:3]) + (" …" if len(surveys) > 3 else "")
    raise InputError(f"{names}: no text was found ({skipped}); give other sources")


def _build_manifest(run: _Run, surveys: Sequence[SourceSurvey], records: Sequence[UnitRecord]) -> Manifest:
    dropped = _count_dropped(surveys, (record.dropped for record in records))
    if not any(record.num_documents for record in records):
        _raise_no_text(surveys, (record.dropped for record in records))
    return Manifest(
        vocabulary=run.tokenizer.fingerprint,
        vocab_size=run.tokenizer.vocab_size,
        **{name: sum(getattr(record, name) for record in records) for name in _COUNTS},
        dropped=dict(sorted(dropped.items())),
        settings=run.settings.model_dump(),
        sources=tuple(map(_describe_source, surveys)),
        shards=tuple(shard for record in records for shard in record.shards),
    )


def _read_record(cls: type[S], store: Storage, name: str) -> S | None:
    """Read a record; None if it is missing or broken."""
    if store.find_size(name) is None:
        return None
    try:
        with store.reading(name) as path:
            return build_settings(cls, values=read_json(path), source=f"{store.place}/{name}")
    except (AlbertError, AttributeError, TypeError):
        return None


def _read_hash_record(task: UnitTask) -> HashRecord | None:
    """Return the record of the first pass, if its files are there and it is of the same task."""
    scratch = open_storage(task.scratch)
    record = _read_record(HashRecord, scratch, task.name("hashes", ".json"))
    if record is None or record.key != task.key:
        return None
    return record if scratch.find_size(task.name("text", ".zst")) == record.num_text_bytes else None


def _read_unit_record(task: UnitTask) -> UnitRecord | None:
    """Return the record of the second pass, if its shards are there, whole, and of the same task."""
    record = _read_record(UnitRecord, open_storage(task.scratch), task.name("unit", ".json"))
    if record is None or record.key != task.key:
        return None
    return record if are_whole(open_storage(task.out), record.shards) else None


class SurveyFile(Settings):
    """The surveys of a run, with the settings that they depend on."""

    version: int = 1
    text_key: str
    layout: str | None
    unit_bytes: int
    keeps_long_tokens: bool = False
    surveys: tuple[SourceSurvey, ...]


def survey_sources(
    tasks: Sequence[SurveyTask], scratch: Storage, *, engine: Engine, reporter: Reporter
) -> list[SourceSurvey]:
    """Survey each source, or reuse its earlier survey if size and time of change are the same.

    All tasks have the same settings. Results are saved every half minute: a survey reads every byte.
    """
    first = tasks[0]
    empty = SurveyFile(
        version=PREPARE_VERSION,
        text_key=first.text_key,
        layout=first.layout,
        unit_bytes=first.unit_bytes,
        keeps_long_tokens=first.keeps_long_tokens,
        surveys=(),
    )

    def save(surveys: Iterable[SourceSurvey]) -> None:
        content = empty.model_copy(update={"surveys": tuple(surveys)})
        put_json(scratch, _SURVEY_NAME, content.model_dump(mode="json"))

    before = _read_record(SurveyFile, scratch, _SURVEY_NAME)
    earlier = {survey.path: survey for survey in before.surveys} if before is not None else {}
    # What other settings gave must not be taken for what these give.
    fits = before is not None and before.model_copy(update={"surveys": ()}) == empty
    states = {task.source.path: measure_source(task.source) for task in tasks}
    found = {
        path: survey
        for path, survey in (earlier if fits else {}).items()
        if survey.kind != "dataset" and states.get(path) == (survey.num_bytes, survey.modified_ns)
    }
    # A file may be given twice, by itself and by its folder: it is surveyed once.
    waiting = list({task.source.path: task for task in tasks if task.source.path not in found}.values())
    total = sum(size for size, _ in states.values())
    done = sum(states[path][0] for path in found)
    meter = Meter(reporter, "looking", total=total, done=done) if total - done > _QUIET_BYTES else None
    saved = time.monotonic()
    for task, fresh in engine.run(survey_source, waiting):
        path = task.source.path
        found[path] = fresh
        if path in earlier and earlier[path].sha256 != fresh.sha256:
            reporter.say(f"{path}: changed since the last run; done again")
        if meter is not None:
            meter.advance(states[path][0])
        if time.monotonic() - saved > _SECONDS_BETWEEN_SAVES:
            save(({**earlier, **found} if fits else found).values())
            saved = time.monotonic()
    surveys = [found[task.source.path].model_copy(update={"name": task.source.name}) for task in tasks]
    save(surveys)
    return surveys
