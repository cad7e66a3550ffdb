"""For those who build on the encoder: lists of ids come in, the hidden states of each go out."""

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor, nn

from albert.errors import InputError
from albert.model.albert_model import AlbertModel
from albert.model.runtime import select_device
from albert.model.tokens import Tokens
from albert.pretrained.folder import load_model


class SequenceEncoder(nn.Module):
    """An ordinary torch module: it trains, moves and saves like one. No tokenizer, no padding, no masks."""

    def __init__(self, model: AlbertModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        ids: Sequence[Sequence[int]],
        *,
        segments: Sequence[Sequence[int]] | None = None,
        depth: int | None = None,
    ) -> list[Tensor]:
        """The last hidden states, one tensor [length, hidden_size] for each sequence."""
        _check_ids(ids, size=self.model.config.vocab_size, kind="id")
        _check_ids(segments or (), size=self.model.config.type_vocab_size, kind="segment")
        device = self.model.encoder.embeddings.word.weight.device
        tokens = Tokens.from_lists(ids, segments, device=device)
        return list(self.model(tokens, depth=depth).last_TD.split(tokens.lengths))


def _check_ids(rows: Sequence[Sequence[int]], *, size: int, kind: str) -> None:
    for number, row in enumerate(rows, start=1):
        wrong = next((i for i in row if not 0 <= i < size), None)
        if wrong is not None:
            raise InputError(f"sequence {number} holds the {kind} {wrong}; the model knows 0 to {size - 1}")


def load_encoder(source: str | Path, *, device: str = "auto", revision: str | None = None) -> SequenceEncoder:
    """Open a folder, a weights file or a hub name without its heads, in evaluation mode."""
    pretrained = load_model(source, heads={}, revision=revision, device=select_device(device))
    return SequenceEncoder(pretrained.model).eval()
