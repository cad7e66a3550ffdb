"""The interface of all tokenizers."""

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, ClassVar

from albert.errors import FileFormatError
from albert.settings import Settings
from albert.text.encoding import Encoding, InputSequence, Span

MASK = "[MASK]"
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class SpecialTokens:
    """How a vocabulary spells the five tokens that are no text."""

    pad: str
    unk: str
    cls: str = "[CLS]"
    sep: str = "[SEP]"
    mask: str = MASK


class Tokenizer(ABC):
    """What every tokenizer does, whatever its vocabulary; all can be pickled.

    `vocab_bytes` is the vocabulary file as it was read, and `fingerprint` a hash of it and of the options:
    equal fingerprints give equal ids.
    """

    vocab_name: ClassVar[str]
    special_tokens: ClassVar[SpecialTokens]
    # Whether each character is a piece and nothing need stand between them.
    is_per_character: bool = False

    def __init__(
        self, vocab_bytes: bytes, *, options: Settings, id_of: Mapping[str, int], source: str
    ) -> None:
        missing = [token for token in astuple(self.special_tokens) if token not in id_of]
        if missing:
            raise FileFormatError(
                f"{source}: has no {', '.join(missing)} among its {len(id_of)} pieces; "
                "use the model's own vocabulary, or train one with these tokens"
            )
        self.vocab_bytes = vocab_bytes
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = (
            id_of[token] for token in astuple(self.special_tokens)
        )
        stamp = json.dumps([self.vocab_name, options.model_dump(mode="json")], sort_keys=True)
        self.fingerprint = hashlib.sha256(stamp.encode() + b"\0" + vocab_bytes).hexdigest()

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids that stand for no piece of a text."""
        return frozenset((self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id))

    @property
    @abstractmethod
    def vocab_size(self) -> int:
        """The number of pieces, special tokens included."""

    @abstractmethod
    def encode_batch(self, texts: Iterable[str]) -> list[Encoding]:
        """Cut each text into pieces with their spans; no special tokens are added."""

    @abstractmethod
    def encode_ids(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids alone, as `encode_batch` gives them and faster."""

    @abstractmethod
    def piece(self, piece_id: int) -> str:
        """The piece of an id, spelled as in the vocabulary."""

    def begins_word(self, piece_id: int) -> bool:
        """Whether a piece begins a word: what whole-word masking keeps together. Here, every piece does."""
        return True

    @abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """The text that the ids spell; padding, [CLS] and [SEP] are left out, [MASK] is not."""

    @abstractmethod
    def to_tokenizer_json(self) -> str:
        """The content of a `tokenizer.json` with which `transformers` gives the same ids."""

    @abstractmethod
    def to_tokenizer_config(self) -> dict[str, Any]:
        """The class and the options that a `tokenizer_config.json` names."""

    def encode(self, text: str, *, masks: bool = False) -> Encoding:
        """Cut one text into pieces; with `masks`, each literal `[MASK]` in it becomes the mask's id."""
        if not masks or MASK not in text:
            return self.encode_batch([text])[0]
        ids: list[int] = []
        spans: list[Span] = []
        parts = text.split(MASK)
        place = 0
        for part, encoding in zip(parts, self.encode_batch(parts), strict=True):
            if place and part[:1].strip():
                encoding = self._join_to_mask(encoding)
            ids += (*encoding.ids, self.mask_id)
            spans += ((start + place, end + place) for start, end in encoding.spans)
            place += len(part) + len(MASK)
            spans.append((place - len(MASK), place))
        return Encoding(tuple(ids[:-1]), tuple(spans[:-1]))  # no mask follows the last part

    def _join_to_mask(self, encoding: Encoding) -> Encoding:
        """What stands right behind a mask, without a space: as it would be cut behind a word."""
        return encoding

    def build_sequence(self, first: Encoding, second: Encoding | None = None) -> InputSequence:
        """Frame one or two encodings as `[CLS] first [SEP]` or `[CLS] first [SEP] second [SEP]`."""
        ids = (self.cls_id, *first.ids, self.sep_id)
        spans = ((0, 0), *first.spans, _end(first))
        segments = (0,) * len(ids)
        if second is None:
            return InputSequence(ids, segments, spans)
        return InputSequence(
            ids=(*ids, *second.ids, self.sep_id),
            segments=segments + (1,) * (len(second.ids) + 1),
            spans=(*spans, *second.spans, _end(second)),
        )


def well_formed(texts: Iterable[str]) -> list[str]:
    """Put U+FFFD for each half of a surrogate pair, which no UTF-8 can hold; lengths stay as they are."""
    return [text if text.isascii() else _SURROGATES.sub("\ufffd", text) for text in texts]


def _end(encoding: Encoding) -> Span:
    last: Sequence[int] = encoding.spans[-1] if encoding.spans else (0, 0)
    return last[1], last[1]
