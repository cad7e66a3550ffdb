"""The manifest of a prepared corpus: written last, so a corpus with one is whole."""

from pathlib import Path

from pydantic import Field

from albert.data.storage import LocalFolder, Storage, put_json
from albert.errors import FileFormatError, InputError
from albert.files import read_json
from albert.settings import Settings, build_settings

MANIFEST_NAME = "manifest.json"
SHARDS_DIR = "shards"
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
    """One source as it was read: a change is seen by its hash; `skipped` is why it was not read."""

    name: str
    num_bytes: int
    sha256: str
    layout: str = ""
    skipped: str = ""


class Manifest(Settings):
    """What a prepared corpus is: vocabulary, shards, sources and what was dropped on the way."""

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
    """The manifest of a corpus; one of another vocabulary than `fingerprint` is refused."""
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
        refuse_other_vocabulary(manifest, store.place, fingerprint)
    return manifest


def refuse_other_vocabulary(manifest: Manifest, place: str, fingerprint: str) -> None:
    """Refuse the manifest of the corpus at `place` if it was prepared with another vocabulary."""
    if manifest.vocabulary != fingerprint:
        raise InputError(
            f"{place}: prepared with another vocabulary ({manifest.vocabulary[:12]}…, "
            f"not {fingerprint[:12]}…); give the vocabulary it was prepared with, or prepare it again"
        )


def write_manifest(folder: Path | Storage, manifest: Manifest) -> None:
    """Write the manifest: the last act of preparing."""
    store = LocalFolder(folder) if isinstance(folder, Path) else folder
    put_json(store, MANIFEST_NAME, manifest.model_dump(mode="json"))
