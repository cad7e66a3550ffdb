"""ALBERT's SentencePiece tokenizer."""

import unicodedata
from collections.abc import Iterable
from functools import partial
from typing import Any, TypeVar

from sentencepiece import SentencePieceProcessor

from albert.errors import FileFormatError
from albert.text.encoding import Encoding, Span
from albert.text.normalize import PUBLISHED, Normalization, NormalizedText, normalize, normalize_text
from albert.text.tokenizer import SpecialTokens, Tokenizer, well_formed
from albert.text.tokenizer_json import build_unigram_json, parse_model

T = TypeVar("T", int, str)
BORDER = "▁"  # SentencePiece's space before a word
# Prefixes of the Unicode names of letters in scripts without spaces between words.
_UNSPACED = (
    "CJK ", "HIRAGANA ", "KATAKANA", "BOPOMOFO ", "YI ", "THAI ", "LAO ", "KHMER ", "MYANMAR ", "TIBETAN ",
)  # fmt: skip


class SentencePieceTokenizer(Tokenizer):
    """Normalize, tokenize with SentencePiece, and split a comma from the number before it."""

    vocab_name = "spiece.model"
    special_tokens = SpecialTokens(pad="<pad>", unk="<unk>")

    def __init__(
        self, vocab_bytes: bytes, *, rules: Normalization = PUBLISHED, source: str = "spiece.model"
    ) -> None:
        model = parse_model(vocab_bytes, source=source)
        id_of = {piece: i for i, piece in enumerate(model.pieces)}
        super().__init__(vocab_bytes, options=rules, id_of=id_of, source=source)
        self.rules = rules
        self._processor = _build_processor(vocab_bytes, source=source)
        self._pieces = model.pieces
        # A special token spelled out in a text is text: it has no place in this table.
        self._id_of = {model.pieces[i]: i for i in model.text_pieces}
        self._comma_parts = {
            piece: self._split_comma(piece) for piece in self._id_of if ends_in_digit_and_comma(piece)
        }
        self._comma_ids = {self._id_of[piece] for piece in self._comma_parts}
        if "," not in self._id_of:  # then a piece of unknown characters may end in a comma as well
            self._comma_ids.add(self.unk_id)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(SentencePieceTokenizer, rules=self.rules), (self.vocab_bytes,)

    @property
    def vocab_size(self) -> int:
        """The number of pieces, special tokens included."""
        return len(self._pieces)

    def encode_batch(self, texts: Iterable[str]) -> list[Encoding]:
        """Cut each text into pieces with their spans; no special tokens are added."""
        normalized = [normalize(text, rules=self.rules) for text in well_formed(texts)]
        rows = self._cut([each.text for each in normalized], out_type=str)
        return [self._build_encoding(*pair) for pair in zip(normalized, rows, strict=True)]

    def encode_ids(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids alone, as `encode_batch` gives them and faster."""
        if self.unk_id in self._comma_ids:
            return [list(encoding.ids) for encoding in self.encode_batch(texts)]
        normalized = [normalize_text(text, rules=self.rules) for text in well_formed(texts)]
        rows = self._cut(normalized, out_type=int)
        return [row if self._comma_ids.isdisjoint(row) else self._split_commas(row) for row in rows]

    def piece(self, piece_id: int) -> str:
        """The piece of an id, spelled as in the vocabulary."""
        return self._pieces[piece_id]

    def begins_word(self, piece_id: int) -> bool:
        """Whether a piece carries the border of a word in front of it, or is no continuation of letters.

        Punctuation and digits begin anew, as published, and so does a piece of a script without spaces:
        there a whole sentence would be one word. The vowel signs of Hindi and others are part of theirs.
        """
        first = self._pieces[piece_id][0]
        if first == BORDER or unicodedata.category(first)[0] not in "LM":
            return True
        return unicodedata.name(first, "").startswith(_UNSPACED)

    def decode(self, ids: Iterable[int]) -> str:
        """The text that the ids spell; padding, [CLS] and [SEP] are left out, [MASK] is not."""
        silent = {self.pad_id, self.cls_id, self.sep_id}
        mask = {self.mask_id: BORDER + self.special_tokens.mask}
        pieces = (mask.get(i) or self._pieces[i] for i in ids if i not in silent)
        return "".join(pieces).replace(BORDER, " ").strip()

    def to_tokenizer_json(self) -> str:
        """The content of a `tokenizer.json` with which `transformers` gives the same ids."""
        model = parse_model(self.vocab_bytes, source=self.vocab_name)
        return build_unigram_json(
            model, rules=self.rules, never=self._comma_ids - {self.unk_id}, special=self.special_tokens
        )

    def to_tokenizer_config(self) -> dict[str, Any]:
        """The class and the options that a `tokenizer_config.json` names."""
        # Not AlbertTokenizer, which puts a normalizer of its own in the place of ours: with it, Korean,
        # Hindi, Thai, Greek capitals and some emoji would get other ids.
        return {"tokenizer_class": "PreTrainedTokenizerFast", **self.rules.model_dump()}

    def _join_to_mask(self, encoding: Encoding) -> Encoding:
        # "the [MASK]." is to be cut as "the ship." is: no border of a word stands before the full stop.
        if not encoding.ids:
            return encoding
        first, rest = self._pieces[encoding.ids[0]], encoding.ids[1:]
        if first == BORDER:
            return Encoding(rest, encoding.spans[1:])
        sign = first.removeprefix(BORDER)
        # Only a sign that stands right there: letters may well be a word of their own, and what SentencePiece
        # takes for a space (U+200B) is in no span.
        is_joined = sign in self._id_of and not sign[0].isalnum() and encoding.spans[0][0] == 0
        return Encoding((self._id_of[sign], *rest), encoding.spans) if is_joined else encoding

    def _cut(self, texts: list[str], *, out_type: type[T]) -> list[list[T]]:
        # SentencePiece starts a thread for each list; a few texts are done sooner than that.
        if len(texts) < 4:
            return [self._processor.encode(text, out_type=out_type) for text in texts]
        return list(self._processor.encode(texts, out_type=out_type, num_threads=1))

    def _build_encoding(self, normalized: NormalizedText, pieces: list[str]) -> Encoding:
        ids = [self._id_of.get(piece, self.unk_id) for piece in pieces]
        surface = "".join(pieces)  # the text after SentencePiece's own normalization
        if surface[1:] != normalized.text.replace(" ", BORDER) or surface[:1] != BORDER:
            normalized = self._rewrite(normalized, surface)
        if not self._comma_ids.isdisjoint(ids):
            pieces = [part for piece in pieces for part in self._parts(piece)]
            ids = [self._id_of.get(piece, self.unk_id) for piece in pieces]
        spans = _find_spans(pieces)
        if not normalized.is_aligned:
            spans = [normalized.span(start, end) for start, end in spans]
        return Encoding(tuple(ids), tuple(spans))

    def _rewrite(self, normalized: NormalizedText, surface: str) -> NormalizedText:
        """Follow SentencePiece's normalization, whose character i starts at `places[i]` of ours."""
        _, places = self._processor.normalize(normalized.text, with_offsets=True)
        ends: list[int] = []
        end = len(normalized.text)
        for place, following in zip(places[-2::-1], places[:0:-1], strict=True):
            end = following if following > place else end  # several from one: all have the whole of it
            ends.append(max(end, place + 1))
        skip = surface.startswith(BORDER)  # the border before the first word is nowhere in the text
        return normalized.rewrite(surface[skip:], starts=places[skip:-1], ends=ends[::-1][skip:])

    def _split_commas(self, ids: list[int]) -> list[int]:
        parts = (part for i in ids for part in self._parts(self._pieces[i]))
        return [self._id_of.get(part, self.unk_id) for part in parts]

    def _parts(self, piece: str) -> list[str]:
        if piece in self._comma_parts:
            return self._comma_parts[piece]
        return self._split_comma(piece) if ends_in_digit_and_comma(piece) else [piece]

    def _split_comma(self, piece: str) -> list[str]:
        """`▁1990,` as `▁1990` `,`: the number cut on its own, as in the published code."""
        parts: list[str] = self._processor.encode(piece[:-1].replace(BORDER, ""), out_type=str)
        if piece[0] != BORDER and parts[0][0] == BORDER:
            parts = parts[1:] if parts[0] == BORDER else [parts[0][1:], *parts[1:]]
        return [*parts, ","]


def ends_in_digit_and_comma(piece: str) -> bool:
    """Whether the published code cuts the comma off this piece; a piece across words is left whole."""
    return piece[-1:] == "," and piece[-2:-1].isdigit() and BORDER not in piece[1:]


def _find_spans(pieces: list[str]) -> list[Span]:
    """Where each piece lies in their text, counted without the first border; a border is in no span."""
    spans: list[Span] = []
    end = -1 if pieces and pieces[0][0] == BORDER else 0
    for piece in pieces:
        start = end + (piece[0] == BORDER)
        end += len(piece)
        spans.append((start, end))
    return spans


def _build_processor(model_bytes: bytes, *, source: str) -> SentencePieceProcessor:
    try:
        return SentencePieceProcessor(model_proto=model_bytes)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise FileFormatError(
            f"{source}: SentencePiece refuses it ({reason}); fetch the vocabulary again"
        ) from error
