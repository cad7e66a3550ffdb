"""A study of tiny arms on little stories: seconds, and real in every part."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.training.conftest import TINY, one_thread, story_corpus

__all__ = ["one_thread", "story_corpus"]

STUDY: dict[str, Any] = {
    "title": "Tiny arms",
    "paper": "table 4",
    "question": "Does anything depend on sharing?",
    "base": "all",
    "num_seeds": 2,
    "num_examples": 16,
    "has_footprint": False,
    "arms": {
        "all": {"label": "all shared", "paper": {"average": 80.1}},
        "none": {"pretrain": {"model": {"sharing": "none"}}, "paper": {"average": 81.6}},
    },
    "claims": [{"text": "Sharing costs quality", "better": "none", "than": "all", "paper": 1.5}],
}


@pytest.fixture
def tiny_study(tmp_path: Path) -> Path:
    """The study as a file, based on the tiny recipe as a file."""
    recipe = tmp_path / "tiny.yaml"
    recipe.write_text(yaml.safe_dump({**TINY, "num_steps": 6}), encoding="utf-8")
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump({**STUDY, "recipe": str(recipe)}), encoding="utf-8")
    return path
