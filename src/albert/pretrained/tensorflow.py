"""Read original TensorFlow checkpoints without TensorFlow: config, weights and vocabulary.

A checkpoint consists of PREFIX.index, a sorted table in LevelDB's format that maps each name to a
BundleEntryProto, and the raw tensors in PREFIX.data-0000k-of-0000n.
"""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from albert.errors import FileFormatError
from albert.files import read_json
from albert.model.config import ModelConfig
from albert.pretrained.huggingface import CONFIG_NAME, FolderConfig
from albert.settings import build_settings

Array = NDArray[Any]
# TensorFlow's numbers of the types of weights, and the types in numpy, which has no bfloat16.
_DTYPES = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8", 14: "bfloat16", 19: "<f2"}
_SAVE_AGAIN = "open it in TensorFlow and save it again with tf.compat.v1.train.Saver"
# A table has data blocks, an index block with their positions, and a footer with the position of the index.
_MAGIC = bytes.fromhex("57fb808b247547db")  # 0xDB4775248B80FB57, little endian
_FOOTER_SIZE = 48  # two handles, padded to 40 bytes, and the magic number
# Published archives have one folder; TF-Hub modules have variables/ and assets/.
_WEIGHT_PATTERNS = ("*.index", "variables/*.index")
_CONFIG_PATTERNS = ("albert_config*.json", "assets/albert_config*.json")
_VOCABULARY_PATTERNS = ("*.model", "assets/*.model", "vocab*.txt", "assets/vocab*.txt")
_INDEX = ".index"
_HUB_PREFIX = "module/"
_OPTIMIZER_ENDINGS = ("/adam_m", "/adam_v")

_REQUIRED = (
    "vocab_size", "embedding_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
    "intermediate_size",
)  # fmt: skip
_KEYS = (
    *_REQUIRED, "num_hidden_groups", "inner_group_num", "hidden_dropout_prob",
    "attention_probs_dropout_prob", "max_position_embeddings", "type_vocab_size", "initializer_range",
)  # fmt: skip
# gelu in ALBERT's own configs is the tanh approximation.
_ACTIVATIONS = {"gelu": "gelu_new", "relu": "relu"}


def is_tensorflow_source(path: Path) -> bool:
    """Return whether this is an original checkpoint: an .index file, or a folder with one."""
    if path.suffix == _INDEX:
        return True
    return path.is_dir() and not (path / CONFIG_NAME).exists() and bool(_list(path, _WEIGHT_PATTERNS))


def read_tensorflow_config(path: Path) -> FolderConfig:
    """Read the config beside an original checkpoint."""
    found = [file for folder in _folders(path) for file in _list(folder, _CONFIG_PATTERNS)]
    if not found:
        raise FileFormatError(f"{path}: has no albert_config.json beside the checkpoint; copy it there")
    config_path = found[0]
    values: Any = read_json(config_path)
    missing = [key for key in _REQUIRED if values.get(key) is None]
    if missing:
        raise FileFormatError(f"{config_path}: has no {', '.join(missing)}; give an albert_config.json")
    activation = values.get("hidden_act", "gelu")
    if activation not in _ACTIVATIONS:
        raise FileFormatError(
            f"{config_path}: hidden_act is {activation!r}; only {' and '.join(_ACTIVATIONS)} are supported"
        )
    ours = {key: values[key] for key in _KEYS if key in values}
    ours["hidden_act"] = _ACTIVATIONS[activation]
    model = build_settings(ModelConfig, values=ours, source=str(config_path))
    return FolderConfig(model=model, layout="tensorflow")


def read_tensorflow_weights(path: Path) -> dict[str, Tensor]:
    """Read the variables of the model, without those of the optimizer and the step counter."""
    found = [path] if path.suffix == _INDEX else _list(path, _WEIGHT_PATTERNS)
    if not found:
        raise FileFormatError(f"{path}: has no checkpoint, a file that ends in .index; check the path")
    if len(found) > 1:
        names = ", ".join(file.name for file in found[:5])
        raise FileFormatError(
            f"{path}: holds {len(found)} checkpoints ({names}); give the path of one .index file"
        )
    arrays = read_tensor_bundle(
        found[0].with_suffix(""),
        wanted=lambda name: (
            name.rpartition("/")[2] != "global_step" and not name.endswith(_OPTIMIZER_ENDINGS)
        ),
    )
    return {name.removeprefix(_HUB_PREFIX): torch.from_numpy(array) for name, array in arrays.items()}


def find_tensorflow_vocabulary(path: Path) -> Path | None:
    """Return the path of the checkpoint's SentencePiece model or vocab.txt, or None."""
    found = [file for folder in _folders(path) for file in _list(folder, _VOCABULARY_PATTERNS)]
    return found[0] if found else None


def _folders(path: Path) -> list[Path]:
    return [path] if path.is_dir() else [path.parent, path.parent.parent]


def _list(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    """List the files that match the first pattern with any match, sorted by name."""
    for pattern in patterns:
        found = sorted(folder.glob(pattern))
        if found:
            return found
    return []


def read_tensor_bundle(
    prefix: Path, *, wanted: Callable[[str], bool] = lambda name: True
) -> dict[str, Array]:
    """Read the tensors of a checkpoint as arrays by name; `wanted` selects the names."""
    path = Path(f"{prefix}.index")
    try:
        records = dict(_iter_table(path.read_bytes()))
        header = _Message(records.pop(b"", b""))
        # A key that starts with a zero is a slice of a partitioned variable.
        entries = {key.decode("utf-8"): _Message(value) for key, value in records.items() if key[:1] != b"\0"}
    except OSError as error:
        raise FileFormatError(f"{path}: {error.strerror or error}; check the path") from error
    except (ValueError, IndexError) as error:
        raise FileFormatError(
            f"{path}: not a TensorFlow index, or damaged ({error}); download the checkpoint again, or "
            f"{_SAVE_AGAIN}"
        ) from error
    return {
        name: _read_tensor(name, entry, prefix=prefix, num_shards=header.integer(1))
        for name, entry in entries.items()
        if wanted(name)
    }


def _read_tensor(name: str, entry: "_Message", *, prefix: Path, num_shards: int) -> Array:
    """Read the tensor of a BundleEntryProto, bfloat16 as float32.

    The fields are dtype 1, shape 2, shard 3, offset 4, size 5 and slices 7.
    """
    path = Path(f"{prefix}.data-{entry.integer(3):05d}-of-{num_shards:05d}")
    dtype = _DTYPES.get(entry.integer(1))
    if dtype is None or entry.messages(7):
        reason = "stored in slices" if entry.messages(7) else f"of TensorFlow's type {entry.integer(1)}"
        raise FileFormatError(f"{path}: {name} is {reason}, which is not supported; {_SAVE_AGAIN}")
    shape = [_Message(dim).integer(1) for shape in entry.messages(2) for dim in _Message(shape).messages(2)]
    stored = np.dtype("<u2" if dtype == "bfloat16" else dtype)
    try:
        values: Array = np.fromfile(path, stored, math.prod(shape), offset=entry.integer(4))
    except OSError as error:
        raise FileFormatError(
            f"{path}: {error.strerror or error}; put all files of the checkpoint into one folder"
        ) from error
    if values.size < math.prod(shape):
        raise FileFormatError(f"{path}: truncated, {name} is incomplete; download the file again")
    if dtype == "bfloat16":
        values = (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return values.astype(values.dtype.newbyteorder("="), copy=False).reshape(shape)


class _Message:
    """The numbered fields of a protobuf message, read from its wire format."""

    def __init__(self, data: bytes) -> None:
        self._fields: dict[int, list[Any]] = {}
        start = 0
        while start < len(data):
            tag, start = _read_varint(data, start)
            value: int | bytes
            if tag & 7 == 0:
                value, start = _read_varint(data, start)
            elif tag & 7 == 2:
                size, start = _read_varint(data, start)
                value, start = data[start : start + size], start + size
            else:
                size = 8 if tag & 7 == 1 else 4
                value, start = int.from_bytes(data[start : start + size], "little"), start + size
            self._fields.setdefault(tag >> 3, []).append(value)

    def integer(self, number: int) -> int:
        return int(self._fields.get(number, [0])[-1])

    def messages(self, number: int) -> list[bytes]:
        return self._fields.get(number, [])


def _read_varint(data: bytes, start: int) -> tuple[int, int]:
    """Read the number at `start` (seven bits per byte, lowest first); return it and its end."""
    value, shift = 0, 0
    while True:
        byte = data[start]
        value |= (byte & 0x7F) << shift
        start, shift = start + 1, shift + 7
        if byte < 0x80:
            return value, start


def _iter_table(table: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the (key, value) pairs of a table, sorted by key."""
    if len(table) < _FOOTER_SIZE or not table.endswith(_MAGIC):
        raise ValueError("wrong magic number at the end")
    footer = table[-_FOOTER_SIZE:]
    start = _read_varint(footer, _read_varint(footer, 0)[1])[1]  # after the handle of the metaindex
    for _, handle in _iter_block(_read_block(table, footer[start:])):
        yield from _iter_block(_read_block(table, handle))


def _read_block(table: bytes, handle: bytes) -> bytes:
    """Read the block of a handle (an offset and a size); a byte for the compression follows the block."""
    offset, start = _read_varint(handle, 0)
    size, _ = _read_varint(handle, start)
    if table[offset + size]:
        raise ValueError("it is compressed")
    return table[offset : offset + size]


def _iter_block(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the pairs of a block; a key is stored as a suffix to a prefix of the previous key."""
    # The restart points for binary search are at the end of the block; here they only limit the pairs.
    end = len(block) - 4 - 4 * int.from_bytes(block[-4:], "little")
    key, start = b"", 0
    while start < end:
        shared, start = _read_varint(block, start)
        added, start = _read_varint(block, start)
        size, start = _read_varint(block, start)
        key = key[:shared] + block[start : start + added]
        start += added + size
        yield key, block[start - size : start]
