"""The guard of a run: a step's loss and gradient norm come in; why to leave it out, if so, goes out."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from albert.errors import AlbertError
from albert.training.loop_settings import GuardSettings

_MEMORY = 0.98  # of the running mean: about the last fifty steps
_MIN_SEEN = 50  # before that the mean is no measure


class TrainingStoppedError(AlbertError):
    """A run that cannot go on as it is; what it learned is kept."""


@dataclass
class Guard:
    """What a run remembers of its losses; part of its checkpoints."""

    settings: GuardSettings
    mean: float = 0.0
    deviation: float = 0.0
    num_seen: int = 0
    num_skipped: int = 0
    num_in_a_row: int = 0

    def judge(self, loss: float, grad_norm: float) -> str | None:
        """None: take the step. Otherwise why it must be left out; too many in a row are for `check`."""
        reason = self._find_reason(loss, grad_norm)
        if math.isfinite(loss) and math.isfinite(grad_norm):
            # A spike counts as the highest loss that is none: what comes again and again is normal.
            self._remember(loss if reason is None else self._limit)
        if reason is None:
            self.num_in_a_row = 0
            return None
        self.num_skipped += 1
        self.num_in_a_row += 1
        return reason

    @property
    def _limit(self) -> float:
        return max(self.mean + self.settings.spike_factor * self.deviation, 1.5 * self.mean)

    def _remember(self, loss: float) -> None:
        self.num_seen += 1
        weight = max(1.0 - _MEMORY, 1.0 / self.num_seen)
        self.deviation += weight * (abs(loss - self.mean) - self.deviation) if self.num_seen > 1 else 0.0
        self.mean += weight * (loss - self.mean)

    def check(self, step: int, reason: str, *, learning_rate: float) -> None:
        """Stop with advice after too many steps left out in a row."""
        if self.num_in_a_row < self.settings.max_skipped:
            return
        raise TrainingStoppedError(
            f"stopped at step {step}: {self.num_in_a_row} steps in a row were left out, the last because "
            f"{reason}; the weights before them are saved. Start a new run with half the learning rate "
            f"({learning_rate:.2g} now) or a longer warm-up; `albert doctor` on this run shows the curve"
        )

    def forget(self) -> None:
        """Begin anew where a new stage makes another loss normal."""
        self.mean = self.deviation = 0.0
        self.num_seen = 0

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {key: value for key, value in asdict(self).items() if key != "settings"}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what a checkpoint kept."""
        for key, value in state.items():
            setattr(self, key, value)
        if self.num_in_a_row >= self.settings.max_skipped:  # it stopped the run; whoever resumes means it
            self.num_in_a_row = 0

    def _find_reason(self, loss: float, grad_norm: float) -> str | None:
        if not math.isfinite(loss):
            return f"the loss was {loss}"
        if not math.isfinite(grad_norm):
            return f"the gradient norm was {grad_norm}"
        if self.settings.spike_factor and self.num_seen >= _MIN_SEEN and loss > self._limit:
            return f"the loss jumped to {loss:.3g} from about {self.mean:.3g}"
        return None
