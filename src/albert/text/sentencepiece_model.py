"""The bytes of a `spiece.model` come in, its pieces and normaliser go out, checked; a Unigram
`tokenizer.json` comes in, the bytes of an equal `spiece.model` go out."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError
from sentencepiece import sentencepiece_model_pb2

from albert.errors import FileFormatError

_PROTO: Any = sentencepiece_model_pb2
_PIECE: Any = _PROTO.ModelProto.SentencePiece
_TRAINER: Any = _PROTO.TrainerSpec


@dataclass(frozen=True)
class SentencePieceModel:
    """What a SentencePiece unigram model is made of, piece by piece in the order of the ids."""

    pieces: tuple[str, ...]
    scores: tuple[float, ...]
    text_pieces: frozenset[int]
    user_pieces: frozenset[int]
    charsmap: bytes


def parse_model(model_bytes: bytes, *, source: str) -> SentencePieceModel:
    """Read a model file's bytes; refuse what is no unigram model."""
    if not model_bytes:
        raise FileFormatError(f"{source}: empty; fetch the vocabulary again")
    proto = _PROTO.ModelProto()
    try:
        proto.ParseFromString(model_bytes)
    except DecodeError as error:
        raise FileFormatError(f"{source}: not a SentencePiece model; fetch the vocabulary again") from error
    if not proto.pieces:
        raise FileFormatError(f"{source}: a SentencePiece model without pieces; fetch the vocabulary again")
    if proto.trainer_spec.model_type != _TRAINER.UNIGRAM or proto.trainer_spec.byte_fallback:
        raise FileFormatError(
            f"{source}: not a unigram model without byte fallback, as ALBERT's is; "
            "train with model_type=unigram and byte_fallback=false"
        )
    kinds = [piece.type for piece in proto.pieces]
    return SentencePieceModel(
        pieces=tuple(piece.piece for piece in proto.pieces),
        scores=tuple(piece.score for piece in proto.pieces),
        text_pieces=frozenset(
            i for i, kind in enumerate(kinds) if kind in (_PIECE.NORMAL, _PIECE.USER_DEFINED)
        ),
        user_pieces=frozenset(i for i, kind in enumerate(kinds) if kind == _PIECE.USER_DEFINED),
        charsmap=proto.normalizer_spec.precompiled_charsmap,
    )


def rebuild_model(tokenizer_json: Mapping[str, Any], *, source: str) -> bytes:
    """The model file's bytes, from a `tokenizer.json` that `transformers` saved without it.

    There a score of 0 marks the pieces that SentencePiece calls user-defined.
    """
    proto = _PROTO.ModelProto()
    try:
        special = {token["content"] for token in tokenizer_json["added_tokens"] if token["special"]}
        unk_id = tokenizer_json["model"]["unk_id"]
        for i, (piece, score) in enumerate(tokenizer_json["model"]["vocab"]):
            kind = _PIECE.NORMAL if score else _PIECE.USER_DEFINED
            kind = _PIECE.CONTROL if piece in special else kind
            proto.pieces.add(piece=piece, score=score, type=_PIECE.UNKNOWN if i == unk_id else kind)
        proto.trainer_spec.model_type = _TRAINER.UNIGRAM
        proto.trainer_spec.unk_id = unk_id
        proto.normalizer_spec.precompiled_charsmap = _charsmap(tokenizer_json["normalizer"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FileFormatError(
            f"{source}: not a whole Unigram tokenizer ({error!r}); add spiece.model"
        ) from error
    return bytes(proto.SerializeToString())


def _charsmap(normalizer: Mapping[str, Any] | None) -> bytes:
    steps = (normalizer or {}).get("normalizers", [normalizer or {}])
    maps = [step["precompiled_charsmap"] for step in steps if step.get("type") == "Precompiled"]
    return base64.b64decode(maps[0]) if maps else b""
