"""Evaluate a pretrained model on held-out text: masked words, sentence order and next sentence."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from albert.data.corpus import Corpus, open_corpus
from albert.examples.settings import ExampleSettings
from albert.model.albert_model import AlbertModel
from albert.pretrained.folder import check_vocabulary, load_model, load_vocabulary
from albert.pretrained.hub import resolve_source
from albert.text.tokenizer import Tokenizer
from albert.training.losses import Score, evaluate_pretraining
from albert.training.run_folder import has_run, read_pretrain_run


@dataclass(frozen=True)
class Asked:
    """A model with its vocabulary, and the length of the texts it is evaluated on."""

    model: AlbertModel
    tokenizer: Tokenizer
    max_length: int

    @property
    def rules(self) -> ExampleSettings:
        """The settings of the evaluation examples."""
        return ExampleSettings(max_length=self.max_length)

    def ask(
        self,
        corpus: Corpus,
        *,
        num_examples: int,
        depth: int | None = None,
        advance: Callable[[int], None] | None = None,
    ) -> dict[str, Any]:
        """Means with their 95% intervals; as `albert evaluate pretraining` gives them."""
        scores = evaluate_pretraining(
            self.model,
            corpus,
            self.tokenizer,
            settings=self.rules,
            num_examples=num_examples,
            depth=depth,
            advance=advance,
        )
        return describe_scores(scores)


def open_asked(source: str, *, max_length: int | None = None) -> Asked:
    """A model of a run or a folder, its weights rounded as they are released: to half precision."""
    found = load_model(resolve_source(source))
    tokenizer = load_vocabulary(found.path)
    check_vocabulary(found.config, tokenizer)
    for weight in found.model.parameters():
        weight.data = weight.data.half().float()
    limit = found.config.max_position_embeddings
    own = min(128, limit) if not has_run(Path(source)) else read_length(Path(source))
    return Asked(found.model, tokenizer, own if max_length is None else max_length)


def read_length(run_dir: Path) -> int:
    """The longest examples that a run was trained on."""
    return read_pretrain_run(run_dir)[0].examples.max_length


def describe_scores(scores: Mapping[str, Score]) -> dict[str, Any]:
    """Scores as plain data."""
    return {name: {**asdict(score), "interval": score.interval} for name, score in scores.items()}


def open_held_out(folder: Path, asked: Asked) -> Corpus:
    """Open a prepared corpus; one of another vocabulary is rejected."""
    return open_corpus(folder, fingerprint=asked.tokenizer.fingerprint)
