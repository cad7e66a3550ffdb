"""For those who build on the encoder: lists of ids come in, the hidden states of each go out."""

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
            device=self.model.encoder.embeddings.word.weight.device,
        )
        return list(self.model(tokens, depth=depth).last_TD.split(tokens.lengths))


def _read_rows(rows: Rows, *, size: int, kind: str) -> list[list[int]]:
    """Rows of whole numbers below `size`, whatever they came in."""
    read = []
    for number, row in enumerate(rows, start=1):
        values = row.tolist() if hasattr(row, "tolist") else row
        if not isinstance(values, Sequence) or isinstance(values, str):
            raise InputError(f"sequence {number} is {values!r}; give a list of {kind}s for each sequence")
        for value in values:
            if not isinstance(value, int) or not 0 <= value < size:
                raise InputError(
                    f"sequence {number} holds the {kind} {value!r}; the model knows 0 to {size - 1}"
                )
        read.append(list(values))
    return read


def load_encoder(source: str | Path, *, device: str = "auto", revision: str | None = None) -> SequenceEncoder:
    """Open a model without its heads, in evaluation mode; the arguments are those of `load`.

    >>> encoder = albert.load_encoder("folder")
    >>> first, second = encoder([[2, 17, 45, 3], [2, 9, 3]])  # lists of ids in, [length, hidden_size] out
    """
    pretrained = load_model(source, heads={}, revision=revision, device=select_device(device))
    return SequenceEncoder(pretrained.model).eval()
