"""A prepared corpus of random documents."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from albert.data.corpus import Corpus, open_corpus
from albert.data.shards import Manifest, ShardEntry, write_manifest, write_parts
from albert.text.folder import load_tokenizer
from albert.text.tokenizer import Tokenizer
from tests.conftest import write_vocabulary
from tests.data.conftest import pack

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
NUM_ORDINARY = 2000


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory) -> Tokenizer:
    """Every third ordinary token continues a word."""
    tokens = [f"##p{i}" if i % 3 == 0 else f"p{i}" for i in range(NUM_ORDINARY)]
    return load_tokenizer(write_vocabulary(tmp_path_factory.mktemp("v") / "vocab.txt", [*SPECIAL, *tokens]))


def write_corpus(folder: Path, documents, tokenizer: Tokenizer, *, per_shard: int = 100) -> Corpus:
    """Documents of sentences of ids as a prepared corpus, in several shards."""

    def count(chosen) -> dict[str, Any]:
        sentences = [sentence for document in chosen for sentence in document]
        return {
            "num_documents": len(chosen),
            "num_sentences": len(sentences),
            "num_tokens": sum(map(len, sentences)),
        }

    entries = []
    for start in range(0, len(documents), per_shard):
        chosen = documents[start : start + per_shard]
        path = folder / f"shard-{start:05d}.arrow"
        write_parts(path, [pack(chosen)], id_type=pa.uint16())
        content = path.read_bytes()
        sha256 = hashlib.sha256(content).hexdigest()
        entries.append(ShardEntry(name=path.name, num_bytes=len(content), sha256=sha256, **count(chosen)))
    vocabulary: dict[str, Any] = {"vocabulary": tokenizer.fingerprint, "vocab_size": tokenizer.vocab_size}
    write_manifest(folder, Manifest(**vocabulary, **count(documents), shards=tuple(entries)))
    return open_corpus(folder, fingerprint=tokenizer.fingerprint)


def random_documents(count: int, *, seed: int = 0):
    """Documents of 2 to 40 sentences of 3 to 40 tokens; the first token of a sentence begins a word."""
    draw = np.random.default_rng(seed)
    documents = []
    for _ in range(count):
        lengths = draw.integers(3, 41, size=draw.integers(2, 41))
        sentences = [5 + draw.integers(0, NUM_ORDINARY, size=n) for n in lengths]
        for sentence in sentences:
            sentence[0] = 5 + 1 + 3 * draw.integers(0, NUM_ORDINARY // 3)
        documents.append([sentence.tolist() for sentence in sentences])
    return documents


@pytest.fixture(scope="session")
def corpus(tmp_path_factory, tokenizer) -> Corpus:
    return write_corpus(tmp_path_factory.mktemp("corpus"), random_documents(600), tokenizer)
