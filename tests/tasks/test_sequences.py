"""Sequences of a task: truncation of pairs, windows over long texts, flat batches."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from albert.tasks.sequences import TaskSequence, build_windows, truncate_pair
from albert.tasks.task import build_task_batch


def truncate_as_published(num_first: int, num_second: int, max_tokens: int) -> tuple[int, int]:
    while num_first + num_second > max_tokens:
        if num_first > num_second:
            num_first -= 1
        else:
            num_second -= 1
    return num_first, num_second


@settings(deadline=None)
@given(st.integers(0, 60), st.integers(0, 60), st.integers(2, 60))
def test_long_pairs_are_truncated_longest_first(num_first, num_second, max_tokens):
    found = truncate_pair(num_first, num_second, max_tokens=max_tokens)
    assert found == truncate_as_published(num_first, num_second, max_tokens)


def list_published_windows(num_tokens: int, size: int, stride: int) -> list[tuple[int, int]]:
    spans = []
    start = 0
    while start < num_tokens:
        length = min(num_tokens - start, size)
        spans.append((start, length))
        if start + length == num_tokens:
            break
        start += min(length, stride)
    return spans


def find_published_owner(spans: list[tuple[int, int]], position: int) -> int:
    """The window with the most context, as in the published code, which looks at all windows."""
    best_score, best = None, None
    for index, (start, length) in enumerate(spans):
        end = start + length - 1
        if not start <= position <= end:
            continue
        score = min(position - start, end - position) + 0.01 * length
        if best_score is None or score > best_score:
            best_score, best = score, index
    assert best is not None
    return best


def assert_published(num_tokens: int, size: int, stride: int) -> None:
    windows = build_windows(num_tokens, size=size, stride=stride)
    spans = list_published_windows(num_tokens, size, stride)
    assert [(window.first, window.num_tokens) for window in windows] == spans
    owners = [
        (token, index)
        for index, window in enumerate(windows)
        for token in range(window.own_first, window.own_end)
    ]
    assert owners == [(token, find_published_owner(spans, token)) for token in range(num_tokens)]


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 200), st.integers(1, 60), st.integers(1, 70))
def test_windows_and_their_owners_are_the_published_ones(num_tokens, size, stride):
    assert_published(num_tokens, size, stride)


def test_an_empty_text_has_one_window():
    (window,) = build_windows(0, size=320, stride=128)
    assert (window.first, window.end, window.own_first, window.own_end) == (0, 0, 0, 0)


def test_a_batch_has_no_padding():
    batch = build_task_batch([TaskSequence((2, 7, 3), 3), TaskSequence((2, 8, 3, 9, 9, 3), 3)], None)
    assert batch.lengths.tolist() == [3, 6]
    assert batch.ids_T.tolist() == [2, 7, 3, 2, 8, 3, 9, 9, 3]
    assert batch.positions_T.tolist() == [0, 1, 2, 0, 1, 2, 3, 4, 5]
    assert batch.segments_T.tolist() == [0, 0, 0, 0, 0, 0, 1, 1, 1]
    tokens = batch.build_tokens()
    assert tokens.lengths == (3, 6)
    assert np.array_equal(tokens.segments_T.numpy(), batch.segments_T)
