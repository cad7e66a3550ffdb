"""A model's folder comes in; one of the same shape and vocabulary, with fresh weights, goes out."""

from pathlib import Path

from albert.model.albert_model import build_model
from albert.model.fresh_start import FreshStart
from albert.pretrained.folder import load_model, save_model
from albert.pretrained.vocabulary import load_vocabulary


def save_untrained(source: Path, out: Path, *, seed: int, start: FreshStart) -> None:
    """Write the weights that the pretraining of a model might have begun with.

    `start` is the one of its recipe: what pretraining is worth is told against the best that a fresh model
    can be.
    """
    config = load_model(source, heads={}).config
    fresh = build_model(config, heads={}, has_pooler=True, seed=seed)
    start.apply(fresh)
    save_model(out, fresh, tokenizer=load_vocabulary(source))
