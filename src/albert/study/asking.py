"""The options of a study, and its outcome."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from albert.errors import InputError
from albert.report.content import Page


@dataclass(frozen=True)
class Ask:
    """The options of `albert study`; each study uses what it needs and rejects the rest."""

    out: Path
    data: str | None = None
    task_data: str | None = None
    models: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    arms: tuple[str, ...] = ()
    budget_seconds: float | None = None
    seed: int | None = None
    engine: str = "local"
    num_workers: int | None = None
    address: str | None = None
    command: tuple[str, ...] = ()

    def require_data(self, study: str) -> str:
        """Return the prepared corpus; raise where there is none."""
        if self.data is None:
            raise InputError(f"study {study}: trains models; give --data, a prepared corpus")
        return self.data

    def require_models(self, study: str) -> tuple[str, ...]:
        """Return the models to evaluate; raise where there are none."""
        if not self.models:
            raise InputError(f"study {study}: looks at trained models; give --model, once for each")
        return self.models

    def refuse(self, study: str, **options: object) -> None:
        """Reject options that the study does not have, by the names that a person typed."""
        for name, value in options.items():
            if value:
                raise InputError(f"study {study}: has no use for --{name.replace('_', '-')}; leave it out")


@dataclass(frozen=True)
class StudyOutcome:
    """The report of what is done, failures with their reasons, and the `signal` that stopped it, if any."""

    study: str
    report: Path
    page: Page
    failures: Mapping[str, str] = field(default_factory=dict)
    signal: str | None = None
