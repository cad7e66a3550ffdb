"""A `transformers` model and ours with the same weights, read from its folder, and the same inputs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from albert.model.albert_model import AlbertModel
from albert.model.tokens import Tokens
from albert.pretrained.folder import load_model
from albert.pretrained.huggingface import FolderConfig
from albert.pretrained.names import to_theirs
from albert.tasks.sequences import TaskSequence

# Largest absolute difference of hidden states and logits, in float32.
TOLERANCE = 2e-5


@dataclass(frozen=True)
class Pair:
    theirs: Any
    ours: AlbertModel
    folder: FolderConfig


def build_pair(
    their_class: Any, config: Any, path: Path, *, heads: dict[str, int | None] | None = None
) -> Pair:
    """Random weights; biases and norms are changed too, so that no part is the identity."""
    torch.manual_seed(11)
    theirs = their_class(config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    theirs.save_pretrained(path)
    loaded = load_model(path, heads=heads)
    assert loaded.new_parts == ()
    return Pair(theirs, loaded.model, loaded.folder_config)


def pad(sequences: Sequence[TaskSequence]) -> dict[str, Tensor]:
    """The padded inputs of a `transformers` model."""

    def fill(rows: Sequence[Sequence[int]]) -> Tensor:
        return pad_sequence([torch.tensor(row) for row in rows], batch_first=True)

    segments = [[int(i >= each.num_first) for i in range(len(each.ids))] for each in sequences]
    return {
        "input_ids": fill([each.ids for each in sequences]),
        "token_type_ids": fill(segments),
        "attention_mask": fill([[1] * len(each.ids) for each in sequences]),
    }


@dataclass(frozen=True)
class RaggedBatch:
    """The same sequences, padded for `transformers` and flat for us."""

    padded: dict[str, Tensor]
    tokens: Tokens

    @property
    def is_real(self) -> Tensor:
        return self.padded["attention_mask"].bool()


def ragged_batch(lengths: Sequence[int], vocab_size: int) -> RaggedBatch:
    generator = torch.Generator().manual_seed(5)
    # No id 0: their table gives its own padding no gradient, and there is no padding here.
    ids = [torch.randint(1, vocab_size, (n,), generator=generator).tolist() for n in lengths]
    padded = pad([TaskSequence(tuple(row), len(row) - len(row) // 3) for row in ids])
    segments = [[0] * (n - n // 3) + [1] * (n // 3) for n in lengths]
    return RaggedBatch(padded, Tokens.from_lists(ids, segments))


def assert_close(ours: Tensor, theirs: Tensor) -> None:
    assert ours.shape == theirs.shape
    difference = (ours - theirs).abs().max().item()
    assert difference <= TOLERANCE, f"largest difference {difference:.2e}"


def assert_same_gradients(pair: Pair, our_logits: Sequence[Tensor], their_logits: Sequence[Tensor]) -> None:
    """Backward from the same random weighting of all logits: ‖Δ‖ ≤ 1e-4·‖grad‖ + 1e-6·‖all grads‖."""
    for logits in (our_logits, their_logits):
        generator = torch.Generator().manual_seed(3)
        loss = sum(((x * torch.randn(x.shape, generator=generator)).sum() for x in logits), torch.zeros(()))
        loss.backward()
    own = {name: p.grad for name, p in pair.ours.named_parameters() if p.grad is not None}
    ours = to_theirs(own, pair.folder)
    theirs = {name: p.grad for name, p in pair.theirs.named_parameters() if p.grad is not None}
    total = torch.stack([grad.norm() for grad in theirs.values()]).norm()
    assert total > 0
    # A pooler that the head does not use has no gradient on both sides.
    assert set(ours) == set(theirs)
    for name, grad in theirs.items():
        difference = (ours[name] - grad).norm()
        assert difference <= 1e-4 * grad.norm() + 1e-6 * total, (
            f"{name}: {difference:.2e} of {grad.norm():.2e}"
        )


Forward = Callable[[Pair, RaggedBatch], tuple[list[Tensor], list[Tensor]]]
