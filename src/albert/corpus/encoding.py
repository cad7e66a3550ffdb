"""Documents of paragraphs come in; split into sentences and cut into pieces, they go out as shard parts."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice

import numpy as np
import pyarrow as pa

from albert.corpus.paragraphs import RawDocument
from albert.corpus.shards import MAX_BATCH_PIECES, ShardPart, build_part, choose_id_type, join_parts
from albert.text.sentences import split_sentences
from albert.text.tokenizer import Tokenizer

_BATCH_SENTENCES = 1000
_BATCH_CHARACTERS = 1 << 18


@dataclass
class Tally:
    """What is counted while a unit is written."""

    dropped: Counter[str] = field(default_factory=Counter)
    num_characters: int = 0
    num_unknown: int = 0


def iter_parts(
    documents: Iterable[RawDocument], tokenizer: Tokenizer, *, language: str, tally: Tally
) -> Iterator[ShardPart]:
    """The record batches of a shard: as many whole documents as fill one."""
    gathered: list[ShardPart] = []
    num_pieces = 0
    for part in _iter_encoded(documents, tokenizer, language, tally):
        gathered.append(part)
        num_pieces += len(part.pieces)
        if num_pieces >= MAX_BATCH_PIECES:
            yield join_parts(gathered)
            gathered, num_pieces = [], 0
    if gathered:
        yield join_parts(gathered)


def _iter_encoded(
    documents: Iterable[RawDocument], tokenizer: Tokenizer, language: str, tally: Tally
) -> Iterator[ShardPart]:
    """Encoded documents, about a thousand sentences at a time: what suits SentencePiece best."""
    id_type = choose_id_type(tokenizer.vocab_size)
    waiting: list[list[str]] = []
    num_sentences = num_characters = 0
    for document in documents:
        sentences = _split(document, language)
        waiting.append(sentences)
        num_sentences += len(sentences)
        num_characters += sum(map(len, sentences))
        if num_sentences >= _BATCH_SENTENCES or num_characters >= _BATCH_CHARACTERS:
            tally.num_characters += num_characters
            yield from _encode(waiting, tokenizer, id_type, tally)
            waiting, num_sentences, num_characters = [], 0, 0
    if waiting:
        tally.num_characters += num_characters
        yield from _encode(waiting, tokenizer, id_type, tally)


def _split(document: RawDocument, language: str) -> list[str]:
    if document.is_split:
        return list(document.paragraphs)
    return [
        text[start:end]
        for text in document.paragraphs
        for start, end in split_sentences(text, language=language)
    ]


def _encode(
    documents: list[list[str]], tokenizer: Tokenizer, id_type: pa.DataType, tally: Tally
) -> Iterator[ShardPart]:
    rows = iter(tokenizer.encode_ids(list(chain.from_iterable(documents))))
    encoded = [[row for row in islice(rows, len(document)) if row] for document in documents]
    filled = [document for document in encoded if document]
    if len(filled) < len(documents):
        tally.dropped["empty_documents"] += len(documents) - len(filled)
    if filled:
        part = build_part(filled, id_type=id_type)
        tally.num_unknown += int(np.count_nonzero(part.pieces == tokenizer.unk_id))
        yield part
