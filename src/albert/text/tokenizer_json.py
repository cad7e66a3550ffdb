"""A SentencePiece model comes in, the `tokenizer.json` that gives the same ids in `transformers` goes out."""

import sys
import unicodedata
from collections.abc import Collection
from dataclasses import astuple
from functools import lru_cache

from tokenizers import Regex, decoders, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend
from tokenizers.models import Unigram

from albert.text.normalise import Normalisation
from albert.text.sentencepiece_model import SentencePieceModel
from albert.text.tokenizer import SpecialTokens

_NEVER = -1000.0  # below any way of cutting the same characters


def build_unigram_json(
    model: SentencePieceModel, *, rules: Normalisation, never: Collection[int], special: SpecialTokens
) -> str:
    """Write the model for `tokenizers`; the pieces whose ids are in `never` are not to be used.

    `transformers` makes SentencePiece's user-defined symbols added tokens, which start a new word where
    SentencePiece does not; here they are pieces whose score is the one that SentencePiece gives them.
    What may still differ is a near tie in a long text, whose scores SentencePiece adds as 32-bit floats.
    """
    id_of = {piece: i for i, piece in enumerate(model.pieces)}
    scores = _adjust_scores(model, never=never)
    backend = Backend(
        Unigram(list(zip(model.pieces, scores, strict=True)), unk_id=id_of[special.unk], byte_fallback=False)
    )
    backend.normalizer = _build_normalizer(rules, charsmap=model.charsmap)
    # White space goes twice: SentencePiece's own table makes new spaces, of a byte-order mark for one.
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
    """Have a backend put `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]` around what it cuts."""
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
        # SentencePiece's rule for them, in its Viterbi search: better than any other pieces in their place.
        scores[i] = len(model.pieces[i]) * best - 0.1
    for i in never:
        scores[i] = _NEVER
    return scores


def _build_normalizer(rules: Normalisation, *, charsmap: bytes) -> normalizers.Normalizer:
    steps: list[normalizers.Normalizer] = []
    if rules.remove_space:
        # Python's white space has four separators more.
        steps += [normalizers.Replace(Regex(r"[\s\x1c-\x1f]+"), " "), normalizers.Strip()]
    steps += [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    if not rules.keep_accents:
        # Not StripAccents, which drops vowel signs and the like, too: as published, what combines is dropped.
        steps += [normalizers.NFKD(), normalizers.Replace(Regex(_list_marks()), "")]
    if rules.do_lower_case:
        # Lowercase does not know the sigma that ends a word.
        steps += [normalizers.Replace(Regex(r"(?<=\p{L})Σ(?!\p{L})"), "ς"), normalizers.Lowercase()]
    if charsmap:
        # Precompiled does not join the letters of a Korean syllable again, as SentencePiece does.
        steps += [normalizers.Precompiled(charsmap), normalizers.NFC()]
    return normalizers.Sequence(steps)


@lru_cache
def _list_marks() -> str:
    """The class of all characters that combine with the one before them, as ranges."""
    codes = [code for code in range(sys.maxunicode + 1) if unicodedata.combining(chr(code))]
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "[" + "".join(f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in ranges) + "]"
