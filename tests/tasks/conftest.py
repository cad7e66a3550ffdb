"""Tokenizers, and the real data of published tasks where it is installed."""

from pathlib import Path

import pytest

from albert.text.folder import load_tokenizer
from albert.text.tokenizer import Tokenizer
from tests.real_data import find_vocabulary, unpack
from tests.text.conftest import model_bytes, tokenizer, vocab_bytes, wordpiece

__all__ = ["model_bytes", "tokenizer", "vocab_bytes", "wordpiece"]


@pytest.fixture(scope="session")
def published() -> Tokenizer:
    """The vocabulary of the published English models."""
    return load_tokenizer(find_vocabulary())


@pytest.fixture(scope="session")
def real_glue(tmp_path_factory) -> Path:
    return unpack("glue", tmp_path_factory.mktemp("glue"))


@pytest.fixture(scope="session")
def real_squad(tmp_path_factory) -> Path:
    return unpack("squad", tmp_path_factory.mktemp("squad"))
