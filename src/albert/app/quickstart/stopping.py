"""How a quickstart stops: a signal on purpose, half way, to show that nothing is lost; or a person's."""

import signal
from dataclasses import dataclass, field

from albert.reporting import Reporter


@dataclass
class StopOnce:
    """Passes on what a run says, and sends it a real SIGTERM once, as soon as `share` of it is done."""

    reporter: Reporter
    stage: str
    share: float
    has_stopped: bool = field(default=False, init=False)

    def say(self, text: str) -> None:
        """A line that stays."""
        self.reporter.say(text)

    def show(self, stage: str, message: str, *, fraction: float | None = None) -> None:
        """How far a stage is."""
        self.reporter.show(stage, message, fraction=fraction)
        is_due = stage == self.stage and fraction is not None and self.share <= fraction < 1.0
        if is_due and not self.has_stopped and _is_awaited():
            self.has_stopped = True
            signal.raise_signal(signal.SIGTERM)


def _is_awaited() -> bool:
    """Whether a run waits for the signal; where none does it would end the whole command."""
    from albert.training.loop import StopRequest

    return isinstance(getattr(signal.getsignal(signal.SIGTERM), "__self__", None), StopRequest)
