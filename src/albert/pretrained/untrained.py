"""A model's folder comes in; one of the same shape and vocabulary, with fresh weights, goes out."""

from pathlib import Path

from albert.model.albert_model import build_model
from albert.model.init import spread_positions
from albert.pretrained.folder import load_model, save_model
from albert.pretrained.vocabulary import load_vocabulary


def save_untrained(source: Path, out: Path, *, seed: int, has_waves: bool = True) -> None:
    """Write the weights that the pretraining of a model might have begun with.

    `has_waves` starts the positions as waves, as the recipe `nano` does: what pretraining is worth is told
    against the best that a fresh model can be.
    """
    config = load_model(source, heads={}).config
    fresh = build_model(config, heads={}, has_pooler=True, seed=seed)
    if has_waves:
        spread_positions(fresh.encoder.embeddings.position.weight, std=config.initializer_range)
    save_model(out, fresh, tokenizer=load_vocabulary(source))
