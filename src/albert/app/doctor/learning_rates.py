"""Learning rates that fit a batch size: settings come in; the band that is known to work goes out.

LAMB's is the published rule. AdamW's and Muon's are what small models are trained with on few cores
(docs/log.md).
"""

import math
from dataclasses import dataclass

from albert.training.settings import PretrainSettings


@dataclass(frozen=True)
class RateBand:
    """Peak learning rates at a number of pieces a step; with other batches they go with its square root.

    `max_scale` ends that: no AdamW learns with a rate that only the square root allows.
    """

    num_pieces: int
    low: float
    best: float
    high: float
    max_scale: float = math.inf

    def scale(self, num_pieces: int) -> "RateBand":
        """The band at another number of pieces a step."""
        factor = min(math.sqrt(num_pieces / self.num_pieces), self.max_scale)
        return RateBand(num_pieces, self.low * factor, self.best * factor, self.high * factor)

    def find_distance(self, learning_rate: float) -> float:
        """How many times a rate lies outside; 1 inside."""
        return max(1.0, self.low / learning_rate, learning_rate / self.high)


_PUBLISHED = 0.00176  # at 4096 sequences of 512 pieces (section 4.1)
BANDS = {
    "lamb": RateBand(4096 * 512, low=_PUBLISHED, best=_PUBLISHED, high=_PUBLISHED),
    "adamw": RateBand(8192, low=1e-4, best=1e-3, high=3e-3, max_scale=2.0),
    "muon": RateBand(2048, low=5e-4, best=4e-3, high=7e-3, max_scale=1.0),
}


def count_step_pieces(settings: PretrainSettings) -> int:
    """Pieces in one step, at most: a shorter length takes as many more sequences."""
    return settings.batch_size * settings.examples.max_length


def find_band(settings: PretrainSettings) -> RateBand:
    """The band for the optimiser and the batches of these settings."""
    return BANDS[settings.optimizer.name].scale(count_step_pieces(settings))
