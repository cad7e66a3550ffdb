"""A corpus of little stories that a tiny model can learn, and a recipe to learn it by."""

import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from albert.text.folder import load_tokenizer, save_tokenizer
from tests.conftest import WORDS, write_vocabulary
from tests.examples.conftest import write_corpus

TINY: dict[str, Any] = {
    "model": {
        "embedding_size": 8, "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2,
        "intermediate_size": 32, "max_position_embeddings": 64, "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
    },
    "examples": {"max_length": 40},
    "batch_size": 8,
    "num_steps": 20,
    "micro_batch_tokens": 100,
    "optimizer": {"name": "adamw", "learning_rate": 0.01},
    "schedule": {"warmup_share": 0.1},
    "held_out": {"num_examples": 16, "share": 0.05},
    "num_evaluations": 2,
    "has_tensorboard": False,
    "num_workers": 0,
    "log_every": 2,
}  # fmt: skip


def tell_stories(count: int, *, seed: int = 0) -> list[list[str]]:
    """Documents whose sentences follow a plan: who goes where, sees what, and comes back at night."""
    draw = random.Random(seed)
    nouns, places = ["dog", "man", "woman", "child"], ["house", "river", "road", "sea", "hill", "town"]
    stories = []
    for _ in range(count):
        who, where, thing = draw.choice(nouns), draw.choice(places), draw.choice(["ship", "house"])
        size = draw.choice(["big", "small", "old", "new"])
        plan = [
            f"one day the {who} went to the {where} .",
            f"the {where} was {draw.choice(['cold', 'warm'])} .",
            f"the {who} saw a {size} {thing} by the {where} .",
            f"the {thing} was {size} and {draw.choice(['cold', 'warm', 'old'])} .",
            f"at night the {who} left the {thing} and came from the {where} .",
        ]
        stories.append([line.replace("at night", "by night") for line in plan * draw.randint(1, 3)])
    return stories


def build_torchrun(words: list[str], *, processes: int, max_restarts: int = 0) -> list[str]:
    """The command that runs a module and its words in several processes."""
    options = ["--standalone", f"--nproc-per-node={processes}", f"--max-restarts={max_restarts}"]
    return [sys.executable, "-m", "torch.distributed.run", *options, "-m", *words]


class Listener:
    """Hears what a run says, and may stop it at a step."""

    def __init__(self, *, stop_at: int | None = None) -> None:
        self.lines: list[str] = []
        self.stop_at = stop_at

    def say(self, text: str) -> None:
        self.lines.append(text)

    def show(self, stage: str, message: str, *, fraction: float | None = None) -> None:
        if self.stop_at is not None and message.startswith(f"step {self.stop_at} "):
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture(scope="session")
def story_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared corpus folder, vocabulary included."""
    folder = tmp_path_factory.mktemp("stories")
    tokenizer = load_tokenizer(write_vocabulary(tmp_path_factory.mktemp("words") / "vocab.txt", WORDS))
    documents = [tokenizer.encode_ids(story) for story in tell_stories(300)]
    write_corpus(folder, documents, tokenizer, per_shard=100)
    save_tokenizer(tokenizer, folder / "vocab")
    return folder


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """The tiny recipe as a file."""
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(TINY), encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def one_thread():
    """Tiny models on two threads would spend their time waiting."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
