"""A package index that is a folder, and a whole quickstart on what it has: tiny, and real in every part."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml

from albert.app.quickstart import king_james, reviews
from albert.app.quickstart.result import QuickstartResult
from albert.app.quickstart.run import run_quickstart
from albert.app.quickstart.settings import QuickstartSettings
from tests.app.quickstart.fake_archives import tell_opinions, write_bible, write_reviews
from tests.training.conftest import TINY, Listener, one_thread, tell_stories

__all__ = ["one_thread"]


def tell_chapters(count: int, *, seed: int = 0) -> list[list[str]]:
    """Stories with capitals and full stops, as two paragraphs each."""
    stories = [
        [line.replace(" .", ".").capitalize() for line in story] for story in tell_stories(count, seed=seed)
    ]
    return [[" ".join(story[:3]), " ".join(story[3:])] for story in stories]


CHAPTERS = tell_chapters(240)
FEW_EVALUATIONS = {"num_evaluations": 2, "held_out": {"num_examples": 16}}
SIZES = {"vocab_size": 128, "num_train": 80, "num_dev": 20, "num_test": 30}


def use_index(patch: pytest.MonkeyPatch, place: Path) -> Path:
    """Let pip look nowhere but in a folder, and let nothing be cached before."""
    folder = place / "index"
    folder.mkdir()
    patch.setenv("PIP_CONFIG_FILE", os.devnull)
    patch.setenv("PIP_NO_INDEX", "1")
    patch.setenv("PIP_FIND_LINKS", str(folder))
    patch.setenv("ALBERT_CACHE", str(place / "cache"))
    return folder


def pin(patch: pytest.MonkeyPatch, *, bible: str, review: str) -> None:
    """Expect archives with these hashes."""
    patch.setattr(king_james, "KING_JAMES", replace(king_james.KING_JAMES, sha256=bible))
    patch.setattr(reviews, "REVIEWS", replace(reviews.REVIEWS, sha256=review))


@pytest.fixture
def stories(tmp_path: Path) -> Path:
    """A folder of a user's own text."""
    folder = tmp_path / "stories"
    folder.mkdir()
    text = "\n\n".join("\n".join(chapter) for chapter in tell_chapters(240, seed=3))
    (folder / "stories.txt").write_text(text + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def index_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index with nothing in it."""
    return use_index(monkeypatch, tmp_path)


@pytest.fixture
def stocked(index_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index with both archives in it."""
    pin(monkeypatch, **stock(index_dir))
    return index_dir


def stock(index_dir: Path) -> dict[str, str]:
    files = {"film": tell_opinions(200), "product": tell_opinions(60, seed=1)}
    return {"bible": write_bible(index_dir, CHAPTERS), "review": write_reviews(index_dir, files)}


def write_recipe(folder: Path) -> Path:
    """The tiny recipe as a file."""
    path = folder / "tiny.yaml"
    path.write_text(yaml.safe_dump(TINY), encoding="utf-8")
    return path


def build_tiny(model: Path, recipe: Path, **changes: object) -> QuickstartSettings:
    """Settings of a quickstart that takes seconds."""
    values = {
        **SIZES,
        "model": str(model),
        "recipe": str(recipe),
        "pretrain": {**FEW_EVALUATIONS, "num_steps": 30},
        "finetune": {"num_epochs": 1, "num_evaluations": 1},
        **changes,
    }
    return QuickstartSettings.model_validate(values)


@dataclass(frozen=True)
class Done:
    """A finished quickstart and all that it said."""

    report: Path
    result: QuickstartResult
    lines: list[str]
    settings: QuickstartSettings

    @property
    def out(self) -> Path:
        return self.result.out


def run_tiny(settings: QuickstartSettings, out: Path, *, data: Path | None = None) -> Done:
    listener = Listener()
    report, result = run_quickstart(settings, data=data, out=out, reporter=listener)
    return Done(report, result, listener.lines, settings)


@pytest.fixture(scope="module")
def finished(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Done]:
    """A whole quickstart, network and model included; the index stays while the tests of a module run."""
    import torch

    place = tmp_path_factory.mktemp("finished")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        pin(patch, **stock(use_index(patch, place)))
        yield run_tiny(build_tiny(tiny_folder, write_recipe(place)), place / "out")
    torch.set_num_threads(before)
