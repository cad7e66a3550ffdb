"""Documents of sentences of ids come in as lists; a part of a shard goes out."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
import pyarrow as pa

from albert.data.shards import ShardPart, find_starts


def pack(documents: Sequence[Sequence[Sequence[int]]], *, id_type: pa.DataType | None = None) -> ShardPart:
    """All of them, the empty ones, too; two bytes an id unless told otherwise."""
    sentences = list(chain.from_iterable(documents))
    dtype = (id_type or pa.uint16()).to_pandas_dtype()
    return ShardPart(
        pieces=np.array(list(chain.from_iterable(sentences)), dtype=dtype),
        sentence_starts=find_starts(list(map(len, sentences))),
        document_starts=find_starts(list(map(len, documents))),
    )
