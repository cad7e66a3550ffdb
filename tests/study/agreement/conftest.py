"""What the tests of minimal pairs share: a vocabulary of whole words, and small models that have it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from albert.model.albert_model import AlbertModel, build_model
from albert.model.config import ModelConfig
from albert.pretrained.folder import save_model
from albert.study.agreement.pairs import generate_pairs
from albert.study.agreement.settings import AgreementSettings
from albert.text.folder import load_tokenizer
from albert.text.tokenizer import Tokenizer
from tests.conftest import write_vocabulary

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SMALL = AgreementSettings(num_pairs=16)
MakeFolder = Callable[..., Path]


@pytest.fixture(scope="session")
def words_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """Every word of the small set of pairs is one piece; `laughs` alone is two."""
    texts = [text.lower().rstrip(".") for pair in generate_pairs(SMALL) for text in (pair.good, pair.bad)]
    words = {word for text in texts for word in text.split()} - {"laughs"} | {"laugh"}
    path = tmp_path_factory.mktemp("words") / "vocab.txt"
    return load_tokenizer(write_vocabulary(path, [*SPECIAL, ".", "##s", *sorted(words)]))


def build_tiny(tokenizer: Tokenizer, *, seed: int = 3, **changes: Any) -> AlbertModel:
    """Two layers of random weights, wide enough that answers differ visibly."""
    values: dict[str, Any] = {
        "vocab_size": tokenizer.vocab_size,
        "embedding_size": 16,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 32,
        "initializer_range": 0.3,
        **changes,
    }
    return build_model(ModelConfig.model_validate(values), heads={"mlm": None}, seed=seed)


@pytest.fixture
def make_folder(words_tokenizer: Tokenizer, tmp_path: Path) -> MakeFolder:
    """A model folder under a name."""

    def make(name: str, **changes: Any) -> Path:
        folder = tmp_path / "runs" / name / "model"
        save_model(folder, build_tiny(words_tokenizer, **changes), tokenizer=words_tokenizer)
        return folder

    return make
