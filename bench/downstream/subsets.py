"""Write the official files of a task with fewer training examples, or with a part of them as the dev set."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from albert.errors import FileFormatError
from albert.files import atomic_dir, read_json
from albert.tasks.catalogue import GlueTask, PublishedTask, SquadTask

_STREAM = 7101


def write_subset(task: PublishedTask, data: Path, *, out: Path, max_train: int) -> Path:
    """Write a folder with at most `max_train` training examples, the same whatever the seed.

    All other splits are copied. Of RACE whole passages are kept, with all their questions.
    """
    if out.exists():
        return out
    with atomic_dir(out) as aside:
        for split, name in task.files.items():
            target = aside / task.folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if split == "train":
                _write_train(task, task.find_split(data, split)[1], target, max_train)
            elif (source := find_optional_split(task, data, split)) is not None:
                (shutil.copytree if source.is_dir() else shutil.copyfile)(source, target)
    return out


def write_selection(task: PublishedTask, data: Path, *, out: Path, num_dev: int) -> None:
    """Write train and dev files that both come from the training set, to choose settings on.

    The dev sets that are reported stay unseen. About `num_dev` examples are held out, of SQuAD and RACE those
    of whole paragraphs and passages.
    """
    source = task.find_split(data, "train")[1]
    train, dev = (out / task.folder / task.files[split] for split in ("train", "dev"))
    for path in (train, dev):
        path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(task, GlueTask):
        _split_lines(source, train, dev, num_dev, has_header="train" not in task.headless)
    elif isinstance(task, SquadTask):
        _split_paragraphs(source, train, dev, num_dev)
    else:
        _split_passages(source, train, dev, num_dev)


def find_optional_split(task: PublishedTask, data: Path, split: str) -> Path | None:
    """The path of a split; None if it does not exist."""
    try:
        return task.find_split(data, split)[1]
    except FileFormatError:
        return None


def _write_train(task: PublishedTask, source: Path, target: Path, max_train: int) -> None:
    if isinstance(task, GlueTask):
        _cut_lines(source, target, max_train, has_header="train" not in task.headless)
    elif isinstance(task, SquadTask):
        _cut_questions(source, target, max_train)
    else:
        _cut_passages(source, target, max_train)


def _choose(number: int, max_number: int) -> list[int]:
    """Choose the indices that are kept, in order."""
    return sorted(np.random.default_rng(_STREAM).permutation(number)[:max_number].tolist())


def _cut_lines(source: Path, target: Path, max_train: int, *, has_header: bool) -> None:
    lines = source.read_bytes().split(b"\n")
    header = lines[:1] if has_header else []
    rows = [line for line in lines[len(header) :] if line.strip()]
    kept = [rows[index] for index in _choose(len(rows), max_train)]
    target.write_bytes(b"".join(line + b"\n" for line in (*header, *kept)))


def _cut_questions(source: Path, target: Path, max_train: int) -> None:
    content = read_json(source)
    ids = [
        question["id"]
        for article in content["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]
    kept = {ids[index] for index in _choose(len(ids), max_train)}
    for article in content["data"]:
        for paragraph in article["paragraphs"]:
            paragraph["qas"] = [question for question in paragraph["qas"] if question["id"] in kept]
        article["paragraphs"] = [paragraph for paragraph in article["paragraphs"] if paragraph["qas"]]
    content["data"] = [article for article in content["data"] if article["paragraphs"]]
    target.write_text(json.dumps(content), encoding="utf-8")


def _cut_passages(source: Path, target: Path, max_train: int) -> None:
    """Keep random passages until the next one has too many questions."""
    paths, left = sorted(source.rglob("*.txt")), max_train
    for index in np.random.default_rng(_STREAM).permutation(len(paths)):
        number = len(read_json(paths[index])["questions"])
        if number > left:
            return
        left -= number
        copy = target / paths[index].relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(paths[index], copy)


def _split_lines(source: Path, train: Path, dev: Path, num_dev: int, *, has_header: bool) -> None:
    lines = source.read_bytes().split(b"\n")
    header = lines[:1] if has_header else []
    rows = [line for line in lines[len(header) :] if line.strip()]
    held_out = set(_choose(len(rows), num_dev))
    for path, is_dev in ((train, False), (dev, True)):
        kept = [row for index, row in enumerate(rows) if (index in held_out) is is_dev]
        path.write_bytes(b"".join(line + b"\n" for line in (*header, *kept)))


def _split_paragraphs(source: Path, train: Path, dev: Path, num_dev: int) -> None:
    """Hold out the last paragraphs, of the last articles, with at least `num_dev` questions."""
    parts: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
    content, num_held_out = read_json(source), 0
    for article in reversed(content["data"]):
        for paragraph in reversed(article["paragraphs"]):
            is_dev = num_held_out < num_dev
            num_held_out += len(paragraph["qas"]) if is_dev else 0
            parts[is_dev].append({**article, "paragraphs": [paragraph]})
    for path, is_dev in ((train, False), (dev, True)):
        path.write_text(json.dumps({**content, "data": parts[is_dev]}), encoding="utf-8")


def _split_passages(source: Path, train: Path, dev: Path, num_dev: int) -> None:
    num_held_out = 0
    paths = sorted(source.rglob("*.txt"))
    for index in np.random.default_rng(_STREAM).permutation(len(paths)):
        is_dev = num_held_out < num_dev
        num_held_out += len(read_json(paths[index])["questions"]) if is_dev else 0
        copy = (dev if is_dev else train) / paths[index].relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(paths[index], copy)
