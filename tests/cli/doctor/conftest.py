"""A corpus, a recipe, and synthetic run folders."""

import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.cli.doctor.synthetic import Plan, write_synthetic_run
from tests.training import conftest as stories

one_thread, recipe, story_corpus = stories.one_thread, stories.recipe, stories.story_corpus


@pytest.fixture
def build(tmp_path, story_corpus):
    """Build a run folder with the metrics of a plan."""

    def build(**changes: Any) -> Path:
        folder = Path(tempfile.mkdtemp(dir=tmp_path)) / "run"
        return write_synthetic_run(folder, Plan(**changes), story_corpus)

    return build
