"""The place of a prepared corpus comes in, a folder of this machine that holds it goes out.

A corpus in a store is copied once, since an epoch looks at all of it in no order. The copy is named after its
manifest, which has the checksum of every shard: what is there is used while it is sound, and nothing else.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from albert.data.manifest import MANIFEST_NAME, SHARDS_DIR, Manifest, ShardEntry, read_manifest
from albert.data.progress import Meter
from albert.data.remote import Place, is_url, to_path
from albert.data.storage import LocalFolder, RemoteFolder
from albert.data.vocabulary import VOCAB_DIR, fetch_vocabulary
from albert.errors import AlbertError, FileFormatError
from albert.files import atomic_path, default_cache_dir, hash_file, hold, read_json, write_json, writing_to
from albert.reporting import Reporter, Silence
from albert.text.folder import load_tokenizer

CORPORA_DIR = "corpora"
_CHECKED_NAME = "checked.json"
_NUM_THREADS = 8
_OTHER_CACHE = "free space there, or set ALBERT_CACHE to another folder"


def fetch_corpus(place: Place, *, reporter: Reporter | None = None) -> Path:
    """The folder of a corpus: its own, or for a URL that of its copy, fetched where it is not sound.

    Of several processes that ask at once, one fetches and the others wait. Refused: a store without a
    manifest, and a shard that is not what the manifest says.
    """
    if not is_url(place):
        return to_path(place)
    store = RemoteFolder(str(place).rstrip("/"))
    read_manifest(store)  # told by its URL, if there is none or a broken one
    cache = default_cache_dir()
    with store.reading(MANIFEST_NAME) as path, writing_to(cache, cure=_OTHER_CACHE):
        manifest = read_manifest(path.parent)
        folder = cache / CORPORA_DIR / hash_file(path)[:32]
        with hold(folder.with_suffix(".lock"), busy=None):
            LocalFolder(folder / SHARDS_DIR).sweep()
            _fetch_shards(store, manifest, folder, reporter or Silence())
            _fetch_vocabulary(store, manifest, folder)
            with atomic_path(folder / MANIFEST_NAME) as aside:
                aside.write_bytes(path.read_bytes())
    return folder


def _fetch_shards(store: RemoteFolder, manifest: Manifest, folder: Path, reporter: Reporter) -> None:
    checked = _read_checked(folder)
    wanted = [shard for shard in manifest.shards if not _is_sound(folder / shard.name, shard, checked)]
    if wanted:
        total = sum(shard.num_bytes for shard in manifest.shards)
        kept = total - sum(shard.num_bytes for shard in wanted)
        meter = Meter(reporter, "fetching", total=total, done=kept)
        for shard in _iter_fetched(store, wanted, folder):
            meter.advance(shard.num_bytes)
    times = {shard.name: (folder / shard.name).stat().st_mtime_ns for shard in manifest.shards}
    if times != checked:
        write_json(folder / _CHECKED_NAME, times)


def _read_checked(folder: Path) -> dict[str, Any]:
    """When each shard was last written, at the time that its bytes were found to be right."""
    try:
        found = read_json(folder / _CHECKED_NAME)
    except AlbertError:
        return {}
    return found if isinstance(found, dict) else {}


def _is_sound(path: Path, shard: ShardEntry, checked: dict[str, Any]) -> bool:
    """Whether a copied shard is right: its bytes are looked at again only when it was touched since."""
    if not path.is_file() or path.stat().st_size != shard.num_bytes:
        return False
    return checked.get(shard.name) == path.stat().st_mtime_ns or hash_file(path) == shard.sha256


def _iter_fetched(store: RemoteFolder, shards: Sequence[ShardEntry], folder: Path) -> Iterator[ShardEntry]:
    """Fetch several at a time; each goes out when it is there."""
    pool = ThreadPoolExecutor(_NUM_THREADS)
    try:
        waiting = {pool.submit(_fetch_shard, store, shard, folder): shard for shard in shards}
        for done in as_completed(waiting):
            done.result()
            yield waiting[done]
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _fetch_shard(store: RemoteFolder, shard: ShardEntry, folder: Path) -> None:
    with atomic_path(folder / shard.name) as aside:
        store.fetch(shard.name, aside)
        if hash_file(aside) != shard.sha256:
            raise FileFormatError(
                f"{store.url}/{shard.name}: {aside.stat().st_size} bytes that are not those of its manifest; "
                "if the corpus is being prepared, wait for it, else prepare it again"
            )


def _fetch_vocabulary(store: RemoteFolder, manifest: Manifest, folder: Path) -> None:
    if _has_vocabulary(folder, manifest):
        return
    fetch_vocabulary(store, folder / VOCAB_DIR)
    if not _has_vocabulary(folder, manifest):
        raise FileFormatError(
            f"{store.url}/{VOCAB_DIR}: is not the vocabulary that the corpus was prepared with; prepare it "
            "again"
        )


def _has_vocabulary(folder: Path, manifest: Manifest) -> bool:
    try:
        return load_tokenizer(folder / VOCAB_DIR).fingerprint == manifest.vocabulary
    except AlbertError:
        return False
