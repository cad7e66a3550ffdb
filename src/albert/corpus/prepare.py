"""Untidy sources come in; a corpus folder of shards, vocabulary and manifest goes out.

Survey the sources, hash their paragraphs, find the duplicates, write the shards, and last the manifest. What
a run has done is kept in the scratch folder under a key of everything it depends on, so that an interrupted
run goes on where it stopped, and does again what no longer fits.
"""

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from albert.corpus.deduplicate import SeenHashes
from albert.corpus.layouts import LAYOUTS
from albert.corpus.manifest import (
    MANIFEST_NAME,
    Manifest,
    ShardEntry,
    SourceEntry,
    read_manifest,
    write_manifest,
)
from albert.corpus.progress import Meter
from albert.corpus.resume import choose_scratch, read_hash_record, read_unit_record, survey_sources
from albert.corpus.sources import Source, find_ignored, find_sources
from albert.corpus.survey import SourceSurvey, build_units, choose_unit_bytes
from albert.corpus.units import (
    SHARDS_DIR,
    VOCAB_DIR,
    PrepareSettings,
    UnitRecord,
    UnitTask,
    build_key,
    describe_unit,
    hash_shard,
    hash_unit,
    write_unit,
)
from albert.corpus.workers import Workers
from albert.errors import InputError
from albert.files import hold
from albert.reporting import Reporter, Silence
from albert.text.folder import load_tokenizer, save_tokenizer
from albert.text.sentence_rules import find_rules
from albert.text.tokenizer import Tokenizer

_SKIPPED = {"binary": "binary_files", "empty": "empty_files"}


@dataclass(frozen=True)
class _Run:
    """One call of `prepare_corpus`: what its steps share."""

    out: Path
    scratch: Path
    settings: PrepareSettings
    tokenizer: Tokenizer
    workers: Workers
    reporter: Reporter


def prepare_corpus(
    paths: Sequence[str | Path],
    *,
    vocab: Path,
    out: Path,
    settings: PrepareSettings | None = None,
    num_workers: int = 1,
    overwrite: bool = False,
    reporter: Reporter | None = None,
    unit_bytes: int | None = None,
) -> Manifest:
    """Prepare a corpus, or go on with one; the bytes depend on sources, vocabulary and settings alone.

    Each shard is of about `unit_bytes` of text, by default of as much as suits the whole. Refused: a folder
    that holds something else, or a corpus of other settings unless `overwrite`.
    """
    settings = settings or PrepareSettings()
    _check_settings(settings, num_workers)
    tokenizer = load_tokenizer(Path(vocab))
    sources = find_sources(paths)
    out = Path(out)
    scratch = choose_scratch(out)
    reporter = reporter or Silence()
    if ignored := find_ignored(paths):
        reporter.say("left alone: " + ", ".join(f"{number} × {kind}" for kind, number in ignored.items()))
    busy = f"{out}: another run is preparing there; wait for it, or choose another --out"
    with hold(scratch / "lock", busy=busy), Workers(num_workers) as workers:
        run = _Run(out, scratch, settings, tokenizer, workers, reporter)
        manifest = _prepare(run, sources, unit_bytes or choose_unit_bytes(sources), overwrite=overwrite)
    shutil.rmtree(scratch, ignore_errors=True)
    return manifest


def _prepare(run: _Run, sources: Sequence[Source], unit_bytes: int, *, overwrite: bool) -> Manifest:
    before = _read_finished(run, overwrite=overwrite)
    if before is not None:
        _refuse_other_sources(before, sources, run)
    surveys = survey_sources(
        sources, run.scratch, run.settings, unit_bytes=unit_bytes, workers=run.workers, reporter=run.reporter
    )
    if before is not None and _is_same(before, surveys, run.reporter):
        run.reporter.say(f"{run.out}: is prepared already, and nothing has changed")
        return before
    _say_layouts(surveys, run.reporter)
    (run.out / MANIFEST_NAME).unlink(missing_ok=True)
    save_tokenizer(run.tokenizer, run.out / VOCAB_DIR)
    tasks = [
        UnitTask(unit, run.settings, str(run.out), str(run.scratch), run.tokenizer.fingerprint)
        for unit in build_units(surveys, unit_bytes=unit_bytes)
    ]
    records = _write(run, _mark_duplicates(run, _hash(run, tasks)))
    manifest = _build_manifest(run, surveys, records)
    _drop_strangers(run.out, manifest)
    write_manifest(run.out, manifest)
    return manifest


def _check_settings(settings: PrepareSettings, num_workers: int) -> None:
    find_rules(settings.language)  # refuses a language without rules
    if settings.layout is not None and settings.layout not in LAYOUTS:
        raise InputError(f"layout {settings.layout!r} is unknown; one of {', '.join(LAYOUTS)}")
    if num_workers < 1:
        raise InputError(f"{num_workers} workers are too few; at least 1")
    if settings.min_duplicate_characters < 1:
        raise InputError(
            f"min_duplicate_characters {settings.min_duplicate_characters} is too small; at least 1"
        )


def _is_whole(path: Path, shard: ShardEntry) -> bool:
    """Whether a shard is there and is what the manifest says."""
    if not path.is_file() or path.stat().st_size != shard.num_bytes:
        return False
    return hash_shard(path) == shard.sha256


def _refuse_other_sources(before: Manifest, sources: Sequence[Source], run: _Run) -> None:
    """More sources, or changed ones, are another state of the same corpus; fewer are another corpus."""
    names = {source.name for source in sources}
    missing = [entry.name for entry in before.sources if entry.name not in names]
    if missing:
        shutil.rmtree(run.scratch, ignore_errors=True)
        raise InputError(
            f"{run.out}: holds a corpus of other sources ({missing[0]} is not among these); choose another "
            "--out, or add --overwrite"
        )


def _read_finished(run: _Run, *, overwrite: bool) -> Manifest | None:
    """The manifest of a corpus that is finished already, if it was made with these settings."""
    if not (run.out / MANIFEST_NAME).exists():
        return None
    manifest = read_manifest(run.out)
    if overwrite:
        return None
    if manifest.vocabulary == run.tokenizer.fingerprint and manifest.settings == run.settings.model_dump():
        return manifest if all(_is_whole(run.out / shard.name, shard) for shard in manifest.shards) else None
    if not overwrite:
        is_vocabulary = manifest.vocabulary != run.tokenizer.fingerprint
        what = "another vocabulary" if is_vocabulary else "other settings"
        raise InputError(f"{run.out}: holds a corpus of {what}; choose another --out, or add --overwrite")
    return None


def _is_same(before: Manifest, surveys: Sequence[SourceSurvey], reporter: Reporter) -> bool:
    sources = tuple(map(_describe_source, surveys))
    old, new = ({entry.name: entry for entry in entries} for entries in (before.sources, sources))
    for name in old.keys() | new.keys():
        if name not in old:
            reporter.say(f"{name}: is new")
        elif old[name] != new[name]:
            reporter.say(f"{name}: changed since the corpus was prepared")
    return before.sources == sources


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
    function: Callable[[UnitTask], int],
    tasks: Sequence[UnitTask],
    is_done: Callable[[UnitTask], bool],
) -> None:
    """Do what is not done yet."""
    waiting = [task for task in tasks if not is_done(task)]
    total = sum(task.unit.num_bytes for task in tasks)
    kept = total - sum(task.unit.num_bytes for task in waiting)
    if kept:
        run.reporter.say(f"{stage}: {len(tasks) - len(waiting)} of {len(tasks)} units were done before")
    meter = Meter(run.reporter, stage, total=total, done=kept)
    for num_bytes in run.workers.run(function, waiting):
        meter.advance(num_bytes)


def _hash(run: _Run, tasks: Sequence[UnitTask]) -> list[UnitTask]:
    settings = run.settings
    keyed = [
        replace(
            task,
            key=build_key(describe_unit(task.unit), settings.text_key, settings.min_duplicate_characters),
        )
        for task in tasks
    ]

    _run_pass(run, "reading", hash_unit, keyed, lambda task: read_hash_record(task) is not None)
    records = [read_hash_record(task) for task in keyed]
    assert all(record is not None for record in records), (
        "a unit was hashed and its record does not read back"
    )
    return [
        replace(task, dropped=record.dropped) for task, record in zip(keyed, records, strict=True) if record
    ]


def _mark_duplicates(run: _Run, tasks: Iterable[UnitTask]) -> list[UnitTask]:
    """Write each unit's flags, and give it a key that knows them: other duplicates are another shard."""
    seen = {"documents": SeenHashes(), "paragraphs": SeenHashes()}
    keyed: list[UnitTask] = []
    for task in tasks:
        marks = hashlib.sha256()
        for kind, hashes in seen.items():
            flags = hashes.mark(np.fromfile(task.scratch_path(kind, ".bin"), dtype=np.uint64))
            flags.tofile(task.scratch_path(f"{kind}-flags", ".bin"))
            marks.update(flags.tobytes() + b"|")
        key = build_key(task.key, run.tokenizer.fingerprint, run.settings.model_dump(), marks.hexdigest())
        keyed.append(replace(task, key=key))
    return keyed


def _write(run: _Run, tasks: Sequence[UnitTask]) -> list[UnitRecord]:
    _run_pass(run, "writing", write_unit, tasks, lambda task: read_unit_record(task) is not None)
    records = [read_unit_record(task) for task in tasks]
    assert all(record is not None for record in records)
    return [record for record in records if record is not None]


def _describe_source(survey: SourceSurvey) -> SourceEntry:
    return SourceEntry(
        name=survey.name,
        num_bytes=survey.num_bytes,
        sha256=survey.sha256,
        layout=survey.layout,
        skipped=survey.skipped,
    )


def _build_manifest(run: _Run, surveys: Sequence[SourceSurvey], records: Sequence[UnitRecord]) -> Manifest:
    dropped = Counter(_SKIPPED[survey.skipped] for survey in surveys if survey.skipped)
    for record in records:
        dropped.update(record.dropped)
    if not any(record.num_documents for record in records):
        skipped = (
            ", ".join(f"{number} {kind}" for kind, number in sorted(dropped.items())) or "nothing was dropped"
        )
        names = ", ".join(survey.path for survey in surveys[:3]) + (" …" if len(surveys) > 3 else "")
        raise InputError(f"{names}: no text was found ({skipped}); give other sources")
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
        sources=tuple(map(_describe_source, surveys)),
        shards=tuple(shard for record in records for shard in record.shards),
    )


def _drop_strangers(out: Path, manifest: Manifest) -> None:
    """Remove what an earlier run left among the shards."""
    names = {shard.name for shard in manifest.shards}
    for file in (out / SHARDS_DIR).iterdir():
        if f"{SHARDS_DIR}/{file.name}" not in names:
            file.unlink()
