"""Predictions and golds come in; what does not fit together, or is no number, is refused."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albert.errors import InputError

Values = Sequence[Any] | NDArray[Any]


def check_pairs(predictions: Values, *, golds: Values) -> None:
    """Refused: no examples at all, and another number of predictions than of gold answers."""
    if len(predictions) != len(golds):
        raise InputError(
            f"{len(predictions)} predictions for {len(golds)} gold answers; there must be one for each"
        )
    if len(golds) == 0:
        raise InputError("0 examples to score; there must be at least 1")


def check_finite(values: NDArray[np.float64], *, name: str) -> None:
    """Refused: a number that is not one, told with its place."""
    if not np.isfinite(values).all():
        place = tuple(int(index) for index in np.argwhere(~np.isfinite(values))[0])
        where = place[0] if len(place) == 1 else place
        raise InputError(f"{name} {where} is {values[place]}, which cannot be scored; give a finite number")
