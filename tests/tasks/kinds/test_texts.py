"""Classes, several labels and numbers of texts are scored against what the table says."""

import numpy as np
import pytest

from albert.tasks.examples import TextExample
from albert.tasks.kinds.texts import TextKind


def test_numbers_are_right_to_their_last_digit():
    """In 32 bits dates are told apart by even days only, and a model that is always right is not the best."""
    days = [20240101.0 + day for day in range(12)]
    examples = [TextExample(str(day), "the day", None, day) for day in days]
    kind = TextKind((), ("pearson", "spearman"), "number")
    found = kind.score([np.array([day]) for day in days], examples)
    assert found == {
        "pearson": pytest.approx(100.0),
        "spearman": pytest.approx(100.0),
        "score": pytest.approx(100.0),
    }
