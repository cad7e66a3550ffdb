"""Read and write `spiece.model` and `tokenizer.json`, so that `transformers` gives the same ids."""

import base64
import sys
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import astuple, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Regex, decoders, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend
from tokenizers.models import Unigram

from albert.errors import FileFormatError
from albert.text.normalize import Normalization
from albert.text.tokenizer import SpecialTokens

_PROTO: Any = sentencepiece_model_pb2
_PIECE: Any = _PROTO.ModelProto.SentencePiece
_TRAINER: Any = _PROTO.TrainerSpec
_NEVER = -1000.0  # worse than any other tokens for the same characters


@dataclass(frozen=True)
class SentencePieceModel:
    """The content of a SentencePiece unigram model; tokens are in the order of their ids."""

    pieces: tuple[str, ...]
    scores: tuple[float, ...]
    text_pieces: frozenset[int]
    user_pieces: frozenset[int]
    charsmap: bytes


def parse_model(model_bytes: bytes, *, source: str) -> SentencePieceModel:
    """Parse a `spiece.model`; raise a FileFormatError if it is no unigram model."""
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
    """Build a `spiece.model` from a `tokenizer.json` that was saved without it.

    There a score of 0 marks user-defined symbols.
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


def build_unigram_json(
    model: SentencePieceModel, *, rules: Normalization, never: Collection[int], special: SpecialTokens
) -> str:
    """Build the `tokenizer.json` of a SentencePiece model; tokens in `never` are not used.

    `transformers` converts user-defined symbols to added tokens, which start a new word where SentencePiece
    does not; here they are ordinary tokens with the score that SentencePiece gives them. Near ties in a long
    text may still differ: SentencePiece adds scores as 32-bit floats.
    """
    id_of = {piece: i for i, piece in enumerate(model.pieces)}
    scores = _adjust_scores(model, never=never)
    backend = Backend(
        Unigram(list(zip(model.pieces, scores, strict=True)), unk_id=id_of[special.unk], byte_fallback=False)
    )
    backend.normalizer = _build_normalizer(rules, charsmap=model.charsmap)
    # Split again: SentencePiece's own normalization creates spaces, such as from a byte-order mark.
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always"),
        ]
    )
    backend.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    backend.add_special_tokens(list(astuple(special)))
    add_frame(backend, special=special)
    return str(backend.to_str(pretty=False))


def add_frame(backend: Backend, *, special: SpecialTokens) -> None:
    """Add `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]` to a backend."""
    cls, sep = special.cls, special.sep
    backend.post_processor = processors.TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0",
        pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
        special_tokens=[(cls, backend.token_to_id(cls)), (sep, backend.token_to_id(sep))],
    )


def _adjust_scores(model: SentencePieceModel, *, never: Collection[int]) -> list[float]:
    ordinary = model.text_pieces - model.user_pieces
    best = max((model.scores[i] for i in ordinary), default=0.0)
    scores = list(model.scores)
    for i in model.user_pieces:
        # As in SentencePiece's Viterbi search: better than any other tokens for the same characters.
        scores[i] = len(model.pieces[i]) * best - 0.1
    for i in never:
        scores[i] = _NEVER
    return scores


def _build_normalizer(rules: Normalization, *, charsmap: bytes) -> normalizers.Normalizer:
    steps: list[normalizers.Normalizer] = []
    if rules.remove_space:
        # Python's white space has four more separators.
        steps += [normalizers.Replace(Regex(r"[\s\x1c-\x1f]+"), " "), normalizers.Strip()]
    steps += [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    if not rules.keep_accents:
        # Not StripAccents, which also drops vowel signs: as published, combining characters are dropped.
        steps += [normalizers.NFKD(), normalizers.Replace(Regex(_list_marks()), "")]
    if rules.do_lower_case:
        # Lowercase does not handle the final sigma.
        steps += [normalizers.Replace(Regex(r"(?<=\p{L})Σ(?!\p{L})"), "ς"), normalizers.Lowercase()]
    if charsmap:
        # Precompiled does not compose Korean syllables, as SentencePiece does.
        steps += [normalizers.Precompiled(charsmap), normalizers.NFC()]
    return normalizers.Sequence(steps)


@lru_cache
def _list_marks() -> str:
    """Return a regular expression for all combining characters."""
    codes = [code for code in range(sys.maxunicode + 1) if unicodedata.combining(chr(code))]
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "[" + "".join(f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in ranges) + "]"


def get_section(content: Mapping[str, Any], key: str, path: Path) -> dict[str, Any]:
    """Return an object in `tokenizer.json`; empty if it is missing."""
    value = content.get(key) or {}
    if not isinstance(value, dict):
        raise FileFormatError(f"{path}: {key} is a {type(value).__name__}, not an object; fetch it again")
    return value


def read_rules(content: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return the options of a `tokenizer.json` by their names in `tokenizer_config.json`.

    Raises:
        FileFormatError: If a WordPiece model splits words in another way than BERT's.
    """
    kind = get_section(content, "model", path).get("type")
    if kind == "Unigram":
        return _read_unigram_rules(get_section(content, "normalizer", path))
    if kind == "WordLevel":
        cutter = get_section(content, "pre_tokenizer", path)
        return {"is_per_character": cutter.get("type") == "Sequence"}
    if kind == "WordPiece":
        _reject_other_cuts(content, path)
        return _read_bert_rules(get_section(content, "normalizer", path))
    return {}


def _reject_other_cuts(content: Mapping[str, Any], path: Path) -> None:
    cutter = get_section(content, "pre_tokenizer", path).get("type")
    if cutter != "BertPreTokenizer":
        raise FileFormatError(
            f"{path}: cuts texts into words by {cutter}, and WordPiece is opened only with BertPreTokenizer; "
            "take a model whose words are cut as BERT's"
        )
    prefix = get_section(content, "model", path).get("continuing_subword_prefix", "##")
    if prefix != "##":
        raise FileFormatError(
            f"{path}: continues words with {prefix!r}, and WordPiece is opened only with BERT's '##'; "
            "take a model whose pieces are written as BERT's"
        )


def _read_unigram_rules(normalizer: Mapping[str, Any]) -> dict[str, bool]:
    steps = _list_steps(normalizer)
    return {"do_lower_case": "Lowercase" in steps, "keep_accents": not steps & {"NFKD", "StripAccents"}}


def _read_bert_rules(normalizer: Mapping[str, Any]) -> dict[str, bool | None]:
    if normalizer.get("type") == "BertNormalizer":
        return {
            "do_lower_case": normalizer.get("lowercase"),
            "strip_accents": normalizer.get("strip_accents"),
            "tokenize_chinese_chars": normalizer.get("handle_chinese_chars"),
        }
    steps = _list_steps(normalizer)
    return {
        "do_lower_case": "Lowercase" in steps,
        "strip_accents": "StripAccents" in steps,
        "tokenize_chinese_chars": False,
    }


def _list_steps(normalizer: Mapping[str, Any]) -> set[str]:
    steps = normalizer.get("normalizers") or [normalizer]
    listed = steps if isinstance(steps, list) else []
    return {str(step.get("type")) for step in listed if isinstance(step, dict)}
