"""Summarize a prepared corpus: counts from the manifest, lengths from the shards."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from albert.data.corpus import Corpus

_SHARES = {
    "shortest": 0.0, "quarter": 0.25, "median": 0.5, "three quarters": 0.75, "99%": 0.99, "longest": 1.0,
}  # fmt: skip


@dataclass(frozen=True)
class Lengths:
    """The mean length, and quantiles."""

    mean: float
    at: dict[str, int]


@dataclass(frozen=True)
class Summary:
    """What a corpus holds and is made from."""

    num_documents: int
    num_sentences: int
    num_pieces: int
    num_characters: int
    unknown_share: float
    vocabulary: str
    vocab_size: int
    sentence_pieces: Lengths
    document_sentences: Lengths
    document_pieces: Lengths
    dropped: dict[str, int]
    layouts: dict[str, int]
    num_sources: int
    num_source_bytes: int
    num_shards: int
    num_shard_bytes: int
    settings: dict[str, str | int | float | bool | None]


def summarise_corpus(corpus: Corpus) -> Summary:
    """Summarize a corpus; its shards are read one part at a time."""
    sentences: Counter[int] = Counter()
    documents: Counter[int] = Counter()
    pieces: Counter[int] = Counter()
    for number, part in enumerate(corpus.parts):
        _tally(sentences, np.diff(part.sentence_starts))
        _tally(documents, np.diff(part.document_starts))
        _tally(pieces, np.diff(part.sentence_starts[part.document_starts]))
        corpus.let_go(number)
    manifest = corpus.manifest
    names = (
        "num_documents", "num_sentences", "num_pieces", "num_characters", "vocabulary", "vocab_size",
        "dropped", "settings",
    )  # fmt: skip
    return Summary(
        **{name: getattr(manifest, name) for name in names},
        unknown_share=manifest.num_unknown / max(manifest.num_pieces, 1),
        sentence_pieces=_describe(sentences),
        document_sentences=_describe(documents),
        document_pieces=_describe(pieces),
        layouts=dict(Counter(source.layout or f"skipped: {source.skipped}" for source in manifest.sources)),
        num_sources=len(manifest.sources),
        num_source_bytes=sum(source.num_bytes for source in manifest.sources),
        num_shards=len(manifest.shards),
        num_shard_bytes=sum(shard.num_bytes for shard in manifest.shards),
    )


def _tally(counter: Counter[int], lengths: NDArray[np.int32]) -> None:
    values, counts = np.unique(lengths, return_counts=True)
    counter.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))


def _describe(counter: Counter[int]) -> Lengths:
    if not counter:
        return Lengths(0.0, dict.fromkeys(_SHARES, 0))
    values = np.array(sorted(counter), dtype=np.int64)
    counts = np.array([counter[int(value)] for value in values], dtype=np.int64)
    reached = counts.cumsum() / counts.sum()
    at = {name: int(values[np.searchsorted(reached, share)]) for name, share in _SHARES.items()}
    return Lengths(float((values * counts).sum() / counts.sum()), at)
