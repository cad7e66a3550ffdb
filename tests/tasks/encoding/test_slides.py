"""Windows over a text: those of the published code, in linear time."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albert.tasks.encoding.windows import build_slides
from albert.tasks.task_facts import TaskConfig


def slide_as_published(num_pieces: int, size: int, stride: int) -> list[tuple[int, int]]:
    spans = []
    start = 0
    while start < num_pieces:
        length = min(num_pieces - start, size)
        spans.append((start, length))
        if start + length == num_pieces:
            break
        start += min(length, stride)
    return spans


def owner_as_published(spans: list[tuple[int, int]], position: int) -> int:
    """The published check for the window with the most context, which looks through all windows."""
    best_score, best = None, None
    for place, (start, length) in enumerate(spans):
        end = start + length - 1
        if not start <= position <= end:
            continue
        score = min(position - start, end - position) + 0.01 * length
        if best_score is None or score > best_score:
            best_score, best = score, place
    assert best is not None
    return best


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 200), st.integers(1, 60), st.integers(1, 70))
def test_windows_and_their_owners_are_the_published_ones(num_pieces, size, stride):
    slides = build_slides(num_pieces, size=size, stride=stride)
    spans = slide_as_published(num_pieces, size, stride)
    assert [(slide.first, slide.num_pieces) for slide in slides] == spans
    owners = {
        piece: place for place, slide in enumerate(slides) for piece in range(slide.own_first, slide.own_end)
    }
    assert owners == {piece: owner_as_published(spans, piece) for piece in range(num_pieces)}
    assert sum(slide.own_end - slide.own_first for slide in slides) == num_pieces


@pytest.mark.parametrize("num_pieces", [961, 1000, 1087, 1088, 1089])
def test_the_published_sizes(num_pieces):
    """A last window that is much shorter than the others answers for less than its share."""
    slides = build_slides(num_pieces, size=320, stride=128)
    spans = slide_as_published(num_pieces, 320, 128)
    for place, slide in enumerate(slides):
        owners = {owner_as_published(spans, piece) for piece in range(slide.own_first, slide.own_end)}
        assert owners == {place}


def test_a_text_without_pieces_has_one_empty_window():
    (slide,) = build_slides(0, size=320, stride=128)
    assert (slide.first, slide.end, slide.own_first, slide.own_end) == (0, 0, 0, 0)


def test_time_is_linear_in_the_text():
    def measure(num_pieces: int) -> float:
        start = time.process_time()
        build_slides(num_pieces, size=320, stride=128)
        return time.process_time() - start

    ratio = min(measure(800_000) for _ in range(3)) / min(measure(100_000) for _ in range(3))
    assert ratio < 20, ratio  # eight times the text; 64 times the time would be quadratic


@pytest.mark.parametrize(
    ("num_pieces", "length", "read"),
    [(480, 384, (2, 759)), (480, 512, (1, 503)), (10_000, 384, (77, 29_479)), (10_000, 512, (76, 38_823))],
)
def test_longer_windows_spare_work_only_where_one_holds_all(num_pieces, length, read):
    """The figures of docs/guides/question-answering.md: with a question of 20 pieces, 23 are not context."""
    facts = TaskConfig(task="questions", kind="spans")
    stride = facts.fit_lengths(length)["stride"]
    slides = build_slides(num_pieces, size=length - 23, stride=stride)
    assert (len(slides), sum(slide.num_pieces + 23 for slide in slides)) == read
