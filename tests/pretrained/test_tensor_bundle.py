"""Checkpoints that the real TensorFlow wrote are read bit for bit; damaged ones are refused by name."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from albert.errors import FileFormatError
from albert.pretrained.tensor_bundle import (
    crc32c,
    iter_table,
    masked_crc32c,
    read_index,
    read_tensor,
    read_tensor_bundle,
)
from tests.data.make_tensorflow_albert import (
    ALBERT_PREFIX,
    REFUSED_PREFIX,
    SHARDS_PREFIX,
    SLOTS,
    albert_tensors,
    random_values,
    shard_tensors,
)


def assert_same_bits(read, expected):
    assert read.keys() == expected.keys()
    for name, value in expected.items():
        assert (read[name].dtype, read[name].shape) == (value.dtype, value.shape), name
        assert read[name].tobytes() == value.tobytes(), name


def copy_of(prefix: Path, to: Path) -> Path:
    """The checkpoint's files in a folder of their own, to be damaged."""
    shutil.copytree(prefix.parent, to / "checkpoint")
    return to / "checkpoint" / prefix.name


def index_path(prefix: Path) -> Path:
    return Path(f"{prefix}.index")


def refusal(prefix: Path) -> str:
    """The message with which the checkpoint is refused: always a single line."""
    with pytest.raises(FileFormatError) as refused:
        read_tensor_bundle(prefix)
    assert "\n" not in str(refused.value)
    return str(refused.value)


# What is read


def test_every_variable_of_a_checkpoint_comes_back_bit_for_bit():
    assert_same_bits(read_tensor_bundle(ALBERT_PREFIX), albert_tensors())


def test_tensors_come_from_both_data_files_in_their_own_types():
    first, second = shard_tensors()
    assert_same_bits(read_tensor_bundle(SHARDS_PREFIX), first | second)


def test_the_index_says_what_is_stored_where():
    entries = {entry.name: entry for entry in read_index(SHARDS_PREFIX)}
    assert list(entries) == sorted(entries)
    assert {name: entry.dtype for name, entry in entries.items()} == {
        "a/empty": "float32",
        "a/float32": "float32",
        "a/float64": "float64",
        "b/bfloat16": "bfloat16",
        "b/float16": "float16",
        "b/scalar_bfloat16": "bfloat16",
        "c/int32": "int32",
        "c/scalar": "int32",
        "d/int64": "int64",
    }
    assert entries["a/float64"].shape == (2, 2, 2)
    assert entries["c/scalar"].shape == ()
    assert entries["a/empty"].shape == (0, 5)
    assert (entries["a/float32"].shard, entries["c/int32"].shard) == (0, 1)


def test_the_index_is_read_without_the_data(tmp_path):
    shutil.copy(index_path(ALBERT_PREFIX), tmp_path)
    entries = read_index(tmp_path / ALBERT_PREFIX.name)
    assert {entry.name for entry in entries} == albert_tensors().keys()


def test_only_what_is_wanted_is_read():
    read = read_tensor_bundle(ALBERT_PREFIX, wanted=lambda name: not name.endswith(("/adam_m", "/adam_v")))
    assert read.keys() == albert_tensors().keys() - SLOTS.keys()


def test_arrays_can_be_written_to():
    # torch.from_numpy shares their memory and warns of any other kind.
    assert all(tensor.flags.writeable for tensor in read_tensor_bundle(SHARDS_PREFIX).values())


# What is refused although it is sound


@pytest.mark.parametrize(
    ("name", "reason"), [("partitioned", "partitioned is stored in slices"), ("text", "text is of string")]
)
def test_slices_and_strings_are_refused(name, reason):
    entry = next(entry for entry in read_index(REFUSED_PREFIX) if entry.name == name)
    with pytest.raises(FileFormatError, match=f"model.ckpt-7.index: {reason}.*save it again"):
        read_tensor(REFUSED_PREFIX, entry)


def test_slices_and_strings_are_no_obstacle_to_the_others():
    read = read_tensor_bundle(REFUSED_PREFIX, wanted=lambda name: name == "kernel")
    assert_same_bits(read, {"kernel": random_values("kernel", (2, 2))})


# What is damaged


def test_missing_index(tmp_path):
    message = refusal(tmp_path / "model.ckpt-best")
    assert message.startswith(f"{tmp_path / 'model.ckpt-best.index'}: No such file")
    assert "what stands before .index" in message


def test_missing_data_file(tmp_path):
    prefix = copy_of(SHARDS_PREFIX, tmp_path)
    missing = Path(f"{prefix}.data-00001-of-00002")
    missing.unlink()
    assert refusal(prefix).startswith(f"{missing}: No such file")


def test_truncated_data_file(tmp_path):
    prefix = copy_of(ALBERT_PREFIX, tmp_path)
    data_path = Path(f"{prefix}.data-00000-of-00001")
    data_path.write_bytes(data_path.read_bytes()[:-1])
    assert refusal(prefix) == (
        f"{data_path}: ends at byte 17335, but global_step ends at 17336; fetch the file again"
    )


@pytest.mark.parametrize("at", [0, 1599, 1600, 17335])
def test_a_flipped_bit_of_a_data_file_is_noticed(tmp_path, at):
    prefix = copy_of(ALBERT_PREFIX, tmp_path)
    data_path = Path(f"{prefix}.data-00000-of-00001")
    content = bytearray(data_path.read_bytes())
    content[at] ^= 0x10
    data_path.write_bytes(content)
    assert re.match(f"{re.escape(str(data_path))}: the checksum of [a-z_/]+ is wrong; fetch", refusal(prefix))


def test_an_index_cut_anywhere_is_refused(tmp_path):
    prefix = copy_of(SHARDS_PREFIX, tmp_path)
    index = index_path(prefix).read_bytes()
    for size in range(len(index)):
        index_path(prefix).write_bytes(index[:size])
        assert refusal(prefix).startswith(f"{index_path(prefix)}: ")


# What is sealed with a right checksum and still wrong: made here, since TensorFlow will not


def block_of(records: dict[bytes, bytes], *, compression: int = 0) -> bytes:
    """A block of short records that share nothing, with one restart point, and its trailer."""
    pairs = b"".join(bytes([0, len(key), len(value)]) + key + value for key, value in records.items())
    sealed = pairs + bytes(4) + (1).to_bytes(4, "little") + bytes([compression])
    return sealed + masked_crc32c(sealed).to_bytes(4, "little")


def handle_of(offset: int, size: int) -> bytes:
    return bytes([offset & 0x7F | 0x80, offset >> 7, size & 0x7F | 0x80, size >> 7])


def table_of(records: dict[bytes, bytes], *, compression: int = 0) -> bytes:
    data = block_of(records, compression=compression)
    index = block_of({b"\xff": handle_of(0, len(data) - 5)})
    footer = handle_of(0, 0) + handle_of(len(data), len(index) - 5)
    return data + index + footer.ljust(40, b"\0") + bytes.fromhex("57fb808b247547db")


HEADER = b"\x08\x01\x1a\x02\x08\x01"  # one data file, little endian, version 1


def test_the_tables_made_here_are_sound():
    assert dict(iter_table(table_of({b"": HEADER, b"x": b"y"}))) == {b"": HEADER, b"x": b"y"}


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (table_of({b"": HEADER}, compression=1), "is compressed with Snappy"),
        (table_of({b"": HEADER}, compression=9), "is compressed in an unknown way"),
        (table_of({b"": HEADER + b"\x10\x01"}), "was written on a big-endian machine"),
        (table_of({b"x": b"\x08\x01"}), "is a table without the header of a checkpoint"),
        (table_of({b"": HEADER, b"x": b"\x08\x01\x18\x01"}), "x is said to lie in data file 1 of 1"),
        (table_of({b"": HEADER, b"\xff": b""}), "'utf-8' codec can't decode"),
    ],
)
def test_an_index_that_cannot_be_used_is_refused_with_the_reason_and_a_cure(tmp_path, table, reason):
    prefix = tmp_path / "model.ckpt"
    index_path(prefix).write_bytes(table)
    message = refusal(prefix)
    assert message.startswith(f"{index_path(prefix)}: {reason}")
    assert "save it again" in message


@pytest.mark.parametrize(
    ("entry", "file", "reason"),
    [
        ("0801 12041202 0803 2808", ".index", "x of float32 [3] cannot take 8 bytes"),
        ("0801 1210 12020800 120a08808080808080808040", ".index", f"x of float32 [0, {2**62}] cannot"),
        ("0808 2804", ".index", "x is of TensorFlow's type 8, not one of float32"),
        ("0801 2804", ".data-00000-of-00001", "ends at byte 0, but x ends at 4"),
    ],
)
def test_an_entry_that_cannot_be_a_tensor_is_refused(tmp_path, entry, file, reason):
    prefix = tmp_path / "model.ckpt"
    index_path(prefix).write_bytes(table_of({b"": HEADER, b"x": bytes.fromhex(entry)}))
    Path(f"{prefix}.data-00000-of-00001").write_bytes(b"")
    assert refusal(prefix).startswith(f"{prefix}{file}: {reason}")


def crc32c_by_definition(data: bytes) -> int:
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


# The examples of RFC 3720, section B.4, and the customary check value.
@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(reversed(range(32))), 0x113FDB5C),
    ],
)
def test_published_values(data, crc):
    assert crc32c(data) == crc


@pytest.mark.parametrize("size", [1, 3, 255, 256, 257, 511, 512, 16383, 16384, 16385, 33333])
def test_folding_rows_of_words_changes_nothing(size):
    data = np.random.default_rng(size).bytes(size)
    assert crc32c(data) == crc32c_by_definition(data)


def test_the_mask_is_the_one_of_tensorflow():
    # What TFRecordWriter stores after the record b"123456789".
    assert masked_crc32c(b"123456789") == 0xC78AB0E5
