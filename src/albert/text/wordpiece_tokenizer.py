"""BERT's WordPiece tokenizer, which Chinese ALBERT models use."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend
from tokenizers import decoders
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from albert.errors import FileFormatError
from albert.settings import Settings
from albert.text.tokenizer import (
    Encoding,
    SpecialTokens,
    Tokenizer,
    get_section,
    list_normalizers,
    replace_surrogates,
)


class WordPieceOptions(Settings):
    """BERT's normalization; `strip_accents=None` means the value of `do_lower_case`."""

    do_lower_case: bool = True
    strip_accents: bool | None = None
    tokenize_chinese_chars: bool = True


DEFAULTS = WordPieceOptions()


class WordPieceTokenizer(Tokenizer):
    """Split texts at spaces and punctuation, and words into the longest known tokens."""

    vocab_name = "vocab.txt"
    json_model = "WordPiece"
    options_type = WordPieceOptions
    special_tokens = SpecialTokens(pad="[PAD]", unk="[UNK]")
    transformers_class = "BertTokenizer"

    def __init__(
        self, vocab_bytes: bytes, *, options: WordPieceOptions = DEFAULTS, source: str = "vocab.txt"
    ) -> None:
        tokens = read_tokens(vocab_bytes, source=source)
        super().__init__(vocab_bytes, tokens=tokens, options=options, source=source)
        id_of = {token: i for i, token in enumerate(tokens)}
        self._backend = Backend(WordPiece(id_of, unk_token=self.special_tokens.unk))
        self._backend.normalizer = BertNormalizer(
            clean_text=True,
            handle_chinese_chars=options.tokenize_chinese_chars,
            strip_accents=options.strip_accents,
            lowercase=options.do_lower_case,
        )
        self._backend.pre_tokenizer = BertPreTokenizer()
        self._backend.decoder = decoders.WordPiece(prefix="##")

    def encode_batch(self, texts: Iterable[str]) -> list[Encoding]:
        rows = self._backend.encode_batch(replace_surrogates(texts), add_special_tokens=False)
        return [Encoding(tuple(row.ids), tuple(row.offsets)) for row in rows]

    def encode_ids(self, texts: Iterable[str]) -> list[list[int]]:
        rows = self._backend.encode_batch_fast(replace_surrogates(texts), add_special_tokens=False)
        return [row.ids for row in rows]

    def begins_word(self, token_id: int) -> bool:
        return not self._tokens[token_id].startswith("##")

    def decode(self, ids: Iterable[int]) -> str:
        special = {self.pad_id, self.cls_id, self.sep_id}
        return str(self._backend.decode([i for i in ids if i not in special], skip_special_tokens=False))

    def to_tokenizer_json(self) -> str:
        # A copy: once special tokens are added, a backend also finds them when a text spells them out.
        return self._finish_json(Backend.from_str(self._backend.to_str()))

    @classmethod
    def vocab_from_json(cls, content: Mapping[str, Any], *, source: Path) -> bytes:
        normalizer = get_section(content, "normalizer").get("type")
        if normalizer != "BertNormalizer":
            raise FileFormatError(
                f"{source}: a WordPiece model with the normalizer {normalizer} is not supported, only with "
                "BertNormalizer; add vocab.txt"
            )
        return join_vocab(content, source=source)

    @classmethod
    def options_from_json(cls, content: Mapping[str, Any], *, source: Path) -> dict[str, Any]:
        splitter = get_section(content, "pre_tokenizer").get("type")
        prefix = get_section(content, "model").get("continuing_subword_prefix", "##")
        for value, supported in ((splitter, "BertPreTokenizer"), (prefix, "##")):
            if value != supported:
                raise FileFormatError(
                    f"{source}: a WordPiece model with {value!r} is not supported, only with {supported!r}; "
                    "use a model with BERT's tokenization"
                )
        normalizer = get_section(content, "normalizer")
        if normalizer.get("type") == "BertNormalizer":
            return {
                "do_lower_case": normalizer.get("lowercase"),
                "strip_accents": normalizer.get("strip_accents"),
                "tokenize_chinese_chars": normalizer.get("handle_chinese_chars"),
            }
        steps = list_normalizers(content)
        return {
            "do_lower_case": "Lowercase" in steps,
            "strip_accents": "StripAccents" in steps,
            "tokenize_chinese_chars": False,
        }


def read_tokens(vocab_bytes: bytes, *, source: str) -> tuple[str, ...]:
    """Read a vocabulary with one token per line; raise a FileFormatError if it is empty or has duplicates."""
    try:
        text = vocab_bytes.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{source}: not UTF-8 text (byte {error.start}); download it again") from error
    tokens = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    if tokens == [""]:
        raise FileFormatError(f"{source}: empty; download the vocabulary again")
    (token, count), *_ = Counter(tokens).most_common(1)
    if count > 1:
        first = tokens.index(token)
        second = tokens.index(token, first + 1)
        raise FileFormatError(
            f"{source}: line {second + 1} repeats {token!r} of line {first + 1}; remove one of them"
        )
    return tuple(tokens)


def join_vocab(content: Mapping[str, Any], *, source: Path) -> bytes:
    """Convert the vocabulary of a tokenizer.json to a file with one token per line."""
    vocab = get_section(content, "model")["vocab"]
    if sorted(vocab.values()) != list(range(len(vocab))):
        raise FileFormatError(f"{source}: the ids of its vocabulary are not 0, 1, 2, …; add vocab.txt")
    return "".join(f"{token}\n" for token in sorted(vocab, key=vocab.__getitem__)).encode()
