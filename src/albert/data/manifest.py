"""The metadata of a prepared corpus: its manifest, which is written last, and its vocabulary."""

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from pydantic import Field

from albert.data.storage import LocalFolder, Storage, put_json
from albert.errors import FileFormatError, InputError
from albert.files import read_json
from albert.settings import Settings, build_settings
from albert.text.folder import TOKENIZER_FILES, load_tokenizer, save_tokenizer
from albert.text.tokenizer import Tokenizer

MANIFEST_NAME = "manifest.json"
SHARDS_DIR = "shards"
VOCAB_DIR = "vocab"
FORMAT_VERSION = 1


class ShardEntry(Settings):
    """One shard: its file, what it holds, and the checksum of its bytes."""

    name: str
    num_documents: int
    num_sentences: int
    num_pieces: int
    num_bytes: int
    sha256: str


class SourceEntry(Settings):
    """One source as it was read; `skipped` is the reason why it was not read, if so."""

    name: str
    num_bytes: int
    sha256: str
    layout: str = ""
    skipped: str = ""


class Manifest(Settings):
    """What a prepared corpus holds: vocabulary, shards, sources, and counts of what was dropped."""

    format_version: int = FORMAT_VERSION
    vocabulary: str
    vocab_size: int
    num_documents: int
    num_sentences: int
    num_pieces: int
    num_unknown: int = 0
    num_characters: int = 0
    dropped: dict[str, int] = Field(default_factory=dict)
    settings: dict[str, str | int | float | bool | None] = Field(default_factory=dict)
    sources: tuple[SourceEntry, ...] = ()
    shards: tuple[ShardEntry, ...]


def read_manifest(folder: Path | Storage, *, fingerprint: str | None = None) -> Manifest:
    """Read the manifest of a corpus; with `fingerprint`, check that it has that vocabulary."""
    store = LocalFolder(folder) if isinstance(folder, Path) else folder
    source = f"{store.place}/{MANIFEST_NAME}"
    if store.find_size(MANIFEST_NAME) is None:
        raise FileFormatError(
            f"{store.place}: no {MANIFEST_NAME}; it is no prepared corpus, or preparing did not finish: "
            "run `albert corpus prepare` again to continue"
        )
    with store.reading(MANIFEST_NAME) as path:
        manifest = build_settings(Manifest, values=read_json(path), source=source)
    if manifest.format_version != FORMAT_VERSION:
        raise FileFormatError(
            f"{source}: format {manifest.format_version}, and only {FORMAT_VERSION} is read; prepare it again"
        )
    if fingerprint is not None:
        reject_other_vocabulary(manifest, store.place, fingerprint)
    return manifest


def reject_other_vocabulary(manifest: Manifest, place: str, fingerprint: str) -> None:
    """Raise `InputError` if the corpus at `place` was prepared with another vocabulary."""
    if manifest.vocabulary != fingerprint:
        raise InputError(
            f"{place}: prepared with another vocabulary ({manifest.vocabulary[:12]}…, "
            f"not {fingerprint[:12]}…); give the vocabulary it was prepared with, or prepare it again"
        )


def write_manifest(folder: Path | Storage, manifest: Manifest) -> None:
    """Write the manifest, as the last step of preparing."""
    store = LocalFolder(folder) if isinstance(folder, Path) else folder
    put_json(store, MANIFEST_NAME, manifest.model_dump(mode="json"))


def are_whole(out: Storage, shards: Iterable[ShardEntry]) -> bool:
    """Whether all shards exist and have the content that their entries say."""
    return all(out.is_whole(each.name, num_bytes=each.num_bytes, sha256=each.sha256) for each in shards)


def save_vocabulary(out: Storage, tokenizer: Tokenizer) -> None:
    """Write the vocabulary's files into the corpus, unless they are there, and remove those of another."""
    with tempfile.TemporaryDirectory(prefix="albert-") as folder:
        save_tokenizer(tokenizer, Path(folder))
        for file in TOKENIZER_FILES:
            written, name = Path(folder) / file, f"{VOCAB_DIR}/{file}"
            if not written.exists():
                out.remove(name)
                continue
            if out.find_size(name) == written.stat().st_size:
                with out.reading(name) as path:
                    if path.read_bytes() == written.read_bytes():
                        continue
            with out.writing(name) as path:
                shutil.copyfile(written, path)


def fetch_vocabulary(out: Storage, folder: Path) -> None:
    """Copy the vocabulary's files of a corpus into a folder; by name, since not every store can list."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in TOKENIZER_FILES:
        name = f"{VOCAB_DIR}/{file}"
        if out.find_size(name) is not None:
            with out.reading(name) as path:
                shutil.copyfile(path, folder / file)


def load_vocabulary(out: Storage) -> Tokenizer:
    """Load the tokenizer of a corpus."""
    with tempfile.TemporaryDirectory(prefix="albert-") as folder:
        fetch_vocabulary(out, Path(folder))
        return load_tokenizer(Path(folder))
