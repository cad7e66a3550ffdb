"""A model's vocabulary and what is to be read with it come in; a refusal or a word of warning goes out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from albert.errors import InputError, WeightsError
from albert.files import read_json
from albert.model.config import ModelConfig
from albert.pretrained.folder import check_vocabulary, load_vocabulary
from albert.tasks.kinds.kind import Kind
from albert.text.folder import JSON_NAME
from albert.text.tokenizer import Tokenizer

_ASKED = 256  # items are enough to know
_MANY_UNKNOWN, _TOO_MANY_UNKNOWN = 0.2, 0.9
_MAX_OTHERS = 0.5  # of the pieces; programs spell a few of the special ones in ways of their own


def load_own_vocabulary(path: Path, config: ModelConfig) -> Tokenizer:
    """The vocabulary of a model folder; refused: one that is not the model's, as far as that can be seen."""
    tokenizer = load_vocabulary(path)
    try:
        check_vocabulary(config, tokenizer)
    except WeightsError as error:
        raise WeightsError(f"{path}: {error}") from error
    folder = path if path.is_dir() else path.parent
    if (folder / JSON_NAME).exists() and (folder / tokenizer.vocab_name).exists():
        _compare(tokenizer, folder)
    return tokenizer


def _compare(tokenizer: Tokenizer, folder: Path) -> None:
    """Refuse a folder whose two vocabulary files are of two models: one of them was exchanged."""
    content = read_json(folder / JSON_NAME)
    model = content.get("model") if isinstance(content, dict) else None
    others = _list_pieces(model.get("vocab") if isinstance(model, dict) else None)
    number = min(len(others), tokenizer.vocab_size)
    num_others = sum(tokenizer.piece(place) != others[place] for place in range(number))
    if num_others > _MAX_OTHERS * number:
        raise WeightsError(
            f"{folder}: {num_others:,} of {number:,} pieces in {tokenizer.vocab_name} are others than in "
            f"{JSON_NAME}; put the vocabulary back that the model was trained with"
        )


def _list_pieces(vocab: Any) -> list[str]:
    """Pieces by id: WordPiece has a table of ids, Unigram a list of pieces with their scores."""
    if isinstance(vocab, dict):
        return sorted(vocab, key=vocab.__getitem__)
    return [row[0] for row in vocab] if isinstance(vocab, list) else []


def check_known(
    kind: Kind[Any, Any, Any, Any, Any], items: Sequence[Any], tokenizer: Tokenizer
) -> str | None:
    """A warning where many pieces of the examples are unknown to the vocabulary; refused: almost all."""
    ids = kind.build_batch(items[:: 1 + len(items) // _ASKED]).ids_T
    is_text = (ids != tokenizer.cls_id) & (ids != tokenizer.sep_id)
    share = float((ids == tokenizer.unk_id).sum() / max(1, is_text.sum()))
    if share <= _MANY_UNKNOWN:
        return None
    said = f"{share:.0%} of the pieces that the examples are cut into are unknown to the model's vocabulary"
    if share > _TOO_MANY_UNKNOWN:
        raise InputError(
            f"{said}, and at most {_TOO_MANY_UNKNOWN:.0%} may be; give a model of this language and script, "
            "or check the column of the text"
        )
    return f"{said}: is the model of this language?"
