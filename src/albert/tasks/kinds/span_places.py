"""Windows come in; where their answers are, and where answers may be, goes out as arrays of a batch.

Places count from the start of each window. Shapes: T tokens, B windows, L the longest of them; a pair is
`first, last` of an answer and `first, end` of a range.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from albert.model.tokens import Tokens
from albert.tasks.encoding.windows import Window

Ints = NDArray[np.int64]
NOWHERE = (0, 0)  # an answer that is not in the window is at its [CLS], as in the published code


@dataclass(frozen=True)
class SpanPlaces:
    """Of each window: its answer, its context, and the part of that for which no window has more context."""

    answers_B2: Ints
    contexts_B2: Ints
    owns_B2: Ints

    @staticmethod
    def of(windows: Sequence[Window]) -> "SpanPlaces":
        """The places of some windows, in their order."""
        return SpanPlaces(
            answers_B2=_tabulate([window.answer or NOWHERE for window in windows]),
            contexts_B2=_tabulate([(window.context_start, window.context_end) for window in windows]),
            owns_B2=_tabulate([(window.own_start, window.own_end) for window in windows]),
        )


def mark_range(tokens: Tokens, ranges_B2: Ints) -> Tensor:
    """Of each token, whether it lies in its window's range."""
    lengths_B = torch.tensor(tokens.lengths)
    ranges_T2 = torch.from_numpy(ranges_B2).repeat_interleave(lengths_B, dim=0).to(tokens.ids_T.device)
    places_T = tokens.positions_T
    return (places_T >= ranges_T2[:, 0]) & (places_T < ranges_T2[:, 1])


def mark_allowed(tokens: Tokens, places: SpanPlaces) -> Tensor:
    """Of each token, whether it may be an end of an answer: the context, and [CLS], which means none."""
    return mark_range(tokens, places.contexts_B2) | (tokens.positions_T == 0)


def pad_rows(values_T: Tensor, tokens: Tokens) -> Tensor:
    """One row [L] for each window; behind its end −inf, where nothing is ever found."""
    return pad_sequence(list(values_T.split(tokens.lengths)), batch_first=True, padding_value=-torch.inf)


def _tabulate(pairs: Sequence[tuple[int, int]]) -> Ints:
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)
