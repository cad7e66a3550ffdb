"""What an earlier run left in its scratch folder comes in; what of it still holds goes out."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from albert.corpus.manifest import MANIFEST_NAME
from albert.corpus.sources import Source
from albert.corpus.survey import SourceSurvey, SurveyTask, measure_source, survey_source
from albert.corpus.units import (
    SHARDS_DIR,
    VOCAB_DIR,
    HashRecord,
    PrepareSettings,
    UnitRecord,
    UnitTask,
    hash_shard,
)
from albert.corpus.workers import Workers
from albert.errors import AlbertError, InputError
from albert.files import read_json, write_json
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


def choose_scratch(out: Path) -> Path:
    """The scratch folder of a corpus folder, made if need be; a folder of something else is refused."""
    scratch = out / SCRATCH_NAME
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is a file, and a folder is to be written there; choose another --out")
    is_ours = scratch.exists() or (out / MANIFEST_NAME).exists()
    if out.exists() and not is_ours and any(out.iterdir()):
        raise InputError(f"{out}: holds files that are no prepared corpus; choose an empty folder for --out")
    scratch.mkdir(parents=True, exist_ok=True)
    for folder in (out, scratch, out / SHARDS_DIR, out / VOCAB_DIR):
        for file in folder.glob(".*.*"):  # what a killed run was writing
            if file.is_file():
                file.unlink()
    return scratch


def read_record(cls: type[S], path: Path) -> S | None:
    """A record, or nothing where there is none or only a broken one."""
    if not path.exists():
        return None
    try:
        return build_settings(cls, values=read_json(path), source=str(path))
    except (AlbertError, AttributeError, TypeError):
        return None


def read_hash_record(task: UnitTask) -> HashRecord | None:
    """The record of a unit whose hashes and text are there and made from what the task says."""
    record = read_record(HashRecord, task.scratch_path("hashes", ".json"))
    text_path = task.scratch_path("text", ".zst")
    if record is None or record.key != task.key or not text_path.exists():
        return None
    return record if text_path.stat().st_size == record.num_text_bytes else None


def read_unit_record(task: UnitTask) -> UnitRecord | None:
    """The record of a unit whose shards are there, whole, and made from what the task says."""
    record = read_record(UnitRecord, task.scratch_path("unit", ".json"))
    if record is None or record.key != task.key:
        return None
    for shard in record.shards:
        path = Path(task.out) / shard.name
        if not path.exists() or path.stat().st_size != shard.num_bytes or hash_shard(path) != shard.sha256:
            return None
    return record


def survey_sources(
    sources: Sequence[Source],
    scratch: Path,
    settings: PrepareSettings,
    *,
    unit_bytes: int,
    workers: Workers,
    reporter: Reporter,
) -> list[SourceSurvey]:
    """A survey of each source: the earlier one while size and time of change are the same, else a new one."""
    path = scratch / _SURVEY_NAME
    before = read_record(SurveyFile, path)
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
    fresh = {survey.path: survey for survey in workers.run(survey_source, tasks)}
    for name, survey in sorted(fresh.items()):
        if name in earlier and earlier[name].sha256 != survey.sha256:
            reporter.say(f"{name}: changed since the last run; done again")
    surveys = [fresh.get(source.path) or earlier[source.path] for source in sources]
    content = SurveyFile(
        text_key=settings.text_key, layout=settings.layout, unit_bytes=unit_bytes, surveys=tuple(surveys)
    )
    write_json(path, content.model_dump(mode="json"))
    return surveys


def find_survey(source: Source, earlier: dict[str, SourceSurvey]) -> SourceSurvey | None:
    """The earlier survey of a source whose file has not been touched since."""
    found = earlier.get(source.path)
    if found is None or found.name != source.name or source.kind == "dataset":
        return None
    return found if measure_source(source) == (found.num_bytes, found.modified_ns) else None
