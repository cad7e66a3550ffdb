"""What an earlier run left in its scratch folder comes in; what of it still holds goes out."""

import time
from collections.abc import Iterable, Sequence
from typing import TypeVar

from albert.data.manifest import MANIFEST_NAME, SHARDS_DIR
from albert.data.progress import Meter
from albert.data.sources import Source
from albert.data.storage import Storage, open_storage, put_json
from albert.data.survey import SourceSurvey, SurveyTask, measure_source, survey_source
from albert.data.units import PREPARE_VERSION, HashRecord, UnitRecord, UnitTask
from albert.data.vocabulary import VOCAB_DIR
from albert.data.workers import Engine
from albert.errors import AlbertError, InputError
from albert.files import read_json
from albert.reporting import Reporter
from albert.settings import Settings, build_settings

SCRATCH_NAME = ".prepare"
_SURVEY_NAME = "survey.json"
_SECONDS_BETWEEN_SAVES = 30.0
_SOON_READ = 1 << 26  # bytes, of whose reading nothing need be said
S = TypeVar("S", bound=Settings)


class SurveyFile(Settings):
    """The surveys of a run, with the settings that they depend on."""

    version: int = 1
    text_key: str
    layout: str | None
    unit_bytes: int
    keeps_long_tokens: bool = False
    surveys: tuple[SourceSurvey, ...]

    def fits(self, task: SurveyTask) -> bool:
        """Whether what was found holds for a task, too, if its source is still the same."""
        mine = (self.version, self.text_key, self.layout, self.unit_bytes, self.keeps_long_tokens)
        asked = (task.text_key, task.layout, task.unit_bytes, task.keeps_long_tokens)
        return mine == (PREPARE_VERSION, *asked)


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
    tasks: Sequence[SurveyTask], scratch: Storage, *, engine: Engine, reporter: Reporter
) -> list[SourceSurvey]:
    """A survey of each source: the earlier one while size and time of change are the same, else a new one.

    All tasks have the same settings. What is found is kept every now and then: a survey reads every byte.
    """
    before = read_record(SurveyFile, scratch, _SURVEY_NAME)
    earlier = {survey.path: survey for survey in before.surveys} if before is not None else {}
    fits = before is not None and before.fits(tasks[0])
    kept = {
        task.source.path: survey
        for task in tasks
        if fits and (survey := find_survey(task.source, earlier)) is not None
    }
    # A file may be named twice, by itself and by its folder: it is looked at once.
    waiting = list({task.source.path: task for task in tasks if task.source.path not in kept}.values())
    sizes = {task.source.path: measure_source(task.source)[0] for task in tasks}
    done, total = sum(sizes[path] for path in kept), sum(sizes.values())
    is_long = total - done > _SOON_READ
    meter = Meter(reporter, "looking", total=total, done=done) if is_long else None
    found, saved = dict(kept), time.monotonic()
    for task, fresh in engine.run(survey_source, waiting):
        path = task.source.path
        found[path] = fresh
        if path in earlier and earlier[path].sha256 != fresh.sha256:
            reporter.say(f"{path}: changed since the last run; done again")
        if meter is not None:
            meter.advance(sizes[path])
        if time.monotonic() - saved > _SECONDS_BETWEEN_SAVES:
            # What other settings gave would be taken for what these give.
            _save_surveys(scratch, tasks[0], ({**earlier, **found} if fits else found).values())
            saved = time.monotonic()
    surveys = [found[task.source.path].model_copy(update={"name": task.source.name}) for task in tasks]
    _save_surveys(scratch, tasks[0], surveys)
    return surveys


def _save_surveys(scratch: Storage, task: SurveyTask, surveys: Iterable[SourceSurvey]) -> None:
    content = SurveyFile(
        version=PREPARE_VERSION,
        text_key=task.text_key,
        layout=task.layout,
        unit_bytes=task.unit_bytes,
        keeps_long_tokens=task.keeps_long_tokens,
        surveys=tuple(surveys),
    )
    put_json(scratch, _SURVEY_NAME, content.model_dump(mode="json"))


def find_survey(source: Source, earlier: dict[str, SourceSurvey]) -> SourceSurvey | None:
    """The earlier survey of a source whose file has not been touched since."""
    found = earlier.get(source.path)
    if found is None or source.kind == "dataset":
        return None
    return found if measure_source(source) == (found.num_bytes, found.modified_ns) else None
