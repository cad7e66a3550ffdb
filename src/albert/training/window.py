"""Some steps in a row: their reports come in, their means and speeds go out."""

import math
from dataclasses import dataclass, field

from albert.training.health import measure_health
from albert.training.step import StepReport


@dataclass
class LogWindow:
    """The steps since the last record."""

    reports: list[StepReport] = field(default_factory=list)
    num_tokens: int = 0
    waited: float = 0.0
    seconds: float = 0.0

    def add(self, report: StepReport, *, num_tokens: int, waited: float, seconds: float) -> None:
        """One more step: it took `seconds`, of which it `waited` for its batches."""
        self.reports.append(report)
        self.num_tokens += num_tokens
        self.waited += waited
        self.seconds += seconds

    @property
    def num_steps(self) -> int:
        """Steps since the last record."""
        return len(self.reports)

    def clear(self) -> None:
        """Begin anew."""
        self.reports.clear()
        self.num_tokens, self.waited, self.seconds = 0, 0.0, 0.0

    def summarise(self) -> dict[str, float | None]:
        """Means of the losses and shares of right answers; where the seconds went; the machine's health."""
        figures: dict[str, float | None] = {}
        for name in self._list_names():
            figures[f"{name}_loss"] = self._mean([report.losses.get(name) for report in self.reports])
            figures[f"{name}_accuracy"] = self._mean([report.accuracies.get(name) for report in self.reports])
        model = sum(report.model_seconds for report in self.reports)
        optimizer = sum(report.optimizer_seconds for report in self.reports)
        return {
            **figures,
            "loss": self._mean([report.loss for report in self.reports if report.losses]),
            "grad_norm": self._mean([report.grad_norm for report in self.reports]),
            "learning_rate": self.reports[-1].learning_rate,
            "tokens_per_second": round(self.num_tokens / max(self.seconds, 1e-9), 1),
            "seconds": round(self.seconds, 4),
            "waited_seconds": round(self.waited, 4),
            "model_seconds": round(model, 4),
            "optimizer_seconds": round(optimizer, 4),
            **measure_health(),
        }

    def format(self, figures: dict[str, float | None]) -> str:
        """The same for a person."""
        parts = []
        for name in self._list_names():
            loss, accuracy = figures[f"{name}_loss"], figures[f"{name}_accuracy"]
            if loss is not None and accuracy is not None:
                parts.append(f"{name} {loss:.3f} ({accuracy:.1%})")
        parts.append(f"{self.num_tokens / max(self.seconds, 1e-9):,.0f} pieces/s")
        return ", ".join(parts)

    def _list_names(self) -> list[str]:
        return list(dict.fromkeys(name for report in self.reports for name in report.losses))

    def _mean(self, values: list[float | None]) -> float | None:
        found = [value for value in values if value is not None and math.isfinite(value)]
        return round(sum(found) / len(found), 6) if found else None
