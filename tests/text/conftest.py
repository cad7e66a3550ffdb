"""A small vocabulary of each type, trained from the lines below, and the published one if it is available."""

import io
import tarfile
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from albert.text.sentencepiece_tokenizer import SentencePieceTokenizer
from albert.text.wordpiece_tokenizer import WordPieceTokenizer
from tests.real_data import find_archive, find_vocabulary

LINES = [
    "The ship left the harbour in 1990, and nobody on the quay waved.",
    '"Well," said the captain, "we have 1,000 miles to go - or a few more."',
    "It was cold (colder than in 1985, at any rate) and the wind blew from the north.",
    "She paid £ 20 for the lamp; he paid € 30, and neither of them was content.",
    "Nobody knew why the old man kept 12 clocks, all of them slow.",
    "``That is quite enough,'' the teacher said, and closed the book.",
    "In 1990, in 1985, and again in 1990, the river rose over the bridge.",
    "The café on the corner – the naïve would call it a restaurant – was closed.",
    "A letter came, then 2, then 12, and after that none at all.",
    "the children walked to the school and the dog walked with them to the gate",
]
# A hundred different lines: training a vocabulary removes copies.
TEXT = [f"Number {i}: {line}" for i in range(10) for line in LINES]

_TOKENS = """
[PAD] [UNK] [CLS] [SEP] [MASK] the ship left harbour in 1990 , . " ' ( ) - and nobody on ##s ##ed ##ing wave
walk a e i o u t s n r ##a ##e ##i ##o ##u ##t ##n ##r ##y cafe café Cafe 中 国 文 ##国 Nobody unwant ##able
un ##want ##ß ﬁ fi i̇ σ ς ##σ 1 ##9 ##0
"""
VOCAB = _TOKENS.split()


def published_normalization(text: str) -> str:
    """The published preprocessing, step by step on the complete text."""
    text = " ".join(text.strip().split())
    text = text.replace("``", '"').replace("''", '"')
    text = unicodedata.normalize("NFKD", text)
    text = "".join([char for char in text if not unicodedata.combining(char)])
    return text.lower()


def published_ids(processor: SentencePieceProcessor, text: str) -> list[int]:
    """The published encoding with the SentencePiece library, including its rule for digits and commas."""
    ids: list[int] = []
    for piece in processor.encode(published_normalization(text), out_type=str):
        if len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit():
            parts = processor.encode(piece[:-1].replace("▁", ""), out_type=str)
            if piece[0] != "▁" and parts[0][0] == "▁":
                if len(parts[0]) == 1:
                    parts = parts[1:]
                else:
                    parts[0] = parts[0][1:]
            parts.append(piece[-1])
            ids += [processor.piece_to_id(part) for part in parts]
        else:
            ids.append(processor.piece_to_id(piece))
    return ids


def train_model(lines: list[str], *, vocab_size: int = 300, **changes: Any) -> bytes:
    """A SentencePiece model with ALBERT's settings, but small."""
    writer = io.BytesIO()
    settings: dict[str, Any] = {
        "model_type": "unigram",
        "vocab_size": vocab_size,
        "hard_vocab_limit": False,
        "pad_id": 0,
        "unk_id": 1,
        "bos_id": -1,
        "eos_id": -1,
        "control_symbols": ["[CLS]", "[SEP]", "[MASK]"],
        "user_defined_symbols": ["(", ")", '"', "-", ".", "–", "£", "€"],
        "character_coverage": 0.99995,
        "minloglevel": 2,
        **changes,
    }
    sentences = [published_normalization(line) for line in lines]
    SentencePieceTrainer.train(sentence_iterator=iter(sentences), model_writer=writer, **settings)
    return writer.getvalue()


@pytest.fixture(scope="session")
def model_bytes() -> bytes:
    return train_model(LINES * 10)


@pytest.fixture(scope="session")
def processor(model_bytes) -> SentencePieceProcessor:
    return SentencePieceProcessor(model_proto=model_bytes)


@pytest.fixture(scope="session")
def tokenizer(model_bytes) -> SentencePieceTokenizer:
    return SentencePieceTokenizer(model_bytes)


@pytest.fixture(scope="session")
def vocab_bytes() -> bytes:
    return "".join(f"{token}\n" for token in VOCAB).encode()


@pytest.fixture(scope="session")
def wordpiece(vocab_bytes) -> WordPieceTokenizer:
    return WordPieceTokenizer(vocab_bytes)


@pytest.fixture(scope="session")
def published_path() -> Path:
    return find_vocabulary()


@pytest.fixture(scope="session")
def real_lines() -> list[str]:
    path = find_archive("glue")
    with tarfile.open(path) as archive:
        for member in archive:
            if member.name.endswith("MRPC/dev.tsv") and (file := archive.extractfile(member)):
                return file.read().decode().splitlines()
    raise AssertionError(f"{path} does not hold MRPC/dev.tsv")
