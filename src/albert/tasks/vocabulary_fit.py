"""Check that a vocabulary belongs to a model, and that it knows the texts of a task."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from albert.errors import InputError, WeightsError
from albert.files import read_json
from albert.model.config import ModelConfig
from albert.pretrained.folder import check_vocabulary, load_vocabulary
from albert.tasks.kinds.kind import AnyKind
from albert.text.folder import JSON_NAME
from albert.text.tokenizer import Tokenizer

_NUM_SAMPLED = 256  # items are enough to know
_MANY_UNKNOWN, _TOO_MANY_UNKNOWN = 0.2, 0.9
_MAX_OTHERS = 0.5  # of the tokens; libraries spell a few of the special ones differently


def load_own_vocabulary(path: Path, config: ModelConfig) -> Tokenizer:
    """Load the vocabulary of a model folder; one that is visibly not the model's is rejected."""
    tokenizer = load_vocabulary(path)
    try:
        check_vocabulary(config, tokenizer)
    except WeightsError as error:
        raise WeightsError(f"{path}: {error}") from error
    folder = path if path.is_dir() else path.parent
    if (folder / JSON_NAME).exists() and (folder / tokenizer.vocab_name).exists():
        # Two vocabulary files of two models: one of them was exchanged.
        content = read_json(folder / JSON_NAME)
        model = content.get("model") if isinstance(content, dict) else None
        vocab = model.get("vocab") if isinstance(model, dict) else None
        # WordPiece has a table of ids, Unigram a list of tokens with their scores.
        others: list[str] = [row[0] for row in vocab] if isinstance(vocab, list) else []
        if isinstance(vocab, dict):
            others = sorted(vocab, key=vocab.__getitem__)
        number = min(len(others), tokenizer.vocab_size)
        num_others = sum(tokenizer.token(place) != others[place] for place in range(number))
        if num_others > _MAX_OTHERS * number:
            raise WeightsError(
                f"{folder}: {num_others:,} of {number:,} pieces in {tokenizer.vocab_name} are others than in "
                f"{JSON_NAME}; put the vocabulary back that the model was trained with"
            )
    return tokenizer


def check_known(kind: AnyKind, items: Sequence[Any], tokenizer: Tokenizer) -> str | None:
    """Return a warning where many tokens of the examples are unknown; almost all are rejected."""
    ids = kind.build_batch(items[:: 1 + len(items) // _NUM_SAMPLED]).ids_T
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
