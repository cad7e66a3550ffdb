"""An example is shown so that a person can check it."""

import pytest

from albert.errors import InputError
from albert.examples.describe import PieceView, describe_example, format_segment
from albert.examples.settings import ExampleSettings
from albert.examples.source import build_source
from albert.settings import build_settings


@pytest.fixture(scope="module")
def source(corpus, tokenizer):
    return build_source(
        corpus, tokenizer, settings=build_settings(ExampleSettings, values={"max_length": 64})
    )


def test_both_segments_are_spelled_out_with_what_is_predicted(source, tokenizer):
    view = describe_example(source, tokenizer, 7)
    pieces = view.first + view.second
    assert len(pieces) + 3 == view.num_pieces
    assert sum(piece.span > 0 for piece in pieces) == view.num_predicted > 0
    for piece in pieces:
        assert piece.shown == piece.original or piece.span
        assert piece.original.startswith(("p", "##p"))
    assert view.answer.startswith("swapped" if view.label else "in the order")


def test_spans_stand_in_braces():
    pieces = (
        PieceView("a", "a", 0),
        PieceView("[MASK]", "b", 1),
        PieceView("c", "c", 1),
        PieceView("[MASK]", "d", 2),
    )
    assert format_segment(pieces) == "a {[MASK] c = b c} {[MASK] = d}"


def test_a_number_outside_the_epoch_is_refused(source, tokenizer):
    with pytest.raises(InputError, match=r"an epoch has 0 to \d+"):
        describe_example(source, tokenizer, 10**9)
