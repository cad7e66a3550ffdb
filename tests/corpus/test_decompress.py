import gzip
import lzma

import pyarrow as pa
import pytest

from albert.data.paths import iter_bytes, read_head
from albert.errors import FileFormatError

CONTENT = b"".join(b"line %d of a text that is compressed\n" % number for number in range(40_000))


def write_zstd(path, content):
    with pa.CompressedOutputStream(pa.OSFile(str(path), "wb"), "zstd") as stream:
        stream.write(content)


def write_plain(path, content):
    path.write_bytes(content)


WRITERS = {
    ".gz": lambda path, content: path.write_bytes(gzip.compress(content)),
    ".xz": lambda path, content: path.write_bytes(lzma.compress(content)),
    ".zst": write_zstd,
    "": write_plain,
}


@pytest.mark.parametrize("suffix", WRITERS)
def test_what_was_compressed_comes_out_whole_and_in_bounded_blocks(tmp_path, suffix):
    path = tmp_path / f"a.txt{suffix}"
    WRITERS[suffix](path, CONTENT)
    blocks = list(iter_bytes(path, block_bytes=10_000))
    assert b"".join(blocks) == CONTENT
    assert max(map(len, blocks)) <= 10_000
    assert read_head(path, num_bytes=1234) == CONTENT[:1234]


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_files_joined_end_to_end_are_read_to_the_last(tmp_path, suffix):
    parts = []
    for number, content in enumerate((b"first\n" * 1000, b"second\n" * 1000)):
        WRITERS[suffix](tmp_path / f"{number}{suffix}", content)
        parts.append((tmp_path / f"{number}{suffix}").read_bytes())
    path = tmp_path / f"both.txt{suffix}"
    path.write_bytes(b"".join(parts))
    assert b"".join(iter_bytes(path)) == b"first\n" * 1000 + b"second\n" * 1000


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
@pytest.mark.parametrize("share", [0.5, 0.999])
def test_half_a_file_is_refused_by_name(tmp_path, suffix, share):
    path = tmp_path / f"half.txt{suffix}"
    WRITERS[suffix](path, CONTENT)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(
        FileFormatError, match=f"half.txt{suffix}: its compressed data is damaged or cut short"
    ):
        list(iter_bytes(path))


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_what_is_not_compressed_at_all_is_refused_by_name(tmp_path, suffix):
    path = tmp_path / f"plain.txt{suffix}"
    path.write_bytes(CONTENT)
    with pytest.raises(FileFormatError, match="plain.txt"):
        list(iter_bytes(path))


def test_a_slice_of_a_plain_file_is_that_slice(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(CONTENT)
    assert b"".join(iter_bytes(path, start=100, end=5000, block_bytes=999)) == CONTENT[100:5000]
