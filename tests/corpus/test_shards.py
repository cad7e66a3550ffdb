import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert.data.shards import build_part, choose_id_type, join_parts, read_shard, write_parts
from albert.errors import FileFormatError
from tests.corpus.parts import pack

DOCUMENTS = st.lists(st.lists(st.lists(st.integers(0, 65535), max_size=5), max_size=4), max_size=6)


def write_shard(path, *batches, id_type):
    """Each a list of documents of sentences of ids."""
    write_parts(path, (pack(documents, id_type=id_type) for documents in batches), id_type=id_type)


def to_lists(parts):
    return [
        [
            part.pieces[part.sentence_starts[s] : part.sentence_starts[s + 1]].tolist()
            for s in range(part.document_starts[d], part.document_starts[d + 1])
        ]
        for part in parts
        for d in range(len(part.document_starts) - 1)
    ]


@given(st.lists(DOCUMENTS, max_size=3))
def test_what_is_written_is_read_back(tmp_path_factory, batches):
    path = tmp_path_factory.mktemp("shard") / "a.arrow"
    write_shard(path, *batches, id_type=choose_id_type(1 << 16))
    parts = read_shard(path)
    assert [to_lists([part]) for part in parts] == batches


@given(DOCUMENTS, DOCUMENTS)
def test_parts_are_joined_in_order(first, second):
    parts = [pack(documents) for documents in (first, second)]
    assert to_lists([join_parts(parts)]) == first + second


@given(DOCUMENTS, st.integers(1, 5))
def test_what_is_built_of_blocks_lacks_what_is_empty(documents, size):
    sentences = [sentence for document in documents for sentence in document]
    ids = np.array([number for sentence in sentences for number in sentence], dtype=np.uint16)
    blocks = [ids[start : start + size] for start in range(0, max(len(ids), 1), size)]
    part = build_part(blocks, list(map(len, sentences)), list(map(len, documents)))
    filled = [[sentence for sentence in document if sentence] for document in documents]
    assert to_lists([part]) == [document for document in filled if document]
    assert part.pieces.dtype == np.uint16


def test_any_arrow_tool_reads_a_shard_and_its_bytes_are_not_copied(tmp_path):
    path = tmp_path / "a.arrow"
    write_parts(path, [pack([[[1, 2], [3]]])], id_type=pa.uint16())
    with pa.ipc.open_file(path) as reader:
        assert reader.read_all().to_pydict() == {"document": [[[1, 2], [3]]]}
    (part,) = read_shard(path)
    assert part.pieces.dtype == np.uint16
    assert not part.pieces.flags.writeable


@pytest.mark.parametrize("size", [0, 8, 100, -1])
def test_a_shard_cut_short_is_refused_by_name(tmp_path, size):
    path = tmp_path / "a.arrow"
    write_shard(path, [[[1, 2, 3]] * 100], id_type=pa.uint16())
    data = path.read_bytes()
    path.write_bytes(data[:size])
    with pytest.raises(FileFormatError, match="a.arrow: no whole shard"):
        read_shard(path)


def test_a_foreign_arrow_file_is_refused_by_name(tmp_path):
    path = tmp_path / "a.arrow"
    table = pa.table({"text": ["a"]})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(FileFormatError, match="a.arrow: no whole shard"):
        read_shard(path)


@pytest.mark.skipif(sys.platform == "win32", reason="no such limits there")
def test_more_shards_than_a_process_may_open_at_first(tmp_path):
    """Each map keeps a file open: the limit is raised, and where it cannot be, the cause is named."""
    path = tmp_path / "shard.arrow"
    write_parts(path, [pack([[[5, 6], [7]]])], id_type=pa.uint16())
    code = f"""
import resource
from pathlib import Path
from albert.data.shards import MappedFiles, read_shard
files = MappedFiles()
resource.setrlimit(resource.RLIMIT_NOFILE, (32, 64))
for _ in range(40):
    read_shard(Path({str(path)!r}), files=files)
print(len(files))
for _ in range(40):
    read_shard(Path({str(path)!r}), files=files)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "40\n"
    assert "InputError" in done.stderr.splitlines()[-1]
    assert "more files are open than the system allows" in done.stderr
