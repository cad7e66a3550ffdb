"""Logits come in as rows; decisions and probabilities go out, and the mean of several models."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, logit, logsumexp

# One label of several, any of several, or a number: what a row of outputs means.
LabelKind = Literal["one", "several", "number"]
Floats = NDArray[np.float64]
# What stands for a label that nobody knows: cross-entropy passes over it.
UNKNOWN_LABEL = -100
_LIMIT = 1e-12  # as sure as a mean of probabilities can be said to be


def decide(logits: Floats, kind: LabelKind) -> NDArray[np.generic]:
    """Of rows [..., K]: places of classes, zeros and ones, or numbers."""
    if kind == "number":
        return logits[..., 0]
    return logits.argmax(-1) if kind == "one" else (logits > 0).astype(np.int64)


def find_probabilities(logits: Floats, kind: LabelKind, *, temperature: float = 1.0) -> Floats:
    """How likely each label is; a number has no probability."""
    assert kind != "number"
    scaled = logits / temperature
    found: Floats = expit(scaled) if kind == "several" else np.exp(log_softmax(scaled, axis=-1))
    return found


def merge_logits(members: Sequence[Floats], kind: LabelKind) -> Floats:
    """Logits whose probabilities are the mean of the members'; of numbers, the mean."""
    stacked = np.stack(members)
    if kind == "number":
        merged: Floats = stacked.mean(0)
    elif kind == "several":
        merged = logit(expit(stacked).mean(0).clip(_LIMIT, 1 - _LIMIT))
    else:
        merged = logsumexp(log_softmax(stacked, axis=-1), axis=0) - np.log(len(members))
    return merged
