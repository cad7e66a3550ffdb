"""Training steps to be timed: a model and an optimiser come in; the step of `albert pretrain` goes out.

Shapes: T tokens, B sequences, M masked places.
"""

import numpy as np
import torch
from torch import nn

from albert.examples.batches import PretrainingBatch
from albert.examples.masking import NO_SPANS
from albert.model.config import ModelConfig
from albert.model.runtime import autocast
from albert.study.steps.equal_shapes import MASKED_SHARE
from albert.training.losses import count_terms
from albert.training.settings import GuardSettings
from albert.training.step import Guard, Objective, StepTaker
from albert.training.world import World

PAIR_HEAD = "sop"
HEADS = {"mlm": None, PAIR_HEAD: None}
_FIRST_PIECE = 5  # after [PAD], [UNK], [CLS], [SEP] and [MASK]


def build_random_batch(config: ModelConfig, *, num_sequences: int, length: int) -> PretrainingBatch:
    """Pieces at random, in sequences of one length: no share of it is more work than another."""
    draw = np.random.default_rng(0)
    shape = (num_sequences, length)
    ids = draw.integers(_FIRST_PIECE, config.vocab_size, shape)
    num_masked = max(1, round(MASKED_SHARE * length))
    places = np.stack([1 + draw.permutation(length - 1)[:num_masked] for _ in range(num_sequences)])
    places += length * np.arange(num_sequences)[:, None]
    return PretrainingBatch(
        ids_T=ids.ravel(),
        positions_T=np.broadcast_to(np.arange(length), shape).ravel(),
        segments_T=np.broadcast_to((np.arange(length) >= length // 2).astype(np.int64), shape).ravel(),
        lengths=np.full(num_sequences, length),
        places_M=places.ravel(),
        targets_M=draw.integers(_FIRST_PIECE, config.vocab_size, places.size),
        labels_B=draw.integers(0, 2, num_sequences),
        has_labels=True,
        spans=NO_SPANS,
    )


def build_step_taker(
    network: nn.Module, optimizer: torch.optim.Optimizer, *, world: World
) -> StepTaker[PretrainingBatch]:
    """Both losses, clipping and the optimiser, as a pretraining run takes its steps; no step is left out."""
    objective: Objective[PretrainingBatch] = Objective(
        tuple(HEADS), lambda batch: count_terms(batch, pair_head=PAIR_HEAD), _refuse
    )
    return StepTaker(
        network,
        optimizer,
        objective,
        Guard(GuardSettings(spike_factor=0.0)),
        1.0,
        lambda: autocast(torch.device("cpu")),
        world,
    )


def _refuse() -> PretrainingBatch:
    raise AssertionError("shares are equal: no process runs out of batches before another")
