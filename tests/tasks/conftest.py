"""Tokenizers, and the real data of published tasks where it is installed."""

from pathlib import Path

import pytest

from albert.text.folder import load_tokenizer
from albert.text.sentencepiece_tokenizer import SentencePieceTokenizer
from albert.text.tokenizer import Tokenizer
from albert.text.wordpiece_tokenizer import WordPieceTokenizer
from tests.real_data import find_vocabulary, unpack
from tests.text.conftest import LINES, VOCAB, train_model


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    """A few hundred tokens, so that most words have several."""
    return SentencePieceTokenizer(train_model(LINES * 10))


@pytest.fixture(scope="session")
def wordpiece() -> Tokenizer:
    return WordPieceTokenizer("".join(f"{token}\n" for token in VOCAB).encode())


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
