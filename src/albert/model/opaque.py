"""What torch.compile must not look into: a function comes in and goes out unchanged, with a border around it.

The lengths of sequences are new in every batch. Whatever depends on them stays outside compiled graphs, so
that a new pattern of lengths is no new compilation.
"""

from collections.abc import Callable
from typing import TypeVar, cast

import torch

C = TypeVar("C", bound=Callable[..., object])


def opaque(function: C) -> C:
    """Run this function as it is, also inside a compiled model."""
    return cast(C, torch.compiler.disable(function))
