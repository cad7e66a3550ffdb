"""A study of tiny models on short stories: it takes seconds and is real in every part."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from albert.report.content import Finding, Page, Table
from tests.training.conftest import TINY, one_thread, story_corpus

__all__ = ["one_thread", "story_corpus"]

STUDY: dict[str, Any] = {
    "title": "Tiny models",
    "paper": "table 4",
    "question": "Does anything depend on sharing?",
    "base": "all",
    "num_seeds": 2,
    "num_examples": 16,
    "has_footprint": False,
    "variants": {
        "all": {"label": "all shared", "paper": {"average": 80.1}},
        "none": {"pretrain": {"model": {"sharing": "none"}}, "paper": {"average": 81.6}},
    },
    "claims": [{"text": "Sharing costs quality", "better": "none", "than": "all", "paper": 1.5}],
}
# Overrides that make any study of the package take seconds.
TOY = (
    "pretrain.num_steps=2", "pretrain.batch_size=4", "pretrain.examples.max_length=40", "num_seeds=1",
    "pretrain.num_evaluations=1", "pretrain.held_out.num_examples=8", "num_examples=8", "has_footprint=false",
    "pretrain.num_workers=0", "pretrain.length_schedule=[]", "has_agreement=false",
    "pretrain.model.hidden_size=96", "pretrain.model.num_attention_heads=2",
    "pretrain.model.intermediate_size=192",
)  # fmt: skip

# A pair so small that a process spends its time on starting.
_TOY_MODEL: dict[str, Any] = {
    "vocab_size": 120,
    "embedding_size": 8,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 16,
}
TOY_PAIR: dict[str, Any] = {
    "shapes": ("nano",),
    "model": _TOY_MODEL,
    "length": 8,
    "num_steps": 1,
    "num_threads": 1,
}


def count_by_hand() -> tuple[int, int]:
    """Parameters of both sides with their heads: ALBERT's and BERT's."""
    v, e, h, f, layers, positions = 120, 8, 16, 32, 3, 16
    block = 4 * (h * h + h) + 2 * h + (h * f + f) + (f * h + h) + 2 * h
    pooler, pair = h * h + h, 2 * h + 2

    def count(e: int, num_blocks: int, word_map: int) -> int:
        embeddings = (v + positions + 2) * e + 2 * e
        words = h * e + e + 2 * e + v
        return embeddings + word_map + num_blocks * block + pooler + words + pair

    return count(e, 1, e * h + h), count(h, layers, 0)


def find_findings(page: Page) -> list[Finding]:
    return [finding for section in page.sections for finding in section.findings]


def find_table(page: Page, name: str) -> Table:
    return next(table for table in page.tables if table.name == name)


@pytest.fixture
def tiny_study(tmp_path: Path) -> Path:
    """The study as a file, based on the tiny recipe as a file."""
    recipe = tmp_path / "tiny.yaml"
    recipe.write_text(yaml.safe_dump({**TINY, "num_steps": 6}), encoding="utf-8")
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump({**STUDY, "recipe": str(recipe)}), encoding="utf-8")
    return path
