"""A corpus's own vocabulary: a tokenizer comes in and its files go to the corpus, and back."""

import shutil
import tempfile
from pathlib import Path

from albert.data.storage import Storage
from albert.text.folder import TOKENIZER_FILES, load_tokenizer, save_tokenizer
from albert.text.tokenizer import Tokenizer

VOCAB_DIR = "vocab"


def save_vocabulary(out: Storage, tokenizer: Tokenizer) -> None:
    """Write the vocabulary's files into the corpus, if they are not there, and remove another one's."""
    with tempfile.TemporaryDirectory(prefix="albert-") as folder:
        save_tokenizer(tokenizer, Path(folder))
        for name in TOKENIZER_FILES:
            written = Path(folder) / name
            if not written.exists():
                out.remove(f"{VOCAB_DIR}/{name}")
                continue
            if _has_same(out, f"{VOCAB_DIR}/{name}", written):
                continue
            with out.writing(f"{VOCAB_DIR}/{name}") as path:
                shutil.copyfile(written, path)


def _has_same(out: Storage, name: str, written: Path) -> bool:
    if out.find_size(name) != written.stat().st_size:
        return False
    with out.reading(name) as path:
        return path.read_bytes() == written.read_bytes()


def fetch_vocabulary(out: Storage, folder: Path) -> None:
    """Copy the vocabulary's files from a corpus into a folder; by name, since not every store can list."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in TOKENIZER_FILES:
        if out.find_size(f"{VOCAB_DIR}/{name}") is not None:
            with out.reading(f"{VOCAB_DIR}/{name}") as path:
                shutil.copyfile(path, folder / name)


def load_vocabulary(out: Storage) -> Tokenizer:
    """The tokenizer of a corpus."""
    with tempfile.TemporaryDirectory(prefix="albert-") as folder:
        fetch_vocabulary(out, Path(folder))
        return load_tokenizer(Path(folder))
