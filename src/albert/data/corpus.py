"""Open a prepared corpus, local or remote, as one long sequence of tokens, split it and summarize it."""

import mmap
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albert.data import shards
from albert.data.shards import MANIFEST_NAME, Manifest, ShardEntry, ShardPart
from albert.data.storage import ByteProgress, LocalFolder, PathOrUrl, RemoteFolder, is_url, to_path
from albert.errors import FileFormatError, InputError
from albert.files import atomic_path, default_cache_dir, hash_file, hold, writing_to
from albert.progress import NullReporter, Reporter

CORPORA_DIR = "corpora"
# A corpus up to this size may stay in memory. Pages of a larger one are released after use: an access can
# load megabytes around it, which would count as memory of this process until it ends.
LARGE_BYTES = 128 * 1024 * 1024
_NUM_THREADS = 8
_QUANTILES = {
    "shortest": 0.0, "quarter": 0.25, "median": 0.5, "three quarters": 0.75, "99%": 0.99, "longest": 1.0,
}  # fmt: skip


@dataclass(frozen=True)
class Corpus:
    """The parts of all shards in order; `starts[k]` is the number of tokens before part k."""

    folder: Path
    manifest: Manifest
    parts: tuple[ShardPart, ...]
    starts: NDArray[np.int64]
    sentences: tuple[int, int] | None = None  # a range of the folder's sentences, or all
    url: str | None = None  # of a remote corpus

    @property
    def name(self) -> str:
        return self.url or str(self.folder)

    @property
    def location(self) -> str:
        return self.url or str(self.folder.resolve())

    @property
    def num_tokens(self) -> int:
        return int(self.starts[-1])

    @property
    def num_documents(self) -> int:
        return sum(part.num_documents for part in self.parts)

    @cached_property
    def _is_large(self) -> bool:
        num_bytes = sum(shard.num_bytes for shard in self.manifest.shards)
        return num_bytes > LARGE_BYTES and hasattr(mmap, "MADV_DONTNEED")

    def release(self, part: int) -> None:
        """Release the memory of a part if the corpus is large; the next access loads it again."""
        file = self.parts[part].file
        if self._is_large and file is not None:
            file.madvise(mmap.MADV_DONTNEED)

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process maps the files itself instead of receiving their content.
        return _open_range, (self.folder, self.sentences, self.url)


def is_corpus(location: PathOrUrl) -> bool:
    """Whether this is the folder of a prepared corpus, or a URL."""
    return is_url(location) or (Path(location) / MANIFEST_NAME).is_file()


def open_corpus(
    location: PathOrUrl, *, fingerprint: str | None = None, reporter: Reporter | None = None
) -> Corpus:
    """Map a corpus into memory; a remote one is first copied to the cache.

    Raise an InputError if its vocabulary does not have this fingerprint.
    """
    folder = fetch_corpus(location, reporter=reporter)
    manifest = shards.read_manifest(folder)
    if fingerprint is not None:
        shards.reject_other_vocabulary(manifest, str(folder), fingerprint)
    shards.allow_open_files(len(manifest.shards))
    parts: list[ShardPart] = []
    for entry in manifest.shards:
        path, size = folder / entry.name, LocalFolder(folder).find_size(entry.name)
        if size != entry.num_bytes:
            problem = "missing" if size is None else f"{size} bytes, expected {entry.num_bytes}"
            raise FileFormatError(f"{path}: {problem}; copy it again, or prepare the corpus again")
        parts += shards.read_shard(path)
    url = str(location) if is_url(location) else None
    return Corpus(folder, manifest, tuple(parts), _find_token_starts(parts), url=url)


def _find_token_starts(parts: Sequence[ShardPart]) -> NDArray[np.int64]:
    counts = np.array([len(part.tokens) for part in parts], dtype=np.int64)
    return np.concatenate([[0], counts.cumsum()])


def _open_range(folder: Path, sentences: tuple[int, int] | None, url: str | None) -> Corpus:
    corpus = replace(open_corpus(folder), url=url)
    return corpus if sentences is None else narrow(corpus, *sentences)


def narrow(corpus: Corpus, first: int, last: int) -> Corpus:
    """Return the sentences [first, last) of a whole corpus; only parts at the ends are copied."""
    assert corpus.sentences is None, "sentences are counted from the beginning of the folder"
    parts: list[ShardPart] = []
    start = 0
    for part in corpus.parts:
        a, b = max(first - start, 0), min(last - start, part.num_sentences)
        if a < b:
            parts.append(part if (a, b) == (0, part.num_sentences) else shards.cut_part(part, a, b))
        start += part.num_sentences
    return replace(corpus, parts=tuple(parts), starts=_find_token_starts(parts), sentences=(first, last))


@dataclass(frozen=True)
class SplitCorpus:
    """A corpus split into a beginning to train on and an end to evaluate on."""

    train: Corpus
    held_out: Corpus


def hold_out(corpus: Corpus, *, share: float, max_tokens: int, min_documents: int = 1) -> SplitCorpus:
    """Hold out the last documents for evaluation: `share` of the tokens, at most about `max_tokens`.

    Whole documents are held out, so that no neighbor of a held-out sentence is in the training data. If the
    last one is more than three times too long, only its end is held out, of at least two sentences.
    """
    wanted = max(1, min(round(share * corpus.num_tokens), max_tokens))
    num_sentences = sum(part.num_sentences for part in corpus.parts)
    ends, documents = _list_tail(corpus, 3 * wanted, min_documents)
    by_sentence = int(np.searchsorted(ends, corpus.num_tokens - wanted, side="right"))
    by_sentence = max(0, min(by_sentence, len(ends) - 2))
    number = int(np.searchsorted(documents, by_sentence, side="right")) - 1
    by_document = int(documents[max(0, min(number, len(documents) - min_documents))])
    is_near = by_document > 0 and corpus.num_tokens - ends[by_document - 1] <= 3 * wanted
    cut = num_sentences - len(ends) + (by_document if is_near or min_documents > 1 else by_sentence)
    if not 0 < cut < num_sentences or corpus.num_documents < min_documents:
        raise InputError(
            f"{corpus.name}: {num_sentences} sentences in {corpus.num_documents} documents are too few to "
            "hold some out; prepare more text, or set held_out.data to a prepared corpus"
        )
    return SplitCorpus(narrow(corpus, 0, cut), narrow(corpus, cut, num_sentences))


def _list_tail(
    corpus: Corpus, num_tokens: int, num_documents: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return sentence ends and document starts in the last parts with more than these numbers."""
    first = len(corpus.parts)
    found = 0
    while first and (corpus.num_tokens - corpus.starts[first] <= num_tokens or found <= num_documents):
        first -= 1
        found += corpus.parts[first].num_documents
    ends, documents, num_sentences = [], [], 0
    for part, start in zip(corpus.parts[first:], corpus.starts[first:], strict=False):
        ends.append(part.sentence_starts[1:].astype(np.int64) + start)
        documents.append(part.document_starts[:-1].astype(np.int64) + num_sentences)
        num_sentences += part.num_sentences
    return np.concatenate(ends), np.concatenate(documents)


def keep_beginning(corpus: Corpus, part: Corpus, *, share: float) -> Corpus:
    """Return the first `share` of `part`, the beginning of the corpus, in whole sentences."""
    wanted, num_sentences = share * part.num_tokens, 0
    for start, shard in zip(part.starts, part.parts, strict=False):
        left = wanted - start
        if left <= len(shard.tokens):
            num_sentences += int(np.searchsorted(shard.sentence_starts[1:], left, side="right"))
            break
        num_sentences += shard.num_sentences
    if not num_sentences:
        raise InputError(f"{corpus.name}: data_share {share:.3g} is less than a sentence; increase it")
    return narrow(corpus, 0, num_sentences)


def fetch_corpus(location: PathOrUrl, *, reporter: Reporter | None = None) -> Path:
    """Return the folder of a corpus, or of its copy in the cache for a URL.

    A remote corpus is copied once, because an epoch reads all of it in random order. The copy is named after
    its manifest. If several processes need it at once, one copies it and the others wait.
    """
    if not is_url(location):
        return to_path(location)
    store = RemoteFolder(str(location).rstrip("/"))
    shards.read_manifest(store)  # an error names the URL
    cache = default_cache_dir()
    hint = "free disk space, or set ALBERT_CACHE to another folder"
    with store.reading(MANIFEST_NAME) as path, writing_to(cache, hint=hint):
        manifest = shards.read_manifest(path.parent)
        folder = cache / CORPORA_DIR / hash_file(path)[:32]
        with hold(folder.with_suffix(".lock"), busy=None):
            LocalFolder(folder / shards.SHARDS_DIR).remove_unfinished()
            _fetch_shards(store, manifest, folder, reporter or NullReporter())
            if not (folder / MANIFEST_NAME).exists():
                tokenizer = shards.fetch_vocabulary(store, folder / shards.VOCAB_DIR)
                shards.reject_other_vocabulary(manifest, store.location, tokenizer.fingerprint)
                with atomic_path(folder / MANIFEST_NAME) as temporary:
                    temporary.write_bytes(path.read_bytes())
    return folder


def _fetch_shards(store: RemoteFolder, manifest: Manifest, folder: Path, reporter: Reporter) -> None:
    def fetch(shard: ShardEntry) -> None:
        with atomic_path(folder / shard.name) as temporary:
            store.fetch(shard.name, temporary)
            if hash_file(temporary) != shard.sha256:
                raise FileFormatError(
                    f"{store.location}/{shard.name}: does not match the manifest; prepare the corpus again"
                )

    local = LocalFolder(folder)
    wanted = [shard for shard in manifest.shards if local.find_size(shard.name) != shard.num_bytes]
    if wanted:
        total = sum(shard.num_bytes for shard in manifest.shards)
        done = total - sum(shard.num_bytes for shard in wanted)
        progress = ByteProgress(reporter, "fetching", total=total, done=done)
        with ThreadPoolExecutor(_NUM_THREADS) as pool:
            for shard, _ in zip(wanted, pool.map(fetch, wanted), strict=True):
                progress.advance(shard.num_bytes)


def summarize_corpus(corpus: Corpus) -> dict[str, Any]:
    """Summarize a corpus: counts from its manifest, and lengths from its shards, one part at a time."""
    lengths: dict[str, Counter[int]] = defaultdict(Counter)
    for number, part in enumerate(corpus.parts):
        for name, starts in (
            ("sentence_tokens", part.sentence_starts),
            ("document_sentences", part.document_starts),
            ("document_tokens", part.sentence_starts[part.document_starts]),
        ):
            values, counts = np.unique(np.diff(starts), return_counts=True)
            lengths[name].update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
        corpus.release(number)
    manifest = corpus.manifest
    return {
        **manifest.model_dump(exclude={"format_version", "num_unknown", "sources", "shards"}),
        "unknown_share": manifest.num_unknown / max(manifest.num_tokens, 1),
        **{name: _describe_lengths(counter) for name, counter in lengths.items()},
        "layouts": Counter(source.layout or f"skipped: {source.skipped}" for source in manifest.sources),
        "num_sources": len(manifest.sources),
        "num_source_bytes": sum(source.num_bytes for source in manifest.sources),
        "num_shards": len(manifest.shards),
        "num_shard_bytes": sum(shard.num_bytes for shard in manifest.shards),
    }


def _describe_lengths(counter: Counter[int]) -> dict[str, Any]:
    values, counts = np.array(sorted(counter.items())).T
    reached = counts.cumsum() / counts.sum()
    at = {name: int(values[np.searchsorted(reached, share)]) for name, share in _QUANTILES.items()}
    return {"mean": float((values * counts).sum() / counts.sum()), "at": at}
