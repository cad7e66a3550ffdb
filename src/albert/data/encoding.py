"""Documents of paragraphs come in; split into sentences and cut into pieces, they go out as shard parts."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import pyarrow as pa

from albert.data.grouping import iter_groups
from albert.data.paragraphs import RawDocument
from albert.data.shards import MAX_BATCH_PIECES, ShardPart, build_part, choose_id_type, join_parts
from albert.text.sentences import split_sentences
from albert.text.tokenizer import Tokenizer

_BATCH_SENTENCES = 1000
_BATCH_CHARACTERS = 1 << 18
_BLOCK_SENTENCES = 4 * _BATCH_SENTENCES
_BLOCK_CHARACTERS = 4 * _BATCH_CHARACTERS


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
    parts = _iter_encoded(documents, tokenizer, language, tally)
    yield from map(join_parts, iter_groups(parts, (lambda part: len(part.pieces), MAX_BATCH_PIECES)))


def _iter_encoded(
    documents: Iterable[RawDocument], tokenizer: Tokenizer, language: str, tally: Tally
) -> Iterator[ShardPart]:
    """Encoded documents, about a thousand sentences at a time: what suits SentencePiece best."""
    id_type = choose_id_type(tokenizer.vocab_size)
    split = (_split(document, language) for document in documents)
    for group in iter_groups(split, (len, _BATCH_SENTENCES), (_count_characters, _BATCH_CHARACTERS)):
        yield from _encode(group, tokenizer, id_type, tally)


def _split(document: RawDocument, language: str) -> list[str]:
    if document.is_split:
        return list(document.paragraphs)
    return [
        text[start:end]
        for text in document.paragraphs
        for start, end in split_sentences(text, language=language)
    ]


def _count_characters(sentences: list[str]) -> int:
    return sum(map(len, sentences))


def _encode(
    documents: list[list[str]], tokenizer: Tokenizer, id_type: pa.DataType, tally: Tally
) -> Iterator[ShardPart]:
    id_dtype = id_type.to_pandas_dtype()
    blocks, lengths = [np.zeros(0, id_dtype)], []
    # A few at a time, of a document that is as long as a library: ids are large until they are packed.
    all_sentences = chain.from_iterable(documents)
    for sentences in iter_groups(all_sentences, (lambda _: 1, _BLOCK_SENTENCES), (len, _BLOCK_CHARACTERS)):
        tally.num_characters += _count_characters(sentences)
        rows = tokenizer.encode_ids(sentences)
        sizes = list(map(len, rows))
        lengths += sizes
        ids = chain.from_iterable(rows)
        blocks.append(np.fromiter(ids, dtype=id_dtype, count=sum(sizes)))
    part = build_part(blocks, lengths, list(map(len, documents)))
    num_filled = len(part.document_starts) - 1
    if num_filled < len(documents):
        tally.dropped["empty_documents"] += len(documents) - num_filled
    if num_filled:
        tally.num_unknown += int(np.count_nonzero(part.pieces == tokenizer.unk_id))
        yield part
