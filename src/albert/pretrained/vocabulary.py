"""The vocabulary of a model: the path of a loaded folder or file comes in, its tokenizer goes out."""

from pathlib import Path

from albert.errors import FileFormatError
from albert.pretrained.tensorflow import find_tensorflow_vocabulary, is_tensorflow_source
from albert.text.folder import has_tokenizer, load_tokenizer
from albert.text.tokenizer import Tokenizer


def find_vocabulary(path: Path) -> Tokenizer | None:
    """The tokenizer of a folder, of the folder around a weights file, or of an original checkpoint."""
    if is_tensorflow_source(path):
        file = find_tensorflow_vocabulary(path)
        return None if file is None else load_tokenizer(file)
    directory = path if path.is_dir() else path.parent
    return load_tokenizer(directory) if has_tokenizer(directory) else None


def load_vocabulary(path: Path) -> Tokenizer:
    """The same, where a model without a vocabulary is of no use."""
    tokenizer = find_vocabulary(path)
    if tokenizer is None:
        raise FileFormatError(
            f"{path}: has no vocabulary (spiece.model, vocab.txt, symbols.txt or tokenizer.json); copy the "
            "one it was trained with there, or use albert.load_encoder with ids"
        )
    return tokenizer
