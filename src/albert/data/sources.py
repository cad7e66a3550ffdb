"""Find the sources of text behind paths, URLs and names, survey them, and cut them into units of work.

The order of sources and the borders of units depend on the sources alone, never on the workers.
"""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path, PurePath

from albert.data.cleaning import find_running_heads, looks_binary
from albert.data.documents import (
    ReadOptions,
    Slice,
    Source,
    describe_dataset,
    iter_documents,
    read_sample,
)
from albert.data.layouts import Layout, choose_layout
from albert.data.paths import (
    OPENERS,
    PathOrUrl,
    is_compressed,
    is_url,
    list_files,
    measure,
    open_binary,
    read_head,
    to_name,
    to_path,
)
from albert.data.rows import open_parquet
from albert.errors import FileFormatError, InputError
from albert.settings import Settings

KINDS = {".txt": "txt", ".jsonl": "jsonl", ".parquet": "parquet"}
DATASET_PREFIX = "hf:"
# A unit of work: small enough for many workers, large enough that a corpus has a few hundred shards at most.
MIN_UNIT_BYTES = 1 << 23
MAX_UNITS = 500
_READ = "albert reads .txt, .jsonl and .parquet, plain or as .gz, .zst or .xz"
_LOOK_AHEAD = 1 << 20
_BLANK = re.compile(rb"\n[ \t\r]*\n")


def find_sources(paths: Iterable[PathOrUrl], *, leaving_out: PathOrUrl | None = None) -> list[Source]:
    """Find the sources of files, folders (searched recursively, sorted) and `hf:NAME[@CONFIG][:SPLIT]`.

    A URL is a file if its name has a suffix that is read, and a folder otherwise. What is in the folder
    `leaving_out`, where the corpus is written, is not a source.
    """
    names = [str(path) for path in paths]
    found = [source for name in names for source in _find(name)]
    is_excluded = _exclude(leaving_out)
    sources = [each for each in found if each.kind == "dataset" or not is_excluded(each.path)]
    if found and not sources:
        raise InputError(f"{leaving_out}: all that is to be read lies in it; choose another --out")
    if not sources:
        raise InputError(f"{', '.join(names) or 'no path'}: nothing to read there; {_READ}")
    for source in sources:
        if source.path.encode(errors="replace").decode() != source.path:
            raise InputError(f"{source.path!a}: its name is not in UTF-8; rename it")
    return sources


def find_ignored(paths: Iterable[PathOrUrl], *, leaving_out: PathOrUrl | None = None) -> Counter[str]:
    """Count the files of other kinds in the folders, by suffix."""
    is_excluded = _exclude(leaving_out)
    files = [
        to_name(file)
        for path in paths
        if _is_folder(path)
        for _, file in _iter_folder(path)
        if not is_excluded(file)
    ]
    return Counter(file.suffix or file.name for file in files if _find_kind(file) is None)


def iter_plain_texts(
    paths: Sequence[str],
    *,
    text_key: str = "text",
    layout: str | None = None,
    keeps_long_tokens: bool = False,
    warn: Callable[[str], None],
) -> Iterator[str]:
    """Yield the cleaned paragraphs of all sources, to train a vocabulary on; binary files are skipped."""
    for source in find_sources(paths):
        if source.kind in ("txt", "jsonl") and looks_binary(read_head(source.path)):
            warn(f"{source.name}: binary, left out")
            continue
        documents = iter_documents(
            source, text_key=text_key, layout=layout, keeps_long_tokens=keeps_long_tokens
        )
        for document in documents:
            yield from document.paragraphs


def _exclude(folder: PathOrUrl | None) -> Callable[[str], bool]:
    """Return a function that tells whether a file is in a folder, links followed."""
    if folder is None:
        return lambda path: False
    if is_url(folder):
        prefix = str(folder).rstrip("/") + "/"
        return lambda path: path.startswith(prefix)
    top = to_path(folder).resolve()
    is_inside = cache(lambda parent: parent.resolve().is_relative_to(top))  # folders have many files
    return lambda path: not is_url(path) and bool(is_inside(Path(path).parent))


def _find_kind(path: PurePath) -> str | None:
    suffixes = path.suffixes
    if suffixes and suffixes[-1] in OPENERS:
        suffixes = suffixes[:-1]
    return KINDS.get(suffixes[-1]) if suffixes else None


def _find(name: str) -> list[Source]:
    if name.startswith(DATASET_PREFIX) and not is_url(name):
        return [Source(name, name.removeprefix(DATASET_PREFIX), "dataset")]
    if _is_folder(name):
        found = list(_iter_folder(name))
        if not found and is_url(name):
            raise InputError(
                f"{name.rstrip('/')}: no such folder, or nothing in it; check the address. {_READ}"
            )
        kinds = [_find_kind(to_name(path)) for _, path in found]
        return [Source(*each, kind) for each, kind in zip(found, kinds, strict=True) if kind is not None]
    path = name.rstrip("/") if is_url(name) else str(to_path(name))
    if not is_url(name) and not Path(path).exists():
        raise InputError(f"{name}: no such file or folder; check the path (a dataset's name begins with hf:)")
    kind = _find_kind(to_name(path))
    if kind is None:
        raise InputError(f"{name}: a kind of file that is not read; {_READ}")
    return [Source(to_name(path).name, path, kind)]


def _is_folder(path: PathOrUrl) -> bool:
    return _find_kind(to_name(str(path).rstrip("/"))) is None if is_url(path) else to_path(path).is_dir()


def _iter_folder(folder: PathOrUrl) -> Iterator[tuple[str, str]]:
    """Yield the name of each file, which begins with the folder's name, and its path."""
    if is_url(folder):
        url = str(folder).rstrip("/")
        yield from ((f"{to_name(url).name}/{name}", f"{url}/{name}") for name in list_files(url))
        return

    def fail(error: OSError) -> None:
        raise InputError(f"{error.filename}: {error.strerror}; make the folder readable, or leave it out")

    top = to_path(folder)
    seen: set[tuple[int, int]] = set()
    for place, folders, files in os.walk(top, onerror=fail, followlinks=True):
        status = os.stat(place)
        if (status.st_dev, status.st_ino) in seen:  # a link that leads back
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for file in (Path(place) / name for name in sorted(files) if not name.startswith(".")):
            yield f"{top.resolve().name}/{file.relative_to(top).as_posix()}", str(file)


class SourceSurvey(Settings):
    """What is known of a source before it is read.

    `cuts` are the borders of its slices; `skipped` is the reason why it is not read, if so.
    """

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

    def build_slices(self) -> list[Slice]:
        """Return the slices of the source, in order."""
        if self.skipped:
            return []
        source = Source(self.name, self.path, self.kind)
        layout = Layout(self.layout, self.width, is_indented=self.is_indented)
        whole = max(self.cuts[-1] - self.cuts[0], 1)
        return [
            Slice(
                source,
                layout,
                start,
                end,
                num_bytes=self.num_bytes * (end - start) // whole,
                heads=self.heads,
                sha256=self.sha256,
                modified_ns=self.modified_ns,
            )
            for start, end in zip(self.cuts, self.cuts[1:], strict=False)
        ]


@dataclass(frozen=True)
class SurveyTask:
    """A source to survey, with the settings that matter for it."""

    source: Source
    text_key: str
    layout: str | None
    unit_bytes: int
    keeps_long_tokens: bool = False


@dataclass(frozen=True)
class Unit:
    """What one worker does in one task: slices of one or of several sources."""

    index: int
    slices: tuple[Slice, ...]

    @property
    def num_bytes(self) -> int:
        """The unit's share of the work."""
        return sum(part.num_bytes for part in self.slices)


def measure_source(source: Source, *, is_fresh: bool = False) -> tuple[int, int]:
    """Return the size of a file and a number that changes with it; zeros for a dataset."""
    if source.kind == "dataset":
        return 0, 0
    try:
        return measure(source.path, is_fresh=is_fresh)
    except OSError as error:
        raise FileFormatError(f"{source.path}: {error.strerror}; check the path, or leave it out") from error


def choose_unit_bytes(sources: Iterable[Source]) -> int:
    """Choose how large a unit of work is, by the total size of the sources."""
    return max(MIN_UNIT_BYTES, sum(measure_source(source)[0] for source in sources) // MAX_UNITS)


def survey_source(task: SurveyTask) -> SourceSurvey:
    """Read the beginning of a source to detect its layout, and all of it for the hash."""
    source = task.source
    num_bytes, modified_ns = measure_source(source)
    if source.kind == "dataset":
        num_rows, num_bytes, sha256 = describe_dataset(source)
    else:
        num_rows, sha256 = 0, _hash_source(source.path)
    known = {**asdict(source), "num_bytes": num_bytes, "modified_ns": modified_ns, "sha256": sha256}
    if num_bytes == 0:
        return SourceSurvey(**known, skipped="empty")
    if source.kind in ("txt", "jsonl") and looks_binary(read_head(source.path)):
        return SourceSurvey(**known, skipped="binary")
    sample = read_sample(source, ReadOptions(task.text_key, keeps_long_tokens=task.keeps_long_tokens))
    layout = choose_layout(task.layout, sample)
    return SourceSurvey(
        **known,
        layout=layout.name,
        width=layout.width,
        is_indented=layout.is_indented,
        heads=find_running_heads(sample) if source.kind == "txt" else (),
        cuts=_find_cuts(source, layout, num_bytes, num_rows, task.unit_bytes),
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
    num_slices = max(1, min(num_bytes // unit_bytes, MAX_UNITS))  # the size of a dataset is known only now
    if is_compressed(source.path):
        return 0, num_bytes
    if source.kind in ("txt", "jsonl"):
        is_loose = source.kind == "txt" and layout.name != "dense"
        return _find_line_cuts(source.path, num_bytes, num_slices, blank=is_loose)
    last = num_rows
    if source.kind == "parquet":
        with open_parquet(source.path) as file:
            last = int(file.num_row_groups)
    return tuple(sorted({last * k // num_slices for k in range(num_slices + 1)}))


def _find_line_cuts(path: str, num_bytes: int, num_slices: int, *, blank: bool) -> tuple[int, ...]:
    cuts = {0, num_bytes}
    with open_binary(path) as file:
        if not file.seekable():  # a web server that sends from the beginning only
            return 0, num_bytes
        for k in range(1, num_slices):
            place = file.seek(num_bytes * k // num_slices)
            window = file.read(_LOOK_AHEAD)
            found = _BLANK.search(window) if blank else None
            if found is not None or b"\n" in window:  # else inside a very long line, whose end is a border
                cuts.add(place + (found.end() if found else window.index(b"\n") + 1))
    return tuple(sorted(cuts))


def build_units(surveys: Sequence[SourceSurvey], *, unit_bytes: int) -> list[Unit]:
    """Build the units of work in source order: large sources in slices, small ones together."""
    units: list[Unit] = []
    gathered: list[Slice] = []
    num_bytes = 0
    for part in (part for survey in surveys for part in survey.build_slices()):
        if gathered and num_bytes + part.num_bytes > unit_bytes:
            units.append(Unit(len(units), tuple(gathered)))
            gathered, num_bytes = [], 0
        gathered.append(part)
        num_bytes += part.num_bytes
    return [*units, Unit(len(units), tuple(gathered))] if gathered else units
