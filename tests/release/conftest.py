"""A shelf of toy books, and a release that was made of them from the first step to the last."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import yaml

from albert.training.pretrain import pretrain
from release.nano.__main__ import main
from tests.bench.official_files import write_tasks
from tests.training.conftest import TINY
from tests.training.conftest import tell_stories as tell_plain

STEPS = 24
CHAPTER = "Food as a Material Artifact"


@pytest.fixture(scope="package", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@dataclass(frozen=True)
class Made:
    """Where everything lies."""

    data: Path
    out: Path

    @property
    def run(self) -> Path:
        return self.out / "run"


def tell_stories(count: int, *, seed: int) -> list[list[str]]:
    """Stories with capitals and full stops, so that their sentences are told apart."""
    stories = tell_plain(count, seed=seed)
    return [[line.replace(" .", ".").capitalize() for line in story] for story in stories]


def run_step(*words: object) -> None:
    assert main([str(word) for word in words]) == 0


def write_shelf(folder: Path) -> Path:
    """Twenty novels, two CC BY textbooks, one that must not be used, and the files of two tasks."""
    (folder / "novels").mkdir(parents=True)
    for number in range(20):
        stories = tell_stories(12, seed=number)
        text = "\n\n".join(" ".join(story) for story in stories)
        (folder / "novels" / f"Author_{number:02d}_1900.txt").write_text(text + "\n")
    books = folder / "textbooks"
    books.mkdir()
    headings = ("Introduction", "The Sea", "Introduction", CHAPTER, "More Food", "Introduction", "The Hill")
    sections = [
        "\n".join([heading, *(" ".join(story) for story in tell_stories(3, seed=100 + place))])
        for place, heading in enumerate(headings)
    ]
    (books / "introduction-anthropology.txt").write_text("\n\n".join(sections) + "\n")
    (books / "principles-economics-bundle.txt").write_text("\n\n".join(sections[::-2]) + "\n")
    (books / "astronomy.txt").write_text("Stars\nNobody may learn from this.\n")
    licences = {
        "introduction-anthropology": "Attribution 4.0 International",
        "principles-economics-bundle": "Attribution 4.0 International\r",
        "astronomy": "Attribution-NonCommercial-ShareAlike 4.0 International\r",
    }
    (books / "LICENCES.json").write_text(json.dumps(licences))
    write_tasks(folder / "glue")
    return folder


@pytest.fixture(scope="package")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_shelf(tmp_path_factory.mktemp("shelf") / "data")


@pytest.fixture(scope="package")
def made(shelf: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The data, and a model trained on them, with its snapshots."""
    made = Made(shelf, tmp_path_factory.mktemp("made"))
    run_step("data", "--data", shelf, "--out", made.out, "--vocab-size", 80, "--passages", 60, "--workers", 1)
    recipe = made.out / "toy.yaml"
    shape = {**TINY["model"], "max_position_embeddings": 160}  # short words are cut into letters
    recipe.write_text(yaml.safe_dump({**TINY, "model": shape, "num_steps": STEPS, "num_evaluations": 6}))
    overrides = [f"held_out.data={made.out / 'held-out'}", "num_checkpoints=9"]
    overrides += ["depth_schedule=[{until: 0.5, value: 1}]"]
    pretrain(recipe, data=made.out / "corpus", out=made.run, overrides=overrides)
    run_step("snapshots", "--run", made.run, "--out", made.out / "snapshots", "--number", 3)
    return made
