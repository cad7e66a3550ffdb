"""Deduplication, scratch files and record batches of a unit of work."""

import tracemalloc
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from albert.data import units
from albert.data.layouts import RawDocument
from albert.data.units import (
    SeenHashes,
    Tally,
    iter_parts,
    read_documents,
    write_documents,
)
from albert.text.folder import load_tokenizer


@given(st.lists(st.lists(st.integers(0, 40), max_size=30), max_size=12))
def test_the_first_in_order_stays_and_every_other_is_marked(all_units):
    seen, before = SeenHashes(), set()
    for unit in all_units:
        for number, flag in zip(unit, seen.mark(np.array(unit, dtype=np.uint64)), strict=True):
            assert flag == (number in before)
            before.add(number)


def test_memory_is_sixteen_bytes_for_each_distinct_hash():
    rng = np.random.default_rng(0)
    num_distinct = 2_000_000
    tracemalloc.start()
    seen = SeenHashes()
    for _ in range(40):
        seen.mark(rng.integers(1 << 63, size=num_distinct // 40, dtype=np.uint64))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * num_distinct + 4_000_000


def test_batches_are_bounded_and_hold_whole_documents(tiny_folder, monkeypatch):
    tokenizer = load_tokenizer(tiny_folder)
    monkeypatch.setattr(units, "_BATCH_SENTENCES", 1)
    monkeypatch.setattr(units, "MAX_BATCH_PIECES", 10)
    texts = [f"The ship left the harbour in {year}." for year in range(1980, 2000)]
    tally = Tally(Counter())
    parts = list(iter_parts([RawDocument([text]) for text in texts], tokenizer, language="en", tally=tally))
    assert len(parts) > 5
    assert [piece for part in parts for piece in part.pieces.tolist()] == [
        piece for ids in tokenizer.encode_ids(texts) for piece in ids
    ]
    longest = max(map(len, tokenizer.encode_ids(texts)))
    assert all(10 <= len(part.pieces) < 10 + longest for part in parts[:-1])
    assert sum(len(part.document_starts) - 1 for part in parts) == len(texts)
    assert tally.num_characters == sum(map(len, texts))


PARAGRAPH = st.text(alphabet=st.characters(min_codepoint=32, exclude_categories=["Cc", "Cs"]), min_size=1)
DOCUMENT = st.builds(RawDocument, st.lists(PARAGRAPH, min_size=1, max_size=4), is_split=st.booleans())


@given(st.lists(DOCUMENT, max_size=8))
def test_documents_pass_through_and_come_back(tmp_path_factory, documents):
    path = tmp_path_factory.mktemp("scratch") / "text.zst"
    assert list(write_documents(path, documents)) == documents
    assert list(read_documents(path)) == documents


def test_documents_across_blocks_come_back(tmp_path, monkeypatch):
    monkeypatch.setattr(units, "BLOCK_BYTES", 100)
    documents = [RawDocument([f"{k} " * 500_000, "é"], is_split=k == 1) for k in range(4)]
    list(write_documents(tmp_path / "text.zst", documents))
    assert list(read_documents(tmp_path / "text.zst")) == documents
