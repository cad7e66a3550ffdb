import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from albert.data.units import SeenHashes, hash_document, hash_paragraphs, hash_text


@given(st.lists(st.lists(st.integers(0, 40), max_size=30), max_size=12))
def test_the_first_in_order_stays_and_every_other_is_marked(units):
    seen, before = SeenHashes(), set()
    for unit in units:
        for number, flag in zip(unit, seen.mark(np.array(unit, dtype=np.uint64)), strict=True):
            assert flag == (number in before)
            before.add(number)


def test_short_paragraphs_are_not_compared():
    assert hash_paragraphs(["Yes.", "x" * 64, "Chapter I"], min_characters=64) == hash_text("x" * 64)


def test_a_document_is_its_paragraphs_and_their_borders():
    assert hash_document(["a b", "c "]) == hash_document(["a b", "c"])
    assert len({hash_document(paragraphs) for paragraphs in (["a b", "c"], ["a", "b c"], ["a b c"])}) == 3


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
