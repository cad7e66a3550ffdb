"""What an earlier run left in its scratch folder comes in; what of it still holds goes out."""

from collections.abc import Sequence
from typing import TypeVar

from albert.corpus.manifest import MANIFEST_NAME
from albert.corpus.sources import Source
from albert.corpus.storage import Storage, open_storage, put_json
from albert.corpus.survey import SourceSurvey, SurveyTask, measure_source, survey_source
from albert.corpus.units import (
    SHARDS_DIR,
    HashRecord,
    PrepareSettings,
    UnitRecord,
    UnitTask,
)
from albert.corpus.vocabulary import VOCAB_DIR
from albert.corpus.workers import Engine
from albert.errors import AlbertError, InputError
from albert.files import read_json
from albert.reporting import Reporter
from albert.settings import Settings, build_settings

SCRATCH_NAME = ".prepare"
_SURVEY_NAME = "survey.json"
S = TypeVar("S", bound=Settings)


class SurveyFile(Settings):
    """The surveys of a run, with the settings that they depend on."""

    text_key: str
    layout: str | None
    unit_bytes: int
    surveys: tuple[SourceSurvey, ...]


def choose_scratch(out: Storage) -> Storage:
    """The scratch folder of a corpus folder; a folder of something else is refused."""
    found = out.list_names()
    if found and not {SCRATCH_NAME, MANIFEST_NAME} & set(found):
        raise InputError(
            f"{out.place}: holds files that are no prepared corpus; choose an empty folder for --out"
        )
    return out.below(SCRATCH_NAME)


def sweep(out: Storage) -> None:
    """Remove what a run that was killed was writing; called by the one run that may write there."""
    for folder in (out, out.below(SCRATCH_NAME), out.below(SHARDS_DIR), out.below(VOCAB_DIR)):
        folder.sweep()


def read_record(cls: type[S], store: Storage, name: str) -> S | None:
    """A record, or nothing where there is none or only a broken one."""
    if store.find_size(name) is None:
        return None
    try:
        with store.reading(name) as path:
            return build_settings(cls, values=read_json(path), source=f"{store.place}/{name}")
    except (AlbertError, AttributeError, TypeError):
        return None


def read_hash_record(task: UnitTask) -> HashRecord | None:
    """The record of a unit whose hashes and text are there and made from what the task says."""
    scratch = open_storage(task.scratch)
    record = read_record(HashRecord, scratch, task.name("hashes", ".json"))
    if record is None or record.key != task.key:
        return None
    return record if scratch.find_size(task.name("text", ".zst")) == record.num_text_bytes else None


def read_unit_record(task: UnitTask) -> UnitRecord | None:
    """The record of a unit whose shards are there, whole, and made from what the task says."""
    record = read_record(UnitRecord, open_storage(task.scratch), task.name("unit", ".json"))
    if record is None or record.key != task.key:
        return None
    out = open_storage(task.out)
    are_whole = (
        out.is_whole(shard.name, num_bytes=shard.num_bytes, sha256=shard.sha256) for shard in record.shards
    )
    return record if all(are_whole) else None


def survey_sources(
    sources: Sequence[Source],
    scratch: Storage,
    settings: PrepareSettings,
    *,
    unit_bytes: int,
    engine: Engine,
    reporter: Reporter,
) -> list[SourceSurvey]:
    """A survey of each source: the earlier one while size and time of change are the same, else a new one."""
    before = read_record(SurveyFile, scratch, _SURVEY_NAME)
    fits = before is not None and (before.text_key, before.layout, before.unit_bytes) == (
        settings.text_key,
        settings.layout,
        unit_bytes,
    )
    earlier = {survey.path: survey for survey in before.surveys} if before is not None else {}
    kept = {source: find_survey(source, earlier) for source in sources} if fits else {}
    tasks = [
        SurveyTask(source, settings.text_key, settings.layout, unit_bytes)
        for source in sources
        if kept.get(source) is None
    ]
    fresh = {survey.path: survey for _, survey in engine.run(survey_source, tasks)}
    for name, survey in sorted(fresh.items()):
        if name in earlier and earlier[name].sha256 != survey.sha256:
            reporter.say(f"{name}: changed since the last run; done again")
    surveys = [fresh.get(source.path) or earlier[source.path] for source in sources]
    content = SurveyFile(
        text_key=settings.text_key, layout=settings.layout, unit_bytes=unit_bytes, surveys=tuple(surveys)
    )
    put_json(scratch, _SURVEY_NAME, content.model_dump(mode="json"))
    return surveys


def find_survey(source: Source, earlier: dict[str, SourceSurvey]) -> SourceSurvey | None:
    """The earlier survey of a source whose file has not been touched since."""
    found = earlier.get(source.path)
    if found is None or found.name != source.name or source.kind == "dataset":
        return None
    return found if measure_source(source) == (found.num_bytes, found.modified_ns) else None
