"""A source comes in; what is known before it is read goes out: size, hash, layout, and where to cut it."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from albert.data.cleaning import find_running_heads, looks_binary
from albert.data.decompress import is_compressed, read_head
from albert.data.layouts import Layout, choose_layout
from albert.data.readers import ReadOptions, Slice, read_sample
from albert.data.remote import measure, open_binary
from albert.data.sources import Source
from albert.data.tables import count_row_groups, describe_dataset
from albert.errors import FileFormatError
from albert.settings import Settings

# A unit of work: small enough for many workers, large enough that a corpus is hundreds of shards at most.
MIN_UNIT_BYTES = 1 << 23
MAX_UNITS = 500
_LOOK_AHEAD = 1 << 20
_BLANK = re.compile(rb"\n[ \t\r]*\n")


class SourceSurvey(Settings):
    """What was found; `cuts` are the borders of its slices, `skipped` says why it is not read, if so."""

    name: str
    path: str
    kind: str
    num_bytes: int
    modified_ns: int
    sha256: str
    layout: str = ""
    width: int = 0
    is_indented: bool = False
    heads: tuple[str, ...] = ()
    cuts: tuple[int, ...] = ()
    skipped: str = ""

    @property
    def source(self) -> Source:
        """The source that was surveyed."""
        return Source(self.name, self.path, self.kind)


@dataclass(frozen=True)
class Unit:
    """What one worker does in one go: slices of one or of several sources."""

    index: int
    slices: tuple[Slice, ...]

    @property
    def num_bytes(self) -> int:
        """Its share of the work."""
        return sum(part.num_bytes for part in self.slices)


@dataclass(frozen=True)
class SurveyTask:
    """A source to survey, with the settings that matter for it."""

    source: Source
    text_key: str
    layout: str | None
    unit_bytes: int
    keeps_long_tokens: bool = False


def measure_source(source: Source, *, is_fresh: bool = False) -> tuple[int, int]:
    """Bytes and time of change of a file; of a dataset, nothing that is known without loading it.

    `is_fresh` asks a store again about what its listing said.
    """
    if source.kind == "dataset":
        return 0, 0
    try:
        return measure(source.path, is_fresh=is_fresh)
    except OSError as error:
        raise FileFormatError(f"{source.path}: {error.strerror}; check the path, or leave it out") from error


def choose_unit_bytes(sources: Iterable[Source]) -> int:
    """How large a unit of work is: it depends on the sources alone, never on the workers."""
    total = sum(measure_source(source)[0] for source in sources)
    return max(MIN_UNIT_BYTES, total // MAX_UNITS)


def survey_source(task: SurveyTask) -> SourceSurvey:
    """Read a source's first part to know its layout, and all its bytes for the hash."""
    source = task.source
    num_bytes, modified_ns = measure_source(source)
    if source.kind == "dataset":
        num_rows, num_bytes, sha256 = describe_dataset(source)
    else:
        num_rows, sha256 = 0, _hash_source(source.path)
    known = SourceSurvey(
        name=source.name,
        path=source.path,
        kind=source.kind,
        num_bytes=num_bytes,
        modified_ns=modified_ns,
        sha256=sha256,
    )
    if num_bytes == 0:
        return known.model_copy(update={"skipped": "empty"})
    if source.kind in ("txt", "jsonl") and looks_binary(read_head(source.path)):
        return known.model_copy(update={"skipped": "binary"})
    sample = read_sample(source, ReadOptions(task.text_key, keeps_long_tokens=task.keeps_long_tokens))
    layout = choose_layout(task.layout, sample)
    return known.model_copy(
        update={
            "layout": layout.name,
            "width": layout.width,
            "is_indented": layout.is_indented,
            "heads": find_running_heads(sample) if source.kind == "txt" else (),
            "cuts": _find_cuts(source, layout, num_bytes, num_rows, task.unit_bytes),
        }
    )


def _hash_source(path: str) -> str:
    digest = hashlib.sha256()
    try:
        with open_binary(path) as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise FileFormatError(f"{path}: {error.strerror}; make it readable, or leave it out") from error
    return digest.hexdigest()


def _find_cuts(
    source: Source, layout: Layout, num_bytes: int, num_rows: int, unit_bytes: int
) -> tuple[int, ...]:
    num_slices = max(1, min(num_bytes // unit_bytes, MAX_UNITS))  # of a dataset, the size is known only now
    if is_compressed(source.path):
        return 0, num_bytes
    if source.kind in ("txt", "jsonl"):
        is_loose = source.kind == "txt" and layout.name != "dense"
        return _find_line_cuts(source.path, num_bytes, num_slices, blank=is_loose)
    last = count_row_groups(source) if source.kind == "parquet" else num_rows
    return tuple(sorted({last * k // num_slices for k in range(num_slices + 1)}))


def _find_line_cuts(path: str, num_bytes: int, num_slices: int, *, blank: bool) -> tuple[int, ...]:
    cuts = {0, num_bytes}
    with open_binary(path) as file:
        if not file.seekable():  # of a web server that sends from the beginning only
            return 0, num_bytes
        for k in range(1, num_slices):
            file.seek(num_bytes * k // num_slices)
            place = file.tell()
            window = file.read(_LOOK_AHEAD)
            found = _BLANK.search(window) if blank else None
            if (
                found is None and b"\n" not in window
            ):  # in the midst of a very long line: its end is the border
                continue
            cuts.add(place + (found.end() if found else window.index(b"\n") + 1))
    return tuple(sorted(cuts))


def build_units(surveys: Sequence[SourceSurvey], *, unit_bytes: int) -> list[Unit]:
    """The units of work in source order: large sources in slices, small ones together."""
    units: list[Unit] = []
    gathered: list[Slice] = []
    num_bytes = 0
    for part in (part for survey in surveys for part in _build_slices(survey)):
        if gathered and num_bytes + part.num_bytes > unit_bytes:
            units.append(Unit(len(units), tuple(gathered)))
            gathered, num_bytes = [], 0
        gathered.append(part)
        num_bytes += part.num_bytes
    return [*units, Unit(len(units), tuple(gathered))] if gathered else units


def _build_slices(survey: SourceSurvey) -> list[Slice]:
    if survey.skipped:
        return []
    layout = Layout(survey.layout, survey.width, is_indented=survey.is_indented)
    whole = max(survey.cuts[-1] - survey.cuts[0], 1)
    return [
        Slice(
            survey.source,
            layout,
            start,
            end,
            num_bytes=survey.num_bytes * (end - start) // whole,
            heads=survey.heads,
            sha256=survey.sha256,
            modified_ns=survey.modified_ns,
        )
        for start, end in zip(survey.cuts, survey.cuts[1:], strict=False)
    ]
