"""Documents of paragraphs come in; split into sentences and cut into pieces, they go out as shard parts."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

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
    id_dtype = id_type.to_pandas_dtype()
    blocks, lengths = [np.zeros(0, id_dtype)], []
    for sentences in _iter_blocks(chain.from_iterable(documents)):
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


def _iter_blocks(sentences: Iterable[str]) -> Iterator[list[str]]:
    """A few at a time, of a document that is as long as a library: ids are large until they are packed."""
    waiting: list[str] = []
    num_characters = 0
    for sentence in sentences:
        waiting.append(sentence)
        num_characters += len(sentence)
        if len(waiting) >= 4 * _BATCH_SENTENCES or num_characters >= 4 * _BATCH_CHARACTERS:
            yield waiting
            waiting, num_characters = [], 0
    if waiting:
        yield waiting
