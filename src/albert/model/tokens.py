"""A batch without padding: flat tensors, and the order in which the layers compute them.

Sequences of equal length are computed as neighbors, so that each run of them is a rectangular view of the
flat tensors. Lengths differ from batch to batch, so functions that depend on them are excluded from graphs of
torch.compile: new lengths cause no recompilation.

Shapes: T tokens of the batch, P selected tokens, B sequences, L length of the longest, D hidden width.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from albert.errors import InputError

P = ParamSpec("P")
T = TypeVar("T")
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Tokens:
    """B concatenated sequences. The lengths stay on the host, because shapes depend on them."""

    ids_T: Tensor
    positions_T: Tensor
    segments_T: Tensor
    lengths: tuple[int, ...]

    @staticmethod
    def from_lists(
        ids: Sequence[Sequence[int]],
        segments: Sequence[Sequence[int]] | None = None,
        *,
        device: torch.device | str = "cpu",
    ) -> "Tokens":
        if not ids or not all(ids):
            raise InputError("a batch needs at least one sequence, and each sequence at least one id")
        lengths = tuple(len(sequence) for sequence in ids)
        if segments is None:
            segments = [(0,) * length for length in lengths]
        if tuple(len(sequence) for sequence in segments) != lengths:
            raise InputError("ids and segments have different lengths; give one segment per id")
        ids_T, segments_T = (torch.tensor([i for row in rows for i in row]) for rows in (ids, segments))
        positions_T = torch.cat([torch.arange(length) for length in lengths])
        return Tokens(ids_T.to(device), positions_T.to(device), segments_T.to(device), lengths)

    @staticmethod
    def from_padded(ids_BL: Tensor, mask_BL: Tensor, segments_BL: Tensor) -> "Tokens":
        """Remove the padding of a rectangular batch; `mask_BL` is true at real tokens."""
        mask_BL = mask_BL.bool()
        positions_BL = torch.arange(ids_BL.shape[1], device=ids_BL.device).expand_as(ids_BL)
        lengths = tuple(mask_BL.sum(1).tolist())
        if not lengths or min(lengths) == 0:
            raise InputError("a padded batch needs at least one real token in each row")
        return Tokens(ids_BL[mask_BL], positions_BL[mask_BL], segments_BL[mask_BL], lengths)

    @cached_property
    def first_B(self) -> Tensor:  # noqa: N802 - a tensor carries its shape in its name
        # Cached, and an inference tensor could not be used in training later.
        with torch.inference_mode(False):
            lengths_B = torch.tensor(self.lengths)
            return (lengths_B.cumsum(0) - lengths_B).to(self.ids_T.device)

    def to(self, device: torch.device | str) -> "Tokens":
        return Tokens(
            self.ids_T.to(device), self.positions_T.to(device), self.segments_T.to(device), self.lengths
        )


def opaque(function: Callable[P, T]) -> Callable[P, T]:
    """Apply `torch.compiler.disable` once the compiler is imported: importing it here would take seconds."""
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
    """A run of `count` neighboring sequences of the same `length`, which is a rectangular view."""

    count: int
    length: int


@dataclass(frozen=True, eq=False)
class Layout:
    """The order of the sequences inside the layers: ids are sorted into it, and results out of it."""

    runs: tuple[Run, ...]
    offsets: Tensor  # cumulative lengths in the computed order, int32 for the kernels
    order_T: Tensor | None  # index of the token at each computed position; None if both orders are equal
    inverse_T: Tensor | None

    @property
    def run_sizes(self) -> list[int]:
        return [run.count * run.length for run in self.runs]

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(length for run in self.runs for length in [run.length] * run.count)

    @property
    def first_B(self) -> Tensor:  # noqa: N802 - a tensor carries its shape in its name
        return self.offsets[:-1].long()

    @opaque
    def sort(self, x_T: Tensor) -> Tensor:
        """Move tokens of the batch into the computed order."""
        return x_T if self.order_T is None else x_T[self.order_T]

    @opaque
    def unsort(self, x_TD: Tensor) -> Tensor:
        """Move computed vectors into the order of the batch."""
        return x_TD if self.inverse_T is None else gather_rows(x_TD, self.inverse_T)

    @opaque
    def find(self, indices_P: Tensor) -> Tensor:
        """Convert indices of tokens in the batch to indices in the computed order."""
        return indices_P if self.inverse_T is None else self.inverse_T[indices_P]

    def keep(self, is_kept: Bools) -> "tuple[Layout, Tensor]":
        """Return the layout of the kept sequences, in this order, and the indices of their tokens."""
        counts = np.array([run.count for run in self.runs])
        kept = np.add.reduceat(is_kept, counts.cumsum() - counts, dtype=np.int64)
        runs = tuple(Run(int(n), run.length) for n, run in zip(kept, self.runs, strict=True) if n)
        lengths = np.repeat([run.length for run in self.runs], counts)
        indices = np.flatnonzero(np.repeat(is_kept, lengths))
        offsets = _find_offsets(lengths[is_kept])
        device = self.offsets.device
        layout = Layout(runs, torch.from_numpy(offsets).to(device), order_T=None, inverse_T=None)
        return layout, torch.from_numpy(indices).to(device)


@dataclass(frozen=True, eq=False)
class SelectedTokens:
    """The distinct tokens that the last layer computes; with `is_first`, the first ones of all sequences."""

    indices_P: Tensor
    is_first: bool = False


@opaque
def gather_rows(x_TD: Tensor, indices_P: Tensor) -> Tensor:
    """Compute x[indices] for distinct indices."""
    result: Tensor = _Gather.apply(x_TD, indices_P)  # type: ignore[no-untyped-call]
    return result


class _Gather(torch.autograd.Function):
    """Indices are distinct, so that the gradient is a copy instead of a scattered addition."""

    @staticmethod
    def forward(ctx: Any, x_TD: Tensor, indices_P: Tensor) -> Tensor:
        ctx.save_for_backward(indices_P)
        ctx.num_rows = x_TD.shape[0]
        return x_TD.index_select(0, indices_P)

    @staticmethod
    def backward(ctx: Any, grad_PD: Tensor) -> tuple[Tensor, None]:
        (indices_P,) = ctx.saved_tensors
        grad_TD = grad_PD.new_zeros((ctx.num_rows, grad_PD.shape[1]))
        return grad_TD.index_copy_(0, indices_P, grad_PD), None


@lru_cache(maxsize=256)
def build_layout(lengths: tuple[int, ...], device: torch.device = _CPU) -> Layout:
    """Sort the sequences by length, unless equal lengths are already neighbors."""
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
    offsets = _find_offsets(values)

    def move(array: NDArray[Any] | None) -> Any:
        return None if array is None else torch.from_numpy(array).to(device)

    # Layouts are cached: inference tensors could not be used in training later.
    with torch.inference_mode(False):
        return Layout(runs, move(offsets), move(order_T), move(inverse_T))


def _find_offsets(lengths: Ints) -> NDArray[np.int32]:
    return np.concatenate([[0], lengths.cumsum()]).astype(np.int32)


def _find_runs(lengths: Ints) -> tuple[Run, ...]:
    starts = np.flatnonzero(np.diff(lengths)) + 1
    return tuple(Run(count=len(part), length=int(part[0])) for part in np.split(lengths, starts))
