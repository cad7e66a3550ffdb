"""How a model begins: one with drawn weights comes in, and leaves with what betters the published start."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # recipes are read without torch
    from albert.model.albert_model import AlbertModel


@dataclass(frozen=True)
class FreshStart:
    """What differs from the published start, which is none of it.

    `has_waves` starts the positions as waves, `num_matching_heads` so many heads as ones that look for the
    same word.
    """

    has_waves: bool = False
    num_matching_heads: int = 0

    def apply(self, model: "AlbertModel") -> None:
        """Change the fresh weights of a model."""
        from albert.model.init import spread_positions
        from albert.model.word_matching import WordMatching

        if self.has_waves:
            spread_positions(model.encoder.embeddings.position.weight, std=model.config.initializer_range)
        if self.num_matching_heads:
            WordMatching(model.encoder, num_heads=self.num_matching_heads).apply()

    def __str__(self) -> str:
        parts = ["positions as waves" if self.has_waves else "positions at random"]
        if self.num_matching_heads:
            parts.append(f"{self.num_matching_heads} of the heads made to look for the same word")
        return ", ".join(parts)


PUBLISHED_START = FreshStart()
