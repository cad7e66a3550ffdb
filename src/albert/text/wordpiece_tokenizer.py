"""BERT's WordPiece tokenizer."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import astuple
from functools import partial
from typing import Any

from tokenizers import Tokenizer as Backend
from tokenizers import decoders
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from albert.errors import FileFormatError
from albert.settings import Settings
from albert.text.encoding import Encoding
from albert.text.tokenizer import SpecialTokens, Tokenizer, well_formed
from albert.text.tokenizer_json import add_frame


class WordPieceOptions(Settings):
    """How BERT cleans a text; `strip_accents` of None means as `do_lower_case`."""

    do_lower_case: bool = True
    strip_accents: bool | None = None
    tokenize_chinese_chars: bool = True


DEFAULTS = WordPieceOptions()


class WordPieceTokenizer(Tokenizer):
    """BERT's tokenizer, as in Chinese ALBERT: split at spaces and punctuation, then longest match."""

    vocab_name = "vocab.txt"
    special_tokens = SpecialTokens(pad="[PAD]", unk="[UNK]")

    def __init__(
        self, vocab_bytes: bytes, *, options: WordPieceOptions = DEFAULTS, source: str = "vocab.txt"
    ) -> None:
        self._pieces = read_pieces(vocab_bytes, source=source)
        id_of = {piece: i for i, piece in enumerate(self._pieces)}
        super().__init__(vocab_bytes, options=options, id_of=id_of, source=source)
        self.options = options
        self._backend = _build_backend(id_of, options=options, unk=self.special_tokens.unk)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(WordPieceTokenizer, options=self.options), (self.vocab_bytes,)

    @property
    def vocab_size(self) -> int:
        """The number of pieces, special tokens included."""
        return len(self._pieces)

    def encode_batch(self, texts: Iterable[str]) -> list[Encoding]:
        """Cut each text into pieces with their spans; no special tokens are added."""
        rows = self._backend.encode_batch(well_formed(texts), add_special_tokens=False)
        return [Encoding(tuple(row.ids), tuple(row.offsets)) for row in rows]

    def encode_ids(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids alone, as `encode_batch` gives them and faster."""
        return [
            row.ids for row in self._backend.encode_batch_fast(well_formed(texts), add_special_tokens=False)
        ]

    def piece(self, piece_id: int) -> str:
        """The piece of an id, spelled as in the vocabulary."""
        return self._pieces[piece_id]

    def begins_word(self, piece_id: int) -> bool:
        """Whether a piece does not continue the one before it."""
        return not self._pieces[piece_id].startswith("##")

    def decode(self, ids: Iterable[int]) -> str:
        """The text that the ids spell; padding, [CLS] and [SEP] are left out, [MASK] is not."""
        silent = {self.pad_id, self.cls_id, self.sep_id}
        return str(self._backend.decode([i for i in ids if i not in silent], skip_special_tokens=False))

    def to_tokenizer_json(self) -> str:
        """The content of a `tokenizer.json` with which `transformers` gives the same ids."""
        # A copy: with special tokens added, a backend also finds them spelled out in a text.
        backend = Backend.from_str(self._backend.to_str())
        backend.add_special_tokens(list(astuple(self.special_tokens)))
        add_frame(backend, special=self.special_tokens)
        return str(backend.to_str(pretty=False))

    def to_tokenizer_config(self) -> dict[str, Any]:
        """The class and the options that a `tokenizer_config.json` names."""
        return {"tokenizer_class": "BertTokenizer", **self.options.model_dump()}


def read_pieces(vocab_bytes: bytes, *, source: str) -> tuple[str, ...]:
    """Read one token per line; reject an empty file, other encodings and repeated tokens."""
    try:
        text = vocab_bytes.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{source}: not UTF-8 text (byte {error.start}); fetch it again") from error
    pieces = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    if pieces == [""]:
        raise FileFormatError(f"{source}: empty; fetch the vocabulary again")
    (piece, count), *_ = Counter(pieces).most_common(1)
    if count > 1:
        first = pieces.index(piece)
        second = pieces.index(piece, first + 1)
        raise FileFormatError(
            f"{source}: line {second + 1} repeats {piece!r} of line {first + 1}; each piece may stand once"
        )
    return tuple(pieces)


def _build_backend(id_of: dict[str, int], *, options: WordPieceOptions, unk: str) -> Backend:
    backend = Backend(WordPiece(id_of, unk_token=unk))
    backend.normalizer = BertNormalizer(
        clean_text=True,
        handle_chinese_chars=options.tokenize_chinese_chars,
        strip_accents=options.strip_accents,
        lowercase=options.do_lower_case,
    )
    backend.pre_tokenizer = BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    return backend
