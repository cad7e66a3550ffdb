"""The files of a prepared corpus: shards of token ids, the vocabulary, and the manifest, written last.

A shard is an uncompressed Arrow IPC file with one column `document: list<list<uint16 | uint32>>`. The nested
offsets are the boundaries of sentences and documents. It is memory-mapped, not copied.
"""

import contextlib
import mmap
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from albert.data.storage import LocalFolder, Storage, put_json
from albert.errors import FileFormatError, InputError, first_line
from albert.files import atomic_path, read_json
from albert.settings import Settings, build_settings
from albert.text.folder import TOKENIZER_FILES, load_tokenizer, save_tokenizer
from albert.text.tokenizer import Tokenizer

try:
    import resource
except ImportError:  # no such limits on Windows
    resource = None  # type: ignore[assignment]

MANIFEST_NAME = "manifest.json"
SHARDS_DIR = "shards"
VOCAB_DIR = "vocab"
FORMAT_VERSION = 1
COLUMN = "document"
# About 4 MB of ids: large enough for a small overhead per batch, small enough to bound the memory.
MAX_BATCH_TOKENS = 1 << 21


class ShardEntry(Settings):
    """A shard in the manifest: its file, its counts, and the checksum of its bytes."""

    former_names: ClassVar[Mapping[str, str]] = {"num_pieces": "num_tokens"}

    name: str
    num_documents: int
    num_sentences: int
    num_tokens: int
    num_bytes: int
    sha256: str


class SourceEntry(Settings):
    """A source in the manifest; `skipped` is the reason if it was not read."""

    name: str
    num_bytes: int
    sha256: str
    layout: str = ""
    skipped: str = ""


class Manifest(Settings):
    """The content of a prepared corpus."""

    former_names: ClassVar[Mapping[str, str]] = {"num_pieces": "num_tokens"}

    format_version: int = FORMAT_VERSION
    vocabulary: str
    vocab_size: int
    num_documents: int
    num_sentences: int
    num_tokens: int
    num_unknown: int = 0
    num_characters: int = 0
    dropped: dict[str, int] = Field(default_factory=dict)
    settings: dict[str, str | int | float | bool | None] = Field(default_factory=dict)
    sources: tuple[SourceEntry, ...] = ()
    shards: tuple[ShardEntry, ...]


def read_manifest(folder: Path | Storage) -> Manifest:
    """Read the manifest of a corpus; raise a FileFormatError if there is none."""
    store = LocalFolder(folder) if isinstance(folder, Path) else folder
    if store.find_size(MANIFEST_NAME) is None:
        raise FileFormatError(
            f"{store.location}: no {MANIFEST_NAME}; not a prepared corpus, or not finished: run "
            "`albert corpus prepare` again to resume"
        )
    source = f"{store.location}/{MANIFEST_NAME}"
    with store.reading(MANIFEST_NAME) as path:
        manifest = build_settings(Manifest, values=read_json(path), source=source)
    if manifest.format_version != FORMAT_VERSION:
        raise FileFormatError(f"{source}: format {manifest.format_version} is unsupported; prepare it again")
    return manifest


def write_manifest(folder: Path | Storage, manifest: Manifest) -> None:
    """Write the manifest, as the last step of preparation."""
    store = LocalFolder(folder) if isinstance(folder, Path) else folder
    put_json(store, MANIFEST_NAME, manifest.model_dump(mode="json"))


def reject_other_vocabulary(manifest: Manifest, location: str, fingerprint: str) -> None:
    """Raise an InputError if the corpus was prepared with another vocabulary."""
    if manifest.vocabulary != fingerprint:
        raise InputError(
            f"{location}: prepared with another vocabulary ({manifest.vocabulary[:12]}…, "
            f"not {fingerprint[:12]}…); use the one in its vocab folder, or prepare it again"
        )


def save_vocabulary(out: Storage, tokenizer: Tokenizer) -> None:
    """Write the files of the vocabulary to the corpus, and remove those of another."""
    with tempfile.TemporaryDirectory(prefix="albert-") as folder:
        save_tokenizer(tokenizer, Path(folder))
        for file in TOKENIZER_FILES:
            written, name = Path(folder) / file, f"{VOCAB_DIR}/{file}"
            if written.exists():
                with out.writing(name) as path:
                    shutil.copyfile(written, path)
            else:
                out.remove(name)


def fetch_vocabulary(out: Storage, folder: Path) -> Tokenizer:
    """Copy the vocabulary of a corpus to a folder, and load it."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in TOKENIZER_FILES:
        name = f"{VOCAB_DIR}/{file}"
        if out.find_size(name) is not None:
            with out.reading(name) as path:
                shutil.copyfile(path, folder / file)
    return load_tokenizer(folder)


@dataclass(frozen=True)
class ShardPart:
    """A record batch: concatenated token ids, and the starts of sentences and documents.

    Sentence s is `tokens[sentence_starts[s] : sentence_starts[s + 1]]`, and document d consists of sentences
    `document_starts[d]` to `document_starts[d + 1] - 1`. `file` is the mapped file if the arrays are views.
    """

    tokens: NDArray[np.uint16] | NDArray[np.uint32]
    sentence_starts: NDArray[np.int32]
    document_starts: NDArray[np.int32]
    file: mmap.mmap | None = None

    @property
    def num_sentences(self) -> int:
        return len(self.sentence_starts) - 1

    @property
    def num_documents(self) -> int:
        return len(self.document_starts) - 1


def choose_id_type(vocab_size: int) -> pa.DataType:
    """Return the smallest type for the ids, of two or four bytes."""
    return pa.uint16() if vocab_size <= 1 << 16 else pa.uint32()


def write_parts(path: Path, parts: Iterable[ShardPart], *, id_type: pa.DataType) -> None:
    """Write parts as one record batch each, atomically."""
    schema = pa.schema([(COLUMN, pa.list_(pa.list_(id_type)))])
    with (
        atomic_path(path) as temporary,
        pa.OSFile(str(temporary), "wb") as sink,
        pa.ipc.new_file(sink, schema) as writer,
    ):
        for part in parts:
            tokens = pa.array(part.tokens, type=id_type)
            inner = pa.ListArray.from_arrays(pa.array(part.sentence_starts), tokens)
            outer = pa.ListArray.from_arrays(pa.array(part.document_starts), inner)
            writer.write_batch(pa.record_batch([outer], schema=schema))


def join_parts(parts: Sequence[ShardPart]) -> ShardPart:
    """Concatenate parts."""
    sentences = np.concatenate([np.diff(part.sentence_starts) for part in parts])
    documents = np.concatenate([np.diff(part.document_starts) for part in parts])
    tokens = np.concatenate([part.tokens for part in parts])
    return ShardPart(tokens, find_starts(sentences), find_starts(documents))


def cut_part(part: ShardPart, first: int, last: int) -> ShardPart:
    """Return the sentences [first, last) of a part; documents are cut at its ends."""
    sentence_starts = part.sentence_starts[first : last + 1]
    return ShardPart(
        part.tokens[sentence_starts[0] : sentence_starts[-1]],
        sentence_starts - sentence_starts[0],
        np.unique(np.clip(part.document_starts, first, last)) - np.int32(first),
        part.file,
    )


def find_starts(lengths: ArrayLike) -> NDArray[np.int32]:
    """Return the starts of concatenated items of these lengths, and the end of the last one."""
    counts = np.asarray(lengths, dtype=np.int64)
    return np.concatenate([[0], counts.cumsum()]).astype(np.int32)


def build_part(blocks: Sequence[NDArray[Any]], lengths: Sequence[int], counts: Sequence[int]) -> ShardPart:
    """Build a part from ids, sentence lengths and sentences per document, without empty ones."""
    sizes = np.asarray(lengths, dtype=np.int64)
    filled = np.diff(find_starts(sizes > 0)[find_starts(counts)])
    return ShardPart(np.concatenate(blocks), find_starts(sizes[sizes > 0]), find_starts(filled[filled > 0]))


def read_shard(path: Path) -> list[ShardPart]:
    """Map a shard into memory; the arrays are views of the file."""
    try:
        with open(path, "rb") as opened:
            file = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        reader = pa.ipc.open_file(pa.BufferReader(pa.py_buffer(file)))
        columns = (reader.get_batch(i).column(COLUMN) for i in range(reader.num_record_batches))
        return [
            ShardPart(inner.values.to_numpy(), inner.offsets.to_numpy(), outer.offsets.to_numpy(), file)
            for outer, inner in ((column, column.values) for column in columns)
        ]
    except (pa.ArrowInvalid, OSError, ValueError, KeyError, AttributeError) as error:
        raise FileFormatError(f"{path}: not a complete shard ({first_line(error)}); prepare again") from error


def allow_open_files(num_files: int) -> None:
    """Raise the soft limit of open files, 256 on macOS: each mapped shard keeps a file open."""
    if resource is not None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY and soft < num_files + 128:
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (num_files + 1024, hard))
