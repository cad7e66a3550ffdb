"""Batches for prediction: every sequence once, alike lengths together, within the budget."""

from hypothesis import given
from hypothesis import strategies as st

from albert.inference.predictor import iter_batches


@given(lengths=st.lists(st.integers(1, 60), max_size=40), budget=st.integers(1, 100))
def test_every_sequence_is_in_one_batch_and_batches_keep_the_budget(lengths, budget):
    batches = list(iter_batches(lengths, max_tokens=budget))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or sum(lengths[index] for index in batch) <= budget


@given(lengths=st.lists(st.integers(1, 60), max_size=40), budget=st.integers(1, 100))
def test_batches_go_from_short_to_long(lengths, budget):
    order = [lengths[index] for batch in iter_batches(lengths, max_tokens=budget) for index in batch]
    assert order == sorted(lengths)


def test_a_batch_is_filled_before_the_next_begins():
    assert list(iter_batches([4, 4, 4, 9, 2], max_tokens=10)) == [[4, 0, 1], [2], [3]]
