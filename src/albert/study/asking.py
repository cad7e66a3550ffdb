"""The options of a study, and its outcome."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from albert.errors import InputError
from albert.report.content import Page
from albert.training.run_folder import MODEL_DIR


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


def name_models(sources: Sequence[str]) -> list[str]:
    """Shorten folders, runs and hub names as far as they still differ.

    `runs/a/model` and `runs/b/model` are `a` and `b`, whatever is above and below.
    """
    rows = []
    for source in sources:
        words = [word for word in PurePath(source).parts if word not in ("/", ".")]
        # Every run keeps its model in a folder of the same name.
        rows.append(words[:-1] if len(words) > 1 and words[-1] == MODEL_DIR else words or [source])
    while len(rows) > 1 and min(map(len, rows)) > 1 and len({words[-1] for words in rows}) == 1:
        rows = [words[:-1] for words in rows]
    for size in range(1, 1 + max(map(len, rows), default=0)):
        names = ["/".join(words[-size:]) for words in rows]
        if len(set(names)) == len(names):
            return names
    return list(sources)
