"""Logits of windows, or a beam, come in; the best spans of each window go out, as places and scores.

A span begins where no other window has more context, so that no two windows propose the same one: the rule of
the published code. It ends in the same window and is at most `max_answer` pieces long.
Shapes: T tokens, B windows, L the longest, W lengths of a span, N candidates, S starts, Z ends of each.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from albert.model.heads import SpanBeam
from albert.model.tokens import Tokens
from albert.tasks.kinds.span_places import SpanPlaces, mark_range, pad_rows


@dataclass(frozen=True, slots=True)
class PlacedSpan:
    """The first and the last place of a span in its window, and how much the model is for it."""

    first: int
    last: int
    score: float


@dataclass(frozen=True, slots=True)
class WindowSpans:
    """The best spans of a window, the best first, and how much the model is for there being no answer."""

    spans: tuple[PlacedSpan, ...]
    null_odds: float = 0.0


def search_spans(
    start_T: Tensor, end_T: Tensor, tokens: Tokens, *, places: SpanPlaces, max_answer: int, num_best: int
) -> list[tuple[PlacedSpan, ...]]:
    """Every span there is, scored by the sum of its two logits.

    The published code looks at pairs of the 20 best starts and ends only; a band of `max_answer` ends for
    each start costs next to nothing, and misses none.
    """
    start_BL = pad_rows(_keep(start_T, mark_range(tokens, places.owns_B2)), tokens)
    end_BL = pad_rows(_keep(end_T, mark_range(tokens, places.contexts_B2)), tokens)
    num_lengths = min(max_answer, end_BL.shape[1])
    ends_BLW = F.pad(end_BL, (0, num_lengths - 1), value=-torch.inf).unfold(1, num_lengths, 1)
    scores_BN = (start_BL.unsqueeze(2) + ends_BLW).flatten(1)
    candidates_N = torch.arange(scores_BN.shape[1], device=scores_BN.device)
    firsts_N = candidates_N // num_lengths
    lasts_N = firsts_N + candidates_N % num_lengths
    return _list_best(
        scores_BN, firsts_N.expand_as(scores_BN), lasts_N.expand_as(scores_BN), num_best=num_best
    )


def list_beam(
    beam: SpanBeam, *, places: SpanPlaces, max_answer: int, num_best: int
) -> list[tuple[PlacedSpan, ...]]:
    """What a beam found, scored by the sum of the two log-probabilities; [CLS] is none, and left out."""
    lasts_BSZ = beam.end_places_BSZ
    firsts_BSZ = beam.start_places_BS.unsqueeze(2).expand_as(lasts_BSZ)
    own_B2 = torch.from_numpy(places.owns_B2).to(lasts_BSZ.device)
    is_own_BSZ = (firsts_BSZ >= own_B2[:, 0, None, None]) & (firsts_BSZ < own_B2[:, 1, None, None])
    num_more_BSZ = lasts_BSZ - firsts_BSZ
    is_span_BSZ = is_own_BSZ & (num_more_BSZ >= 0) & (num_more_BSZ < max_answer)
    scores_BSZ = _keep(beam.start_log_probs_BS.unsqueeze(2) + beam.end_log_probs_BSZ, is_span_BSZ)
    return _list_best(scores_BSZ.flatten(1), firsts_BSZ.flatten(1), lasts_BSZ.flatten(1), num_best=num_best)


def _keep(values: Tensor, is_kept: Tensor) -> Tensor:
    return values.float().masked_fill(~is_kept, -torch.inf)


def _list_best(
    scores_BN: Tensor, firsts_BN: Tensor, lasts_BN: Tensor, *, num_best: int
) -> list[tuple[PlacedSpan, ...]]:
    """The candidates with the highest scores; those of −inf are none."""
    best = scores_BN.topk(min(num_best, scores_BN.shape[1]), dim=1)
    places = (part_BN.gather(1, best.indices).tolist() for part_BN in (firsts_BN, lasts_BN))
    rows = zip(*places, best.values.tolist(), torch.isfinite(best.values).tolist(), strict=True)
    return [
        tuple(
            PlacedSpan(first, last, score)
            for first, last, score, is_real in zip(*row, strict=True)
            if is_real
        )
        for row in rows
    ]
