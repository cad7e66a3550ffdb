"""The order in which a flat batch is computed: sequences of equal length are neighbors.

The lengths are new in every batch. The functions that depend on them are kept out of graphs of torch.compile,
so that new lengths cause no recompilation.

Shapes: T tokens of the whole batch, P of them, B sequences, D hidden width.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

P = ParamSpec("P")
T = TypeVar("T")
Bools = NDArray[np.bool_]
_CPU = torch.device("cpu")


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
            skip_code = getattr(torch._dynamo.eval_frame, "skip_code", None)  # private: it may move
            if skip_code is not None:
                skip_code(wrapper.__code__)  # the wrapper is not compiled either
            disabled = torch.compiler.disable(function)
        return disabled(*args, **kwargs)

    wrapper: Any = call
    wrapper._torchdynamo_disable = True  # nor inlined
    return call


@dataclass(frozen=True)
class Run:
    """`count` neighbouring sequences of one `length`: together they are a rectangle, without a copy."""

    count: int
    length: int


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the borders between sequences lie while the layers run.

    Sequences are computed in order of length, so that equal lengths are neighbours. Only the ids move on
    the way in and the result on the way out; the layers between see nothing but the runs.
    """

    runs: tuple[Run, ...]
    borders: Tensor  # where sequences begin and end in the computed order, as kernels want it
    order_T: Tensor | None  # token at place i of the computed order; None: already in order
    inverse_T: Tensor | None

    @property
    def run_sizes(self) -> list[int]:
        return [run.count * run.length for run in self.runs]

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(length for run in self.runs for length in [run.length] * run.count)

    @property
    def first_B(self) -> Tensor:  # noqa: N802 - a tensor carries its shape in its name
        """Where each sequence begins in the computed order."""
        return self.borders[:-1].long()

    @opaque
    def sort(self, x_T: Tensor) -> Tensor:
        """Tokens of the batch in the computed order."""
        return x_T if self.order_T is None else x_T[self.order_T]

    @opaque
    def unsort(self, x_TD: Tensor) -> Tensor:
        """Computed vectors in the order of the batch."""
        if self.order_T is None or self.inverse_T is None:
            return x_TD
        result: Tensor = _Permute.apply(x_TD, self.inverse_T, self.order_T)  # type: ignore[no-untyped-call]
        return result

    @opaque
    def find(self, places_P: Tensor) -> Tensor:
        """Where tokens of the batch stand in the computed order."""
        return places_P if self.inverse_T is None else self.inverse_T[places_P]

    def keep(self, is_kept: Bools) -> "tuple[Layout, Tensor]":
        """Without the sequences, in the computed order, that leave; and the places of the tokens that stay.

        The rest keep their order, which is then the order of the batch: there is nothing to sort again.
        """
        counts = np.array([run.count for run in self.runs])
        kept = np.add.reduceat(is_kept, counts.cumsum() - counts, dtype=np.int64)
        runs = tuple(Run(int(n), run.length) for n, run in zip(kept, self.runs, strict=True) if n)
        lengths = np.repeat([run.length for run in self.runs], counts)
        places = np.flatnonzero(np.repeat(is_kept, lengths))
        borders = _find_borders(lengths[is_kept])
        device = self.borders.device
        layout = Layout(runs, torch.from_numpy(borders).to(device), order_T=None, inverse_T=None)
        return layout, torch.from_numpy(places).to(device)


@dataclass(frozen=True, eq=False)
class Wanted:
    """The tokens that the last layer is computed for, by their places in the computed order, each once.

    `is_first` says that they are the first tokens of all sequences, in any order: of one token a sequence,
    attention is a small fraction of its work.
    """

    places_P: Tensor
    is_first: bool = False


@opaque
def gather_rows(x_TD: Tensor, places_P: Tensor) -> Tensor:
    """x[places] for places that differ from each other."""
    result: Tensor = _Gather.apply(x_TD, places_P)  # type: ignore[no-untyped-call]
    return result


class _Gather(torch.autograd.Function):
    """No place comes twice, so the gradient is a copy to its place, not a scattered addition."""

    @staticmethod
    def forward(ctx: Any, x_TD: Tensor, places_P: Tensor) -> Tensor:
        ctx.save_for_backward(places_P)
        ctx.num_rows = x_TD.shape[0]
        return x_TD.index_select(0, places_P)

    @staticmethod
    def backward(ctx: Any, grad_PD: Tensor) -> tuple[Tensor, None]:
        (places_P,) = ctx.saved_tensors
        grad_TD = grad_PD.new_zeros((ctx.num_rows, grad_PD.shape[1]))
        return grad_TD.index_copy_(0, places_P, grad_PD), None


class _Permute(torch.autograd.Function):
    """x[index] for a permutation: the gradient is a gather by the inverse, not a scattered addition."""

    @staticmethod
    def forward(ctx: Any, x_TD: Tensor, index_T: Tensor, inverse_T: Tensor) -> Tensor:
        ctx.save_for_backward(inverse_T)
        return x_TD.index_select(0, index_T)

    @staticmethod
    def backward(ctx: Any, grad_TD: Tensor) -> tuple[Tensor, None, None]:
        (inverse_T,) = ctx.saved_tensors
        return grad_TD.index_select(0, inverse_T), None, None


@lru_cache(maxsize=256)
def build_layout(lengths: tuple[int, ...], device: torch.device = _CPU) -> Layout:
    """Sort the sequences by length, unless equal lengths are neighbours already; indices live on `device`."""
    values = np.array(lengths)
    runs = _find_runs(values)
    order_T = inverse_T = None
    if len(runs) > len(np.unique(values)):
        order = np.argsort(values, kind="stable")
        starts = np.cumsum(values) - values
        order_T = np.concatenate([np.arange(starts[i], starts[i] + values[i]) for i in order])
        inverse_T = np.empty_like(order_T)
        inverse_T[order_T] = np.arange(len(order_T))
        values = values[order]
        runs = _find_runs(values)
    borders = _find_borders(values)

    def place(array: "np.ndarray[Any, Any] | None") -> Any:
        return None if array is None else torch.from_numpy(array).to(device)

    # A layout outlives the call that made it: made under inference mode it could not be trained with later.
    with torch.inference_mode(False):
        return Layout(runs, place(borders), place(order_T), place(inverse_T))


def _find_borders(lengths: "np.ndarray[Any, np.dtype[np.int64]]") -> "np.ndarray[Any, np.dtype[np.int32]]":
    return np.concatenate([[0], lengths.cumsum()]).astype(np.int32)


def _find_runs(lengths: "np.ndarray[Any, np.dtype[np.int64]]") -> tuple[Run, ...]:
    borders = np.flatnonzero(np.diff(lengths)) + 1
    pieces = np.split(lengths, borders)
    return tuple(Run(count=len(piece), length=int(piece[0])) for piece in pieces)
