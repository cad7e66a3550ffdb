"""An encoder as a torch module: lists of ids → hidden states."""

import operator
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from albert.errors import InputError
from albert.model.albert_model import AlbertModel
from albert.model.runtime import select_device
from albert.model.tokens import Tokens
from albert.pretrained.folder import load_model

# Lists of ids, tensors or arrays; or one rectangular tensor or array.
Rows = Iterable[Any]


class SequenceEncoder(nn.Module):
    """An encoder as an ordinary torch module: it trains, moves and saves like one.

    It knows no tokenizer, no padding and no masks.
    """

    def __init__(self, model: AlbertModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        ids: Rows,
        *,
        segments: Rows | None = None,
        depth: int | None = None,
    ) -> list[Tensor]:
        """The last hidden states, one tensor [length, hidden_size] for each sequence.

        A sequence is a list of ids, or a tensor or array of them, of any length that the model reads.
        Segments are 0 where none are given. `depth` is as in `Predictor`. Refused: unknown ids.
        """
        config = self.model.config
        tokens = Tokens.from_lists(
            _read_rows(ids, size=config.vocab_size, kind="id"),
            None if segments is None else _read_rows(segments, size=config.type_vocab_size, kind="segment"),
            device=self.model.device,
        )
        return list(self.model(tokens, depth=depth).last_TD.split(tokens.lengths))


def _read_rows(rows: Rows, *, size: int, kind: str) -> list[list[int]]:
    """Rows of whole numbers below `size`, whatever they came in."""
    if not isinstance(rows, Iterable) or isinstance(rows, str):
        raise InputError(f"the {kind}s are {rows!r}; give a list of sequences")
    read = []
    for number, row in enumerate(rows, start=1):
        values = row.tolist() if hasattr(row, "tolist") else row
        if not isinstance(values, Sequence) or isinstance(values, str):
            raise InputError(f"sequence {number} is {values!r}; give a list of {kind}s for each sequence")
        read.append([_read_number(value, number, size=size, kind=kind) for value in values])
    return read


def _read_number(value: Any, sequence: int, *, size: int, kind: str) -> int:
    try:
        whole = operator.index(value)
    except TypeError:
        raise InputError(f"sequence {sequence} holds {value!r}; give whole numbers for {kind}s") from None
    if not 0 <= whole < size:
        raise InputError(f"sequence {sequence} holds the {kind} {whole}; the model knows 0 to {size - 1}")
    return whole


def load_encoder(source: str | Path, *, device: str = "auto", revision: str | None = None) -> SequenceEncoder:
    """Open a model without its heads, in evaluation mode; `device` and `revision` are as in `load`.

    >>> encoder = albert.load_encoder("folder")
    >>> first, second = encoder([[2, 17, 45, 3], [2, 9, 3]])  # lists of ids in, [length, hidden_size] out
    """
    pretrained = load_model(source, heads={}, revision=revision, device=select_device(device))
    return SequenceEncoder(pretrained.model).eval()
