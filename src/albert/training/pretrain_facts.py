"""What a pretraining run was started with: a corpus comes in, facts go out that are found again later."""

import hashlib
from pathlib import Path
from typing import Literal

from albert.data.corpus import Corpus
from albert.training.run_folder import RunFacts, read_run
from albert.training.settings import PretrainSettings


class PretrainFacts(RunFacts):
    """The corpus and what is known of it before the first step.

    `num_asked` is how many held-out examples are asked about: there may be fewer than the settings want, and
    documents of a single sentence make no pair.
    `recipe_steps` are those of the recipe, where a budget made them others.
    """

    job: Literal["pretrain"] = "pretrain"
    corpus: str
    held_out: str = ""
    num_pieces: int
    unigram_loss: float
    num_asked: int | None = None
    budget_seconds: float | None = None
    recipe_steps: int | None = None


def identify_corpus(corpus: Corpus) -> str:
    """A hash of what the corpus holds, from its manifest, and of the part of it that is seen."""
    shards = "".join(shard.sha256 for shard in corpus.manifest.shards)
    return hashlib.sha256(f"{corpus.manifest.vocabulary}{shards}{corpus.sentences}".encode()).hexdigest()


def read_pretrain_run(run_dir: Path) -> tuple[PretrainSettings, PretrainFacts]:
    """How a pretraining run was begun."""
    return read_run(run_dir, PretrainSettings, PretrainFacts)
