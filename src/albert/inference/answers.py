"""What a predictor says: small frozen records."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    """A piece that may stand at a mask: its text, its id, and how likely the model finds it."""

    text: str
    id: int
    probability: float


@dataclass(frozen=True)
class OrderAnswer:
    """How likely it is that the two texts stand in their original order."""

    in_order: float

    @property
    def is_swapped(self) -> bool:
        """Whether the model thinks that the second text came first."""
        return self.in_order < 0.5
