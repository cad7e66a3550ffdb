"""ALBERT's SentencePiece tokenizer, and the conversion of its spiece.model to tokenizer.json and back."""

import base64
import sys
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from google.protobuf.message import DecodeError
from sentencepiece import SentencePieceProcessor, sentencepiece_model_pb2
from tokenizers import Regex, decoders, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend
from tokenizers.models import Unigram

from albert.errors import FileFormatError
from albert.text.normalize import PUBLISHED, Normalization, NormalizedText, normalize, normalize_text
from albert.text.tokenizer import (
    WORD_START,
    Encoding,
    Span,
    SpecialTokens,
    Tokenizer,
    get_section,
    list_normalizers,
    replace_surrogates,
)

T = TypeVar("T", int, str)
_PROTO: Any = sentencepiece_model_pb2
_Piece: Any = _PROTO.ModelProto.SentencePiece
_TRAINER: Any = _PROTO.TrainerSpec
_LOWEST_SCORE = -1000.0  # so that other tokens for the same characters win
# Prefixes of the Unicode names of letters in scripts without spaces between words.
_UNSPACED = (
    "CJK ", "HIRAGANA ", "KATAKANA", "BOPOMOFO ", "YI ", "THAI ", "LAO ", "KHMER ", "MYANMAR ", "TIBETAN ",
)  # fmt: skip


class SentencePieceTokenizer(Tokenizer):
    """Normalize, tokenize with SentencePiece, and split commas from numbers, as the published code does."""

    vocab_name = "spiece.model"
    json_model = "Unigram"
    options_type = Normalization
    special_tokens = SpecialTokens(pad="<pad>", unk="<unk>")

    def __init__(
        self, vocab_bytes: bytes, *, options: Normalization = PUBLISHED, source: str = "spiece.model"
    ) -> None:
        model = _parse_model(vocab_bytes, source=source)
        super().__init__(vocab_bytes, tokens=model.tokens, options=options, source=source)
        self._processor = SentencePieceProcessor(model_proto=vocab_bytes)
        # Special tokens are not in this table: one that is spelled out in a text is ordinary text.
        self._id_of = {model.tokens[i]: i for i in model.text_ids}
        self._comma_parts = {
            token: self._split_comma(token) for token in self._id_of if ends_in_digit_and_comma(token)
        }
        self._comma_ids = {self._id_of[token] for token in self._comma_parts}
        if "," not in self._id_of:  # then an unknown token may end in a comma, too
            self._comma_ids.add(self.unk_id)

    def encode_batch(self, texts: Iterable[str]) -> list[Encoding]:
        normalized = [normalize(text, rules=self.options) for text in replace_surrogates(texts)]
        rows = self._segment([each.text for each in normalized], out_type=str)
        return [self._build_encoding(*pair) for pair in zip(normalized, rows, strict=True)]

    def encode_ids(self, texts: Iterable[str]) -> list[list[int]]:
        if self.unk_id in self._comma_ids:
            return [list(encoding.ids) for encoding in self.encode_batch(texts)]
        normalized = [normalize_text(text, rules=self.options) for text in replace_surrogates(texts)]
        rows = self._segment(normalized, out_type=int)
        for index, row in enumerate(rows):
            if not self._comma_ids.isdisjoint(row):
                parts = (part for i in row for part in self._parts(self._tokens[i]))
                rows[index] = [self._id_of.get(part, self.unk_id) for part in parts]
        return rows

    def begins_word(self, token_id: int) -> bool:
        first = self._tokens[token_id][0]
        if first == WORD_START or unicodedata.category(first)[0] not in "LM":
            return True
        return unicodedata.name(first, "").startswith(_UNSPACED)

    def decode(self, ids: Iterable[int]) -> str:
        special = {self.pad_id, self.cls_id, self.sep_id}
        mask = {self.mask_id: WORD_START + self.special_tokens.mask}
        tokens = (mask.get(i) or self._tokens[i] for i in ids if i not in special)
        return "".join(tokens).replace(WORD_START, " ").strip()

    def to_tokenizer_json(self) -> str:
        # Not for the class AlbertTokenizer, whose own normalizer gives other ids for Korean, Hindi, Thai,
        # Greek capitals and some emoji. User-defined symbols are ordinary tokens with SentencePiece's score,
        # because added tokens would start a new word where SentencePiece does not.
        model = _parse_model(self.vocab_bytes, source=self.vocab_name)
        scores = list(model.scores)
        best = max((scores[i] for i in model.text_ids - model.user_ids), default=0.0)
        for i in model.user_ids:
            # As in SentencePiece's Viterbi search: higher than any other tokens for the same characters.
            scores[i] = len(model.tokens[i]) * best - 0.1
        for i in self._comma_ids - {self.unk_id}:
            scores[i] = _LOWEST_SCORE
        vocab = list(zip(model.tokens, scores, strict=True))
        backend = Backend(Unigram(vocab, unk_id=self.unk_id, byte_fallback=False))
        backend.normalizer = _build_normalizer(self.options, charsmap=model.charsmap)
        # Split again: SentencePiece's normalization creates spaces, for example from a byte-order mark.
        metaspace = pre_tokenizers.Metaspace(replacement=WORD_START, prepend_scheme="always")
        backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace])
        backend.decoder = decoders.Metaspace(replacement=WORD_START, prepend_scheme="always")
        return self._finish_json(backend)

    @classmethod
    def vocab_from_json(cls, content: Mapping[str, Any], *, source: Path) -> bytes:
        """Build a spiece.model; a score of 0 in tokenizer.json marks a user-defined symbol."""
        proto = _PROTO.ModelProto()
        special = {token["content"] for token in content["added_tokens"] if token["special"]}
        unk_id = content["model"]["unk_id"]
        for i, (token, score) in enumerate(content["model"]["vocab"]):
            piece_type = _Piece.NORMAL if score else _Piece.USER_DEFINED
            piece_type = _Piece.CONTROL if token in special else piece_type
            piece_type = _Piece.UNKNOWN if i == unk_id else piece_type
            proto.pieces.add(piece=token, score=score, type=piece_type)
        proto.trainer_spec.model_type = _TRAINER.UNIGRAM
        proto.trainer_spec.unk_id = unk_id
        normalizer = get_section(content, "normalizer")
        for step in normalizer.get("normalizers", [normalizer]):
            if step.get("type") == "Precompiled":
                charsmap = base64.b64decode(step["precompiled_charsmap"])
                proto.normalizer_spec.precompiled_charsmap = charsmap
        return bytes(proto.SerializeToString())

    @classmethod
    def options_from_json(cls, content: Mapping[str, Any], *, source: Path) -> dict[str, Any]:
        steps = list_normalizers(content)
        return {"do_lower_case": "Lowercase" in steps, "keep_accents": not steps & {"NFKD", "StripAccents"}}

    def _join_to_mask(self, encoding: Encoding) -> Encoding:
        # "the [MASK]." is tokenized like "the ship.", without a word boundary before the period.
        if not encoding.ids:
            return encoding
        first, rest = self._tokens[encoding.ids[0]], encoding.ids[1:]
        if first == WORD_START:
            return Encoding(rest, encoding.spans[1:])
        mark = first.removeprefix(WORD_START)
        # Only punctuation: letters may be a separate word. Spans omit what SentencePiece treats as a space
        # (U+200B).
        is_joined = mark in self._id_of and not mark[0].isalnum() and encoding.spans[0][0] == 0
        return Encoding((self._id_of[mark], *rest), encoding.spans) if is_joined else encoding

    def _segment(self, texts: list[str], *, out_type: type[T]) -> list[list[T]]:
        # SentencePiece starts a thread per list, which takes longer than tokenizing a few texts.
        if len(texts) < 4:
            return [self._processor.encode(text, out_type=out_type) for text in texts]
        return list(self._processor.encode(texts, out_type=out_type, num_threads=1))

    def _build_encoding(self, normalized: NormalizedText, tokens: list[str]) -> Encoding:
        ids = [self._id_of.get(token, self.unk_id) for token in tokens]
        surface = "".join(tokens)  # the text after SentencePiece's own normalization
        if surface[1:] != normalized.text.replace(" ", WORD_START) or surface[:1] != WORD_START:
            normalized = self._rewrite(normalized, surface)
        if not self._comma_ids.isdisjoint(ids):
            tokens = [part for token in tokens for part in self._parts(token)]
            ids = [self._id_of.get(token, self.unk_id) for token in tokens]
        spans: list[Span] = []
        # Word boundaries are in no span, and the first one is not in the text.
        end = -1 if surface[:1] == WORD_START else 0
        for token in tokens:
            start = end + (token[0] == WORD_START)
            end += len(token)
            spans.append((start, end))
        if not normalized.is_aligned:
            spans = [normalized.span(start, end) for start, end in spans]
        return Encoding(tuple(ids), tuple(spans))

    def _rewrite(self, normalized: NormalizedText, surface: str) -> NormalizedText:
        """Apply SentencePiece's own normalization to a normalized text."""
        _, starts = self._processor.normalize(normalized.text, with_offsets=True)
        ends: list[int] = []
        end = len(normalized.text)
        for start, following in zip(starts[-2::-1], starts[:0:-1], strict=True):
            end = following if following > start else end  # characters from one character share its range
            ends.append(max(end, start + 1))
        skip = surface.startswith(WORD_START)  # the boundary before the first word is not in the text
        return normalized.rewrite(surface[skip:], starts=starts[skip:-1], ends=ends[::-1][skip:])

    def _parts(self, token: str) -> list[str]:
        if token in self._comma_parts:
            return self._comma_parts[token]
        return self._split_comma(token) if ends_in_digit_and_comma(token) else [token]

    def _split_comma(self, token: str) -> list[str]:
        """Split `▁1990,` into `▁1990` and `,`."""
        parts: list[str] = self._processor.encode(token[:-1].replace(WORD_START, ""), out_type=str)
        if token[0] != WORD_START and parts[0][0] == WORD_START:
            parts = parts[1:] if parts[0] == WORD_START else [parts[0][1:], *parts[1:]]
        return [*parts, ","]


def ends_in_digit_and_comma(token: str) -> bool:
    """Return whether the published code splits the comma off; it keeps tokens that span several words."""
    return token[-1:] == "," and token[-2:-1].isdigit() and WORD_START not in token[1:]


@dataclass(frozen=True)
class _Model:
    """The content of a SentencePiece unigram model; tokens and scores are in the order of the ids."""

    tokens: tuple[str, ...]
    scores: tuple[float, ...]
    text_ids: frozenset[int]
    user_ids: frozenset[int]
    charsmap: bytes


def _parse_model(model_bytes: bytes, *, source: str) -> _Model:
    proto = _PROTO.ModelProto()
    try:
        proto.ParseFromString(model_bytes)
    except DecodeError:
        proto.Clear()
    if not proto.pieces:
        raise FileFormatError(f"{source}: not a SentencePiece model; download it again")
    if proto.trainer_spec.model_type != _TRAINER.UNIGRAM or proto.trainer_spec.byte_fallback:
        raise FileFormatError(
            f"{source}: only unigram models without byte fallback, like ALBERT's, are supported; "
            "train with model_type=unigram and byte_fallback=false"
        )
    types = [piece.type for piece in proto.pieces]
    user_ids = frozenset(i for i, each in enumerate(types) if each == _Piece.USER_DEFINED)
    return _Model(
        tokens=tuple(piece.piece for piece in proto.pieces),
        scores=tuple(piece.score for piece in proto.pieces),
        text_ids=user_ids | {i for i, each in enumerate(types) if each == _Piece.NORMAL},
        user_ids=user_ids,
        charsmap=proto.normalizer_spec.precompiled_charsmap,
    )


def _build_normalizer(rules: Normalization, *, charsmap: bytes) -> normalizers.Normalizer:
    steps: list[normalizers.Normalizer] = []
    if rules.remove_space:
        # Python's definition of white space has four more separators.
        steps += [normalizers.Replace(Regex(r"[\s\x1c-\x1f]+"), " "), normalizers.Strip()]
    steps += [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    if not rules.keep_accents:
        # Not StripAccents, which also removes vowel signs: the published code removes combining characters.
        steps += [normalizers.NFKD(), normalizers.Replace(Regex(_list_marks()), "")]
    if rules.do_lower_case:
        # Lowercase does not handle the final sigma.
        steps += [normalizers.Replace(Regex(r"(?<=\p{L})Σ(?!\p{L})"), "ς"), normalizers.Lowercase()]
    if charsmap:
        # SentencePiece composes Korean syllables and Precompiled does not, so NFC follows.
        steps += [normalizers.Precompiled(charsmap), normalizers.NFC()]
    return normalizers.Sequence(steps)


@lru_cache
def _list_marks() -> str:
    codes = [code for code in range(sys.maxunicode + 1) if unicodedata.combining(chr(code))]
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "[" + "".join(f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in ranges) + "]"
