"""The order of an epoch is a permutation that is computed, not stored."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from albert.examples.randomness import ExampleOrder


@given(count=st.integers(1, 3000), seed=st.integers(0, 2**32), epoch=st.integers(0, 100))
@settings(max_examples=60, deadline=None)
def test_every_example_comes_once_an_epoch(count, seed, epoch):
    numbers = ExampleOrder(count, seed).numbers(np.arange(count), epoch=epoch)
    assert sorted(numbers) == list(range(count))


def test_epochs_and_seeds_have_different_orders():
    indices = np.arange(1000)
    orders = [ExampleOrder(1000, seed).numbers(indices, epoch=epoch) for seed in (0, 1) for epoch in (0, 1)]
    for i, one in enumerate(orders):
        # Two independent permutations agree at about one index.
        assert all((one == other).sum() < 10 for other in orders[:i])
    assert abs(np.corrcoef(indices, orders[0])[0, 1]) < 0.1


def test_steps_continue_through_the_epochs():
    order = ExampleOrder(10, seed=3)
    found = [
        (epoch, number)
        for step in range(10)
        for epoch, numbers in order.step(step, batch_size=4)
        for number in numbers
    ]
    assert len(found) == 40
    for epoch in range(4):
        assert sorted(number for e, number in found if e == epoch) == list(range(10))
    assert [e for e, _ in found] == sorted(e for e, _ in found)


def test_a_huge_corpus_needs_no_memory():
    numbers = ExampleOrder(10**12, seed=1).numbers(np.array([0, 5, 10**12 - 1]), epoch=7)
    assert len(set(numbers.tolist())) == 3
    assert all(0 <= number < 10**12 for number in numbers)
