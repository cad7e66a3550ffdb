"""Keep torch.compile out of the functions that depend on sequence lengths.

The lengths of the sequences are new in every batch. Functions that depend on them run outside of compiled
graphs, so that new lengths cause no recompilation.
"""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")


def opaque(function: Callable[P, T]) -> Callable[P, T]:
    """Apply `torch.compiler.disable` at the first call after torch's compiler was imported.

    `torch.compiler.disable` imports the compiler, which takes as long as importing torch. Without the
    compiler there is nothing to disable.
    """
    disabled: Callable[P, T] | None = None

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        nonlocal disabled
        if disabled is None:
            if "torch._dynamo" not in sys.modules:
                return function(*args, **kwargs)
            torch._dynamo.eval_frame.skip_code(call.__code__)  # this wrapper is not compiled either
            disabled = torch.compiler.disable(function)
        return disabled(*args, **kwargs)

    marked: Any = call
    marked._torchdynamo_disable = True  # nor inlined
    return call
