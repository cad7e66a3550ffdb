"""The best spans of a window are those that an exhaustive search finds."""

import numpy as np
import pytest
import torch

from albert.model.heads import SpanBeam
from albert.model.tokens import Tokens
from albert.tasks.kinds.span_places import SpanPlaces, mark_allowed
from albert.tasks.kinds.span_search import PlacedSpan, list_beam, search_spans

LENGTHS = (30, 9, 5, 12)
# The third window has no context, and the last has one piece that is better in another window, and one not.
CONTEXTS = [(6, 29), (4, 8), (4, 4), (5, 7)]
OWNS = [(6, 20), (4, 8), (4, 4), (6, 7)]
TOKENS = Tokens.from_lists([[1] * length for length in LENGTHS])


def build_places() -> SpanPlaces:
    contexts, owns = (np.array(ranges, dtype=np.int64) for ranges in (CONTEXTS, OWNS))
    return SpanPlaces(np.zeros_like(contexts), contexts, owns)


@pytest.mark.parametrize("max_answer", [1, 4, 100])
def test_every_span_is_looked_at(max_answer):
    generator = torch.Generator().manual_seed(max_answer)
    start, end = (torch.randn(sum(LENGTHS), generator=generator) for _ in range(2))
    found = search_spans(start, end, TOKENS, places=build_places(), max_answer=max_answer, num_best=20)
    rows = zip(start.split(LENGTHS), end.split(LENGTHS), CONTEXTS, OWNS, found, strict=True)
    for starts, ends, (_, context_end), (own_first, own_end), spans in rows:
        every = {
            (first, last): (starts[first] + ends[last]).item()
            for first in range(own_first, own_end)
            for last in range(first, min(context_end, first + max_answer))
        }
        best = sorted(every, key=lambda place: -every[place])[:20]
        assert [(span.first, span.last) for span in spans] == best
        assert [span.score for span in spans] == pytest.approx([every[place] for place in best])


def test_a_beam_loses_what_is_no_answer():
    """No answer at all, the wrong way round, too long, better in another window, an empty slot."""
    nothing = -torch.inf
    beam = SpanBeam(
        start_places_BS=torch.tensor([[0, 8], [5, 0]]),
        start_log_probs_BS=torch.tensor([[-0.1, -0.2], [-0.5, nothing]]),
        end_places_BSZ=torch.tensor([[[0, 9, 8], [7, 9, 8]], [[5, 6, 9], [5, 6, 0]]]),
        end_log_probs_BSZ=torch.tensor(
            [[[-0.1, -0.2, -0.3], [-0.1, -0.4, -0.3]], [[-1.0, -2.0, -0.5], [-1.0, -2.0, nothing]]]
        ),
        unanswerable_B=torch.zeros(2),
    )
    owns = np.array([[6, 9], [4, 6]])
    places = SpanPlaces(np.zeros_like(owns), owns, owns)
    first, second = list_beam(beam, places=places, max_answer=3, num_best=20)
    assert first == (PlacedSpan(8, 8, pytest.approx(-0.5)), PlacedSpan(8, 9, pytest.approx(-0.6)))
    assert second == (PlacedSpan(5, 5, pytest.approx(-1.5)), PlacedSpan(5, 6, pytest.approx(-2.5)))
    (only, *_), _ = list_beam(beam, places=places, max_answer=3, num_best=1)
    assert only == first[0]


def test_the_question_and_separators_are_no_place_for_an_answer():
    allowed = mark_allowed(TOKENS, build_places()).split(LENGTHS)
    for flags, (first, end) in zip(allowed, CONTEXTS, strict=True):
        assert flags.nonzero().flatten().tolist() == [0, *range(first, end)]
