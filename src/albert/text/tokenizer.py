"""The tokenizer interface and its results.

To add a tokenizer, write a module with a subclass of `Tokenizer` and add it to `folder.TOKENIZERS`.
"""

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from tokenizers import Tokenizer as Backend
from tokenizers.processors import TemplateProcessing

from albert.errors import FileFormatError
from albert.settings import Settings

MASK = "[MASK]"
WORD_START = "▁"  # before the first token of a word, or a token by itself
Span = tuple[int, int]
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Encoding:
    """The ids and raw spans `[start, end)` of tokens; a lone word boundary has an empty span."""

    ids: tuple[int, ...]
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class InputSequence:
    """`[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`; a span refers to the text of its segment, 0 or 1."""

    ids: tuple[int, ...]
    segments: tuple[int, ...]
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class SpecialTokens:
    """The names of the five special tokens in a vocabulary."""

    pad: str
    unk: str
    cls: str = "[CLS]"
    sep: str = "[SEP]"
    mask: str = MASK


class Tokenizer(ABC):
    """Tokenize texts into ids with spans. Tokenizers with equal fingerprints give equal ids."""

    vocab_name: ClassVar[str]
    json_model: ClassVar[str]  # the type of the model in tokenizer.json
    options_type: ClassVar[type[Settings]]
    special_tokens: ClassVar[SpecialTokens]
    transformers_class: ClassVar[str] = "PreTrainedTokenizerFast"
    # Whether each character is a token, so that texts may have no spaces.
    is_per_character: bool = False

    def __init__(self, vocab_bytes: bytes, *, tokens: Sequence[str], options: Settings, source: str) -> None:
        id_of = {token: i for i, token in enumerate(tokens)}
        special = astuple(self.special_tokens)
        if missing := [token for token in special if token not in id_of]:
            raise FileFormatError(
                f"{source}: has no {', '.join(missing)} among its {len(id_of)} tokens; use the model's own "
                "vocabulary, or train one with these tokens"
            )
        self.vocab_bytes = vocab_bytes
        self.options: Any = options
        self._tokens = tuple(tokens)
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = (id_of[token] for token in special)
        stamp = json.dumps([self.vocab_name, options.model_dump(mode="json")], sort_keys=True)
        self.fingerprint = hashlib.sha256(stamp.encode() + b"\0" + vocab_bytes).hexdigest()

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), options=self.options), (self.vocab_bytes,)

    @property
    def special_ids(self) -> frozenset[int]:
        return frozenset((self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id))

    @property
    def vocab_size(self) -> int:
        return len(self._tokens)

    def token(self, token_id: int) -> str:
        return self._tokens[token_id]

    @abstractmethod
    def encode_batch(self, texts: Iterable[str]) -> list[Encoding]:
        """Tokenize each text, with spans and without special tokens."""

    @abstractmethod
    def encode_ids(self, texts: Iterable[str]) -> list[list[int]]:
        """Return the ids of `encode_batch` without spans, which is faster."""

    def begins_word(self, token_id: int) -> bool:
        """Return whether a token begins a word; whole-word masking masks the tokens of a word together."""
        return True

    @abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """Convert ids to text, without padding, [CLS] and [SEP] but with [MASK]."""

    @abstractmethod
    def to_tokenizer_json(self) -> str:
        """Format a tokenizer.json with which `transformers` gives the same ids."""

    @classmethod
    @abstractmethod
    def vocab_from_json(cls, content: Mapping[str, Any], *, source: Path) -> bytes:
        """Build the vocabulary file from a tokenizer.json that was saved without it."""

    @classmethod
    @abstractmethod
    def options_from_json(cls, content: Mapping[str, Any], *, source: Path) -> dict[str, Any]:
        """Read the options of a tokenizer.json, by their names in tokenizer_config.json."""

    def encode(self, text: str, *, masks: bool = False) -> Encoding:
        """Tokenize one text; with `masks`, each literal `[MASK]` becomes the mask token."""
        if not masks or MASK not in text:
            return self.encode_batch([text])[0]
        ids: list[int] = []
        spans: list[Span] = []
        parts = text.split(MASK)
        offset = 0
        for part, encoding in zip(parts, self.encode_batch(parts), strict=True):
            if offset and part[:1].strip():
                encoding = self._join_to_mask(encoding)
            ids += (*encoding.ids, self.mask_id)
            spans += ((start + offset, end + offset) for start, end in encoding.spans)
            offset += len(part) + len(MASK)
            spans.append((offset - len(MASK), offset))
        return Encoding(tuple(ids[:-1]), tuple(spans[:-1]))  # no mask follows the last part

    def _join_to_mask(self, encoding: Encoding) -> Encoding:
        """Re-tokenize a text that follows a mask without a space, as if it followed a word."""
        return encoding

    def build_sequence(self, first: Encoding, second: Encoding | None = None) -> InputSequence:
        """Build `[CLS] first [SEP]` or `[CLS] first [SEP] second [SEP]`."""
        ids, segments, spans = [self.cls_id], [0], [(0, 0)]
        for segment, part in enumerate((first,) if second is None else (first, second)):
            end = part.spans[-1][1] if part.spans else 0
            ids += (*part.ids, self.sep_id)
            segments += [segment] * (len(part.ids) + 1)
            spans += (*part.spans, (end, end))
        return InputSequence(tuple(ids), tuple(segments), tuple(spans))

    def _finish_json(self, backend: Backend) -> str:
        cls, sep = self.special_tokens.cls, self.special_tokens.sep
        backend.add_special_tokens(list(astuple(self.special_tokens)))
        backend.post_processor = TemplateProcessing(
            single=f"{cls}:0 $A:0 {sep}:0",
            pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
            special_tokens=[(cls, backend.token_to_id(cls)), (sep, backend.token_to_id(sep))],
        )
        return str(backend.to_str(pretty=False))


def replace_surrogates(texts: Iterable[str]) -> list[str]:
    """Replace lone surrogates, which UTF-8 cannot encode, by U+FFFD."""
    return [text if text.isascii() else _SURROGATES.sub("\ufffd", text) for text in texts]


def get_section(content: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return an object of a tokenizer.json; {} if it is missing or null."""
    return content.get(key) or {}


def list_normalizers(content: Mapping[str, Any]) -> set[str]:
    """List the types of the normalizers in a tokenizer.json."""
    normalizer = get_section(content, "normalizer")
    return {str(step.get("type")) for step in normalizer.get("normalizers") or [normalizer]}
