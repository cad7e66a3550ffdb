"""Paths, URLs and names come in, the sources of text behind them go out, in an order that never changes."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from albert.data.decompress import OPENERS
from albert.data.remote import Place, is_url, list_files, to_name, to_path
from albert.errors import InputError

KINDS = {".txt": "txt", ".jsonl": "jsonl", ".parquet": "parquet"}
DATASET_PREFIX = "hf:"
_READ = "albert reads .txt, .jsonl and .parquet, plain or as .gz, .zst or .xz"


@dataclass(frozen=True)
class Source:
    """One file or dataset: its name in messages, where it lies, and what kind of content it has."""

    name: str
    path: str
    kind: str


def find_sources(paths: Iterable[Place], *, leaving_out: Place | None = None) -> list[Source]:
    """The sources of files, folders (searched to the bottom, in sorted order) and `hf:NAME[@CONFIG][:SPLIT]`.

    A URL is a file where its name is one that is read, and a folder otherwise. What lies in the folder
    `leaving_out`, to which the corpus is written, is no source. Refused: what does not exist, a file of
    another kind, a name that cannot be written down, and folders without a single file to read.
    """
    names = [str(path) for path in paths]
    found = [source for name in names for source in _find(name)]
    lies_in = _Folder(leaving_out).has
    sources = [each for each in found if each.kind == "dataset" or not lies_in(each.path)]
    if found and not sources:
        raise InputError(f"{leaving_out}: all that is to be read lies in it; choose another --out")
    for source in sources:
        _refuse_odd_name(source.path)
    if not sources:
        raise InputError(f"{', '.join(names) or 'no path'}: nothing to read there; {_READ}")
    return sources


class _Folder:
    """What lies in a place, links followed; of many files in a folder, the folder is looked up once."""

    def __init__(self, place: Place | None) -> None:
        self._place = place
        self._top = None if place is None or is_url(place) else to_path(place).resolve()
        self._known: dict[Path, bool] = {}

    def has(self, path: str) -> bool:
        if self._place is None or is_url(path) != is_url(self._place):
            return False
        if self._top is None:
            return path.startswith(str(self._place).rstrip("/") + "/")
        parent = Path(path).parent
        if parent not in self._known:
            self._known[parent] = parent.resolve().is_relative_to(self._top)
        return self._known[parent]


def _refuse_odd_name(path: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError:
        raise InputError(f"{path!a}: its name is not in UTF-8; rename it") from None


def find_ignored(paths: Iterable[Place], *, leaving_out: Place | None = None) -> Counter[str]:
    """How many files of each other kind lie in the folders and are left alone."""
    files: list[PurePath] = []
    lies_in = _Folder(leaving_out).has
    for place in paths:
        if is_url(place):
            is_folder = find_kind(to_name(place)) is None
            url = str(place).rstrip("/")
            listed = list_files(str(place)) if is_folder else []
            files += [to_name(name) for name in listed if not lies_in(f"{url}/{name}")]
        elif to_path(place).is_dir():
            files += (file for file in _iter_files(to_path(place)) if not lies_in(str(file)))
    return Counter(file.suffix or file.name for file in files if find_kind(file) is None)


def find_kind(path: PurePath) -> str | None:
    """What a file's name promises, if albert reads it."""
    suffixes = path.suffixes
    if suffixes and suffixes[-1] in OPENERS:
        suffixes = suffixes[:-1]
    return KINDS.get(suffixes[-1]) if suffixes else None


def _find(name: str) -> Sequence[Source]:
    if is_url(name):
        return _find_remote(name.rstrip("/"))
    if name.startswith(DATASET_PREFIX):
        return [Source(name, name.removeprefix(DATASET_PREFIX), "dataset")]
    path = to_path(name)
    if path.is_dir():
        top = path.resolve()
        return [
            Source(f"{top.name}/{file.relative_to(path).as_posix()}", str(file), kind)
            for file in _iter_files(path)
            if (kind := find_kind(file)) is not None
        ]
    if not path.exists():
        raise InputError(f"{name}: no such file or folder; check the path (a dataset's name begins with hf:)")
    kind = find_kind(path)
    if kind is None:
        raise InputError(f"{name}: a kind of file that is not read; {_READ}")
    return [Source(path.name, str(path), kind)]


def _find_remote(url: str) -> Sequence[Source]:
    top = to_name(url)
    kind = find_kind(top)
    if kind is not None:
        return [Source(top.name, url, kind)]
    names = list_files(url)
    if not names:
        raise InputError(f"{url}: no such folder, or nothing in it; check the address. {_READ}")
    return [
        Source(f"{top.name}/{name}", f"{url}/{name}", kind)
        for name in names
        if (kind := find_kind(to_name(name))) is not None
    ]


def _iter_files(folder: Path) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename}: {error.strerror}; make the folder readable, or leave it out")

    seen: set[tuple[int, int]] = set()
    for place, folders, files in os.walk(folder, onerror=refuse, followlinks=True):
        status = os.stat(place)
        if (status.st_dev, status.st_ino) in seen:  # a link that leads back
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith("."):
                yield Path(place) / name
