"""Untidy sources come in; a corpus folder of shards, vocabulary and manifest goes out, here or in a store.

Survey the sources, hash their paragraphs, find the duplicates, write the shards, and last the manifest. What
a run has done is kept in the scratch folder under a key of everything it depends on, so that an interrupted
run goes on where it stopped, and does again what no longer fits.
"""

import hashlib
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeVar

import numpy as np

from albert.corpus.deduplicate import SeenHashes
from albert.corpus.finished import check_finished, describe_source, is_same, is_whole
from albert.corpus.layouts import LAYOUTS
from albert.corpus.manifest import MANIFEST_NAME, SHARDS_DIR, Manifest, write_manifest
from albert.corpus.passes import hash_unit, write_unit
from albert.corpus.progress import Meter
from albert.corpus.remote import Place, is_url, to_path
from albert.corpus.resume import choose_scratch, read_hash_record, read_unit_record, survey_sources, sweep
from albert.corpus.sources import DATASET_PREFIX, Source, find_ignored, find_sources
from albert.corpus.storage import Storage, open_storage
from albert.corpus.survey import SourceSurvey, SurveyTask, build_units, choose_unit_bytes
from albert.corpus.units import (
    RUN_NAME,
    PrepareSettings,
    UnitRecord,
    UnitTask,
    build_key,
    describe_unit,
)
from albert.corpus.vocabulary import save_vocabulary
from albert.corpus.workers import Engine, build_engine
from albert.errors import InputError
from albert.files import hold
from albert.reporting import Reporter, Silence
from albert.text.folder import load_tokenizer
from albert.text.sentences import find_rules
from albert.text.tokenizer import Tokenizer

R = TypeVar("R")
_SKIPPED = {"binary": "binary_files", "empty": "empty_files"}


@dataclass(frozen=True)
class _Run:
    """One call of `prepare_corpus`: what its steps share."""

    out: Storage
    scratch: Storage
    settings: PrepareSettings
    tokenizer: Tokenizer
    engine: Engine
    reporter: Reporter
    run_id: str


def prepare_corpus(
    paths: Sequence[Place],
    *,
    vocab: Path,
    out: Place,
    settings: PrepareSettings | None = None,
    num_workers: int | None = None,
    engine: str = "local",
    address: str | None = None,
    overwrite: bool = False,
    reporter: Reporter | None = None,
    unit_bytes: int | None = None,
) -> Manifest:
    """Prepare a corpus, or go on with one; the bytes depend on sources, vocabulary and settings alone.

    Sources and `out` are paths or URLs. `engine` is what does the work: `local`, by `num_workers` processes
    (one unless told otherwise), or `ray`, by as many as a cluster has. Each shard is of about `unit_bytes` of
    text, by default of as much as suits the whole. Refused: a folder that holds something else, or a corpus
    of other settings unless `overwrite`.
    """
    settings = settings or PrepareSettings()
    find_rules(settings.language)  # refuses a language without rules
    workers = build_engine(engine, num_workers=num_workers, address=address)
    tokenizer = load_tokenizer(Path(vocab))
    if engine != "local":  # another machine's processes stand in another folder
        paths, out = [_make_absolute(path) for path in paths], _make_absolute(out)
    sources = find_sources(paths, leaving_out=out)
    store = open_storage(out)
    scratch = choose_scratch(store)
    # Before anything there is touched: a folder with a manifest of something else is nobody's to tidy up.
    check = partial(
        check_finished,
        store,
        vocabulary=tokenizer.fingerprint,
        settings=settings,
        sources=sources,
        overwrite=overwrite,
    )
    check()
    reporter = reporter or Silence()
    if ignored := find_ignored(paths, leaving_out=out):
        reporter.say("left alone: " + ", ".join(f"{number} × {kind}" for kind, number in ignored.items()))
    busy = f"{store.place}: another run is preparing there; wait for it, or choose another --out"
    with hold(scratch.lock_path, busy=busy), workers as started:
        before = check()  # again: another run may have ended in between
        sweep(store)
        run = _Run(store, scratch, settings, tokenizer, started, reporter, uuid.uuid4().hex)
        with scratch.writing(RUN_NAME) as path:
            path.write_text(run.run_id)
        manifest = _prepare(run, sources, unit_bytes or choose_unit_bytes(sources), before)
    scratch.clear()
    return manifest


def _make_absolute(place: Place) -> Place:
    is_dataset = str(place).startswith(DATASET_PREFIX)
    return place if is_url(place) or is_dataset else to_path(place).absolute()


def _prepare(run: _Run, sources: Sequence[Source], unit_bytes: int, before: Manifest | None) -> Manifest:
    surveys = survey_sources(
        [
            SurveyTask(
                source, run.settings.text_key, run.settings.layout, unit_bytes, run.tokenizer.is_per_character
            )
            for source in sources
        ],
        run.scratch,
        engine=run.engine,
        reporter=run.reporter,
    )
    if before is not None and is_same(before, surveys, run.reporter) and is_whole(run.out, before):
        save_vocabulary(run.out, run.tokenizer)  # the same, if it was not lost or damaged
        run.reporter.say(f"{run.out.place}: is prepared already, and nothing has changed")
        return before
    _say_layouts(surveys, run.reporter)
    places = (run.out.place, run.scratch.place)
    tasks = [
        UnitTask(
            unit, run.settings, *places, run.tokenizer.fingerprint, run.run_id, run.tokenizer.is_per_character
        )
        for unit in build_units(surveys, unit_bytes=unit_bytes)
    ]
    hashed = _hash(run, tasks)
    marked, num_documents = _mark_duplicates(run, hashed)
    if not num_documents:
        _refuse_no_text(surveys, (task.dropped for task in hashed))
    # All sources were read to their ends: until then, a corpus that was here before stays what it was.
    run.out.remove(MANIFEST_NAME)
    save_vocabulary(run.out, run.tokenizer)
    records = _write(run, marked)
    manifest = _build_manifest(run, surveys, records)
    _drop_strangers(run.out, manifest)
    write_manifest(run.out, manifest)
    return manifest


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
    """Do what is not done yet; the record of every unit goes out, in their order."""
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
    settings = run.settings
    keyed = [
        replace(
            task,
            key=build_key(
                describe_unit(task.unit),
                settings.text_key,
                settings.min_duplicate_characters,
                task.keeps_long_tokens,
            ),
        )
        for task in tasks
    ]
    records = _run_pass(run, "reading", hash_unit, keyed, read_hash_record)
    return [replace(task, dropped=record.dropped) for task, record in zip(keyed, records, strict=True)]


def _mark_duplicates(run: _Run, tasks: Iterable[UnitTask]) -> tuple[list[UnitTask], int]:
    """Write each unit's flags, and give it a key that knows them: other duplicates are another shard.

    How many documents there are goes out, too, duplicates included.
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


def _write(run: _Run, tasks: Sequence[UnitTask]) -> list[UnitRecord]:
    return _run_pass(run, "writing", write_unit, tasks, read_unit_record)


def _count_dropped(surveys: Sequence[SourceSurvey], of_units: Iterable[Mapping[str, int]]) -> "Counter[str]":
    dropped = Counter(_SKIPPED[survey.skipped] for survey in surveys if survey.skipped)
    for each in of_units:
        dropped.update(each)
    return dropped


def _refuse_no_text(surveys: Sequence[SourceSurvey], of_units: Iterable[Mapping[str, int]]) -> NoReturn:
    dropped = _count_dropped(surveys, of_units)
    skipped = (
        ", ".join(f"{number} {kind}" for kind, number in sorted(dropped.items())) or "nothing was dropped"
    )
    names = ", ".join(survey.path for survey in surveys[:3]) + (" …" if len(surveys) > 3 else "")
    raise InputError(f"{names}: no text was found ({skipped}); give other sources")


def _build_manifest(run: _Run, surveys: Sequence[SourceSurvey], records: Sequence[UnitRecord]) -> Manifest:
    dropped = _count_dropped(surveys, (record.dropped for record in records))
    if not any(record.num_documents for record in records):
        _refuse_no_text(surveys, (record.dropped for record in records))
    return Manifest(
        vocabulary=run.tokenizer.fingerprint,
        vocab_size=run.tokenizer.vocab_size,
        num_documents=sum(record.num_documents for record in records),
        num_sentences=sum(record.num_sentences for record in records),
        num_pieces=sum(record.num_pieces for record in records),
        num_unknown=sum(record.num_unknown for record in records),
        num_characters=sum(record.num_characters for record in records),
        dropped=dict(sorted(dropped.items())),
        settings=run.settings.model_dump(),
        sources=tuple(map(describe_source, surveys)),
        shards=tuple(shard for record in records for shard in record.shards),
    )


def _drop_strangers(out: Storage, manifest: Manifest) -> None:
    """Remove what an earlier run left among the shards."""
    known = {shard.name for shard in manifest.shards}
    for name in (f"{SHARDS_DIR}/{name}" for name in out.below(SHARDS_DIR).list_names()):
        if name not in known:
            out.remove(name)
