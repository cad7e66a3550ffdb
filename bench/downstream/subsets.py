"""The official files of a task come in; the same files with fewer examples to learn from go out."""

import json
import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from albert.errors import FileFormatError
from albert.files import atomic_dir, read_json
from albert.tasks.catalogue import Kind, Task, find_split

_STREAM = 7101


def write_subset(task: Task, data: Path, *, out: Path, max_train: int) -> Path:
    """A folder of data in which at most `max_train` examples, the same whatever the seed, are to be learned.

    All other splits are as they were. Of RACE whole passages are kept, with all their questions.
    """
    if out.exists():
        return out
    with atomic_dir(out) as aside:
        for split, name in task.files.items():
            target = aside / task.folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if split == "train":
                _WRITERS[task.kind](task, find_split(task, data, split=split), target, max_train)
            elif (source := find_other_split(task, data, split=split)) is not None:
                (shutil.copytree if source.is_dir() else shutil.copyfile)(source, target)
    return out


def find_other_split(task: Task, data: Path, *, split: str) -> Path | None:
    """Where a split lies that need not be there."""
    try:
        return find_split(task, data, split=split)
    except FileFormatError:
        return None


def choose(number: int, *, max_number: int) -> list[int]:
    """The places that are kept, in their order."""
    return sorted(np.random.default_rng(_STREAM).permutation(number)[:max_number].tolist())


def _cut_lines(task: Task, source: Path, target: Path, max_train: int) -> None:
    lines = source.read_bytes().split(b"\n")
    header = [] if "train" in task.headless else lines[:1]
    rows = [line for line in lines[len(header) :] if line.strip()]
    kept = [rows[place] for place in choose(len(rows), max_number=max_train)]
    target.write_bytes(b"".join(line + b"\n" for line in (*header, *kept)))


def _cut_questions(task: Task, source: Path, target: Path, max_train: int) -> None:
    content = read_json(source)
    ids = [
        question["id"]
        for article in content["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]
    kept = {ids[place] for place in choose(len(ids), max_number=max_train)}
    articles = [_keep_questions(article, kept) for article in content["data"]]
    content["data"] = [article for article in articles if article["paragraphs"]]
    target.write_text(json.dumps(content), encoding="utf-8")


def _keep_questions(article: Mapping[str, Any], kept: Collection[str]) -> dict[str, Any]:
    paragraphs = [
        {**paragraph, "qas": [question for question in paragraph["qas"] if question["id"] in kept]}
        for paragraph in article["paragraphs"]
    ]
    return {**article, "paragraphs": [paragraph for paragraph in paragraphs if paragraph["qas"]]}


def _cut_passages(task: Task, source: Path, target: Path, max_train: int) -> None:
    """Passages in any order for as long as their questions fit."""
    paths, left = sorted(source.rglob("*.txt")), max_train
    for place in np.random.default_rng(_STREAM).permutation(len(paths)):
        number = len(read_json(paths[place])["questions"])
        if number > left:
            return
        left -= number
        copy = target / paths[place].relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(paths[place], copy)


_WRITERS: Mapping[Kind, Callable[[Task, Path, Path, int], None]] = {
    "texts": _cut_lines,
    "spans": _cut_questions,
    "choices": _cut_passages,
}
