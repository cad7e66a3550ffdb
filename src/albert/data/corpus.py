"""Open a prepared corpus as one long row of tokens, fetch it first if it is remote, and split it."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albert.data.manifest import (
    MANIFEST_NAME,
    SHARDS_DIR,
    VOCAB_DIR,
    Manifest,
    ShardEntry,
    fetch_vocabulary,
    read_manifest,
)
from albert.data.paths import PathOrUrl, is_url, to_path
from albert.data.shards import MappedFiles, ShardPart, cut_part, read_shard
from albert.data.storage import LocalFolder, Meter, RemoteFolder
from albert.errors import AlbertError, FileFormatError, InputError
from albert.files import atomic_path, default_cache_dir, hash_file, hold, read_json, write_json, writing_to
from albert.progress import NullReporter, Reporter
from albert.text.folder import load_tokenizer

CORPORA_DIR = "corpora"
_CHECKED_NAME = "checked.json"
_NUM_THREADS = 8


@dataclass(frozen=True)
class Corpus:
    """The parts of all shards in order; `starts[k]` is the number of tokens before part k.

    `sentences` is the range of the folder's sentences that this corpus has; None means all. `url` is where
    it was fetched from, if it was.
    """

    folder: Path
    manifest: Manifest
    parts: tuple[ShardPart, ...]
    starts: NDArray[np.int64]
    files: MappedFiles = field(default_factory=MappedFiles)
    file_of_part: tuple[int, ...] = ()
    sentences: tuple[int, int] | None = None
    url: str | None = None

    @property
    def name(self) -> str:
        """The name in messages."""
        return self.url or str(self.folder)

    @property
    def place(self) -> str:
        """The URL, or the absolute path of the folder."""
        return self.url or str(self.folder.resolve())

    @property
    def num_pieces(self) -> int:
        """The number of tokens."""
        return int(self.starts[-1])

    @property
    def num_documents(self) -> int:
        """The number of documents; one that was cut counts on both sides."""
        return sum(len(part.document_starts) - 1 for part in self.parts)

    def let_go(self, part: int) -> None:
        """Release the memory of a part; a corpus may be larger than memory."""
        if self.file_of_part:
            self.files.let_go(self.file_of_part[part])

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process maps the files itself, rather than receiving their content.
        return _open_range, (self.folder, self.sentences, self.url)


def open_corpus(
    place: PathOrUrl, *, fingerprint: str | None = None, reporter: Reporter | None = None
) -> Corpus:
    """Map a corpus into memory; a remote one is copied to the cache first.

    Raise an error if a shard is missing or damaged, or the vocabulary is not that of `fingerprint`.
    """
    folder = fetch_corpus(place, reporter=reporter)
    manifest = read_manifest(folder, fingerprint=fingerprint)
    parts: list[ShardPart] = []
    files = MappedFiles()
    file_of_part: list[int] = []
    for entry in manifest.shards:
        path = folder / entry.name
        if not path.exists():
            raise FileFormatError(f"{path}: missing; copy it back, or prepare the corpus again")
        if path.stat().st_size != entry.num_bytes:
            raise FileFormatError(
                f"{path}: {path.stat().st_size} bytes and the manifest says {entry.num_bytes}; "
                "it was cut short or changed: copy it again, or prepare the corpus again"
            )
        found = read_shard(path, files=files)
        parts += found
        file_of_part += [len(files) - 1] * len(found)
    return Corpus(
        folder,
        manifest,
        tuple(parts),
        _find_starts(parts),
        files,
        tuple(file_of_part),
        url=str(place) if is_url(place) else None,
    )


def narrow(corpus: Corpus, first: int, last: int) -> Corpus:
    """Return the sentences [first, last) of a whole corpus; only the parts at the ends are copied."""
    assert corpus.sentences is None, "a part of a part would count its sentences from elsewhere"
    parts: list[ShardPart] = []
    file_of_part: list[int] = []
    start = 0
    for number, part in enumerate(corpus.parts):
        count = len(part.sentence_starts) - 1
        a, b = max(first - start, 0), min(last - start, count)
        if a < b:
            parts.append(part if (a, b) == (0, count) else cut_part(part, a, b))
            file_of_part.append(corpus.file_of_part[number])
        start += count
    return replace(
        corpus,
        parts=tuple(parts),
        starts=_find_starts(parts),
        file_of_part=tuple(file_of_part),
        sentences=(first, last),
    )


def _find_starts(parts: Sequence[ShardPart]) -> NDArray[np.int64]:
    counts = np.array([len(part.pieces) for part in parts], dtype=np.int64)
    return np.concatenate([[0], counts.cumsum()])


def _open_range(folder: Path, sentences: tuple[int, int] | None, url: str | None) -> Corpus:
    corpus = replace(open_corpus(folder), url=url)
    return corpus if sentences is None else narrow(corpus, *sentences)


@dataclass(frozen=True)
class SplitCorpus:
    """The beginning of a corpus, and its end."""

    train: Corpus
    held_out: Corpus


def hold_out(corpus: Corpus, *, share: float, max_pieces: int, min_documents: int = 1) -> SplitCorpus:
    """Hold out the last documents for evaluation: `share` of the tokens, at most about `max_pieces`.

    Whole documents are held out, so that no neighbor of a held-out sentence is trained on; if the last one is
    more than three times too long, only its end, of two sentences or more. At least `min_documents` are held
    out.
    """
    wanted = max(1, min(round(share * corpus.num_pieces), max_pieces))
    counts = [len(part.sentence_starts) - 1 for part in corpus.parts]
    ends, documents, first = _list_tail(corpus, counts, 3 * wanted, min_documents)
    by_sentence = int(np.searchsorted(ends, corpus.num_pieces - wanted, side="right"))
    by_sentence = max(0, min(by_sentence, len(ends) - 2))
    number = int(np.searchsorted(documents, by_sentence, side="right")) - 1
    by_document = int(documents[max(0, min(number, len(documents) - min_documents))])
    is_near = by_document > 0 and corpus.num_pieces - ends[by_document - 1] <= 3 * wanted
    cut = first + (by_document if is_near or min_documents > 1 else by_sentence)
    if not 0 < cut < sum(counts) or corpus.num_documents < min_documents:
        raise InputError(
            f"{corpus.name}: {sum(counts)} sentences in {corpus.num_documents} documents are too few to "
            "hold some out; prepare more text, or give a prepared corpus to evaluate on as held_out.data"
        )
    return SplitCorpus(narrow(corpus, 0, cut), narrow(corpus, cut, sum(counts)))


def keep_beginning(corpus: Corpus, part: Corpus, *, share: float) -> Corpus:
    """Return the first `share` of `part`, which begins where the corpus does, in whole sentences."""
    wanted, num_sentences = share * part.num_pieces, 0
    for number, piece in enumerate(part.parts):
        left = wanted - part.starts[number]
        if left <= len(piece.pieces):
            num_sentences += int(np.searchsorted(piece.sentence_starts[1:], left, side="right"))
            break
        num_sentences += len(piece.sentence_starts) - 1
    if not num_sentences:
        raise InputError(
            f"{corpus.name}: {share:.3g} of {part.num_pieces:,} pieces is less than a sentence; raise "
            "data_share"
        )
    return narrow(corpus, 0, num_sentences)


def _list_tail(
    corpus: Corpus, counts: list[int], num_pieces: int, num_documents: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Look at the last parts only, those that hold more than so many tokens and documents.

    Return the token where each sentence ends, the sentence where each document begins, and the number of
    sentences before these parts.
    """
    first = len(corpus.parts)
    found = 0
    while first and (corpus.num_pieces - corpus.starts[first] <= num_pieces or found <= num_documents):
        first -= 1
        found += len(corpus.parts[first].document_starts) - 1
    ends, documents, num_sentences = [], [], 0
    for number in range(first, len(corpus.parts)):
        part = corpus.parts[number]
        ends.append(part.sentence_starts[1:].astype(np.int64) + corpus.starts[number])
        documents.append(part.document_starts[:-1].astype(np.int64) + num_sentences)
        num_sentences += counts[number]
    return np.concatenate(ends), np.concatenate(documents), sum(counts) - num_sentences


def fetch_corpus(place: PathOrUrl, *, reporter: Reporter | None = None) -> Path:
    """Return the folder of a corpus: its own, or for a URL that of its copy in the cache.

    A remote corpus is copied once, since an epoch reads all of it in random order. The copy is named after
    its manifest, whose checksums fsspec's own caches could not check; shards that are missing or damaged are
    fetched again. Of several processes that ask at once, one fetches and the others wait.
    """
    if not is_url(place):
        return to_path(place)
    store = RemoteFolder(str(place).rstrip("/"))
    read_manifest(store)  # an error names the URL
    cache = default_cache_dir()
    hint = "free space there, or set ALBERT_CACHE to another folder"
    with store.reading(MANIFEST_NAME) as path, writing_to(cache, hint=hint):
        manifest = read_manifest(path.parent)
        folder = cache / CORPORA_DIR / hash_file(path)[:32]
        with hold(folder.with_suffix(".lock"), busy=None):
            LocalFolder(folder / SHARDS_DIR).sweep()
            _fetch_shards(store, manifest, folder, reporter or NullReporter())
            if not _has_vocabulary(folder, manifest):
                fetch_vocabulary(store, folder / VOCAB_DIR)
                if not _has_vocabulary(folder, manifest):
                    raise FileFormatError(
                        f"{store.place}/{VOCAB_DIR}: is not the vocabulary that the corpus was prepared "
                        "with; prepare it again"
                    )
            with atomic_path(folder / MANIFEST_NAME) as aside:
                aside.write_bytes(path.read_bytes())
    return folder


def _fetch_shards(store: RemoteFolder, manifest: Manifest, folder: Path, reporter: Reporter) -> None:
    checked = _read_checked(folder)

    def is_sound(shard: ShardEntry) -> bool:
        path = folder / shard.name
        if not path.is_file() or path.stat().st_size != shard.num_bytes:
            return False
        # The bytes are checked again only if the file was written since.
        return checked.get(shard.name) == path.stat().st_mtime_ns or hash_file(path) == shard.sha256

    def fetch(shard: ShardEntry) -> None:
        with atomic_path(folder / shard.name) as aside:
            store.fetch(shard.name, aside)
            if hash_file(aside) != shard.sha256:
                raise FileFormatError(
                    f"{store.place}/{shard.name}: {aside.stat().st_size} bytes that are not those of its "
                    "manifest; if the corpus is being prepared, wait for it, else prepare it again"
                )

    wanted = [shard for shard in manifest.shards if not is_sound(shard)]
    if wanted:
        total = sum(shard.num_bytes for shard in manifest.shards)
        done = total - sum(shard.num_bytes for shard in wanted)
        meter = Meter(reporter, "fetching", total=total, done=done)
        with ThreadPoolExecutor(_NUM_THREADS) as pool:
            for shard, _ in zip(wanted, pool.map(fetch, wanted), strict=True):
                meter.advance(shard.num_bytes)
    times = {shard.name: (folder / shard.name).stat().st_mtime_ns for shard in manifest.shards}
    if times != checked:
        write_json(folder / _CHECKED_NAME, times)


def _read_checked(folder: Path) -> dict[str, Any]:
    """Read when each shard had been written last, at the time its bytes were checked."""
    try:
        found = read_json(folder / _CHECKED_NAME)
    except AlbertError:
        return {}
    return found if isinstance(found, dict) else {}


def _has_vocabulary(folder: Path, manifest: Manifest) -> bool:
    try:
        return load_tokenizer(folder / VOCAB_DIR).fingerprint == manifest.vocabulary
    except AlbertError:
        return False
