"""What became of one arm with one seed: figures, curves, times and scores, as a file that is read again."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from albert.files import read_json
from albert.settings import Settings, build_settings
from albert.study.step_costs import Footprint

RESULT_NAME = "result.json"
FAILURE_NAME = "failure.json"
PRETRAIN_DIR = "pretrain"


class CurvePoint(Settings):
    """An evaluation on the way: its step, and the seconds until then."""

    step: int
    seconds: float
    figures: dict[str, float]


class ArmResult(Settings):
    """One finished training of an arm.

    `figures` are asked at the end, with `errors` where they have a standard error: mlm_loss, mlm_accuracy,
    sop_accuracy, nsp_accuracy, train_loss (masked words of training text), gap, grad_norm, grad_variation,
    agreement, probe_sop, probe_nsp. `scores` are those of tasks, in points of 100.
    """

    arm: str
    seed: int
    num_parameters: int
    num_encoder_parameters: int
    num_steps: int
    num_tokens: int
    seconds: float
    figures: dict[str, float]
    errors: dict[str, float]
    scores: dict[str, float]
    curve: tuple[CurvePoint, ...]
    num_threads: int


@dataclass(frozen=True)
class Unit:
    """One training: an arm and a seed, in the folder of a study."""

    study_dir: Path
    arm: str
    seed: int

    @property
    def folder(self) -> Path:
        """Where all of it lies."""
        return self.study_dir / "arms" / self.arm / f"seed-{self.seed}"

    @property
    def result(self) -> ArmResult | None:
        """What came of it, once it is finished."""
        path = self.folder / RESULT_NAME
        if not path.exists():
            return None
        return build_settings(ArmResult, values=read_json(path), source=str(path))

    @property
    def failure(self) -> str | None:
        """Why it failed, if it did and was not tried again since."""
        path = self.folder / FAILURE_NAME
        return str(read_json(path)["reason"]) if path.exists() else None

    @property
    def name(self) -> str:
        """For a person."""
        return f"{self.arm}, seed {self.seed}"


@dataclass(frozen=True)
class ArmSummary:
    """All seeds of an arm."""

    arm: str
    results: Mapping[int, ArmResult]
    failures: Mapping[int, str]
    footprint: Footprint | None = None

    def collect(self, figure: str) -> dict[int, float]:
        """One figure by seed, accuracies and scores in points of 100; seeds without it are left out."""
        found = {}
        for seed, result in self.results.items():
            value = read_figure(result, figure)
            if value is not None:
                found[seed] = value
        return found


def read_figure(result: ArmResult, name: str) -> float | None:
    """A figure by its name: a task, `average` of the tasks, or one asked at the end."""
    if name == "average":
        return sum(result.scores.values()) / len(result.scores) if result.scores else None
    if name in result.scores:
        return result.scores[name]
    value = result.figures.get(name)
    return 100.0 * value if value is not None and is_share(name) else value


def is_share(name: str) -> bool:
    """Whether a figure is a share of right answers."""
    return name.endswith("accuracy") or name.startswith("probe_") or name == "agreement"
