"""What a person asks of a study, and what they get: plain values between the command and the studies."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from albert.errors import InputError
from albert.report.content import Page


@dataclass(frozen=True)
class Ask:
    """Where, with what, how much, and by what; each study takes what it needs and refuses the rest."""

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
        """The prepared corpus; refused where there is none."""
        if self.data is None:
            raise InputError(f"study {study}: trains models; give --data, a prepared corpus")
        return self.data

    def require_models(self, study: str) -> tuple[str, ...]:
        """The models to look at; refused where there is none."""
        if not self.models:
            raise InputError(f"study {study}: looks at trained models; give --model, once for each")
        return self.models

    def refuse(self, study: str, **options: object) -> None:
        """Refuse options that the study has no use for, by the name that a person typed."""
        for name, value in options.items():
            if value:
                raise InputError(f"study {study}: has no use for --{name.replace('_', '-')}; leave it out")


@dataclass(frozen=True)
class StudyOutcome:
    """The report of what is done; what failed with its reasons; `signal` where it was stopped half way."""

    study: str
    report: Path
    page: Page
    failures: Mapping[str, str] = field(default_factory=dict)
    signal: str | None = None
