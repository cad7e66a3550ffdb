"""Read the results of a task: its baselines, and its seeds summarized."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from albert.errors import InputError
from albert.files import read_json
from albert.settings import find_change
from albert.tasks.metrics.intervals import SeedSummary, summarize_seeds
from bench.baselines.score import TRIVIAL
from bench.downstream.experiment import VARIANTS, Experiment, Trial, Variant
from bench.downstream.reference import OFFICIAL_SIZES, DataSizes

Metrics = Mapping[str, float]


@dataclass(frozen=True)
class TaskResults:
    """The metrics of each baseline of a task, and of both variants by seed."""

    data: DataSizes
    baselines: Mapping[str, Metrics] = field(default_factory=dict)
    untrained: Mapping[int, Metrics] = field(default_factory=dict)
    pretrained: Mapping[int, Metrics] = field(default_factory=dict)
    seconds: float | None = None

    @property
    def task(self) -> str:
        return self.data.task

    def find_best(self, metric: str, *, is_trivial: bool) -> tuple[str, float] | None:
        """Find the best baseline by a metric, among the trivial ones or the others."""
        found = [
            (name, metrics[metric])
            for name, metrics in self.baselines.items()
            if (name in TRIVIAL) == is_trivial and metric in metrics
        ]
        return max(found, key=lambda pair: pair[1]) if found else None

    def summarize(self, variant: str, metric: str) -> SeedSummary | None:
        """Summarize a metric over seeds."""
        runs: Mapping[int, Metrics] = getattr(self, variant)
        scores = [metrics[metric] for metrics in runs.values() if metric in metrics]
        return summarize_seeds(scores) if scores else None


def collect(trials: Sequence[Trial], experiment: Experiment) -> list[TaskResults]:
    """Collect the finished results, in the order of the published sizes."""
    results = []
    tasks = {trial.task for trial in trials}
    for task in (task for task in OFFICIAL_SIZES if task in tasks):
        own = [trial for trial in trials if trial.task == task and experiment.find_result(trial).exists()]
        found = {trial: read_json(experiment.find_result(trial)) for trial in own}
        simple: dict[str, Any] = next(
            (result for trial, result in found.items() if trial.variant == "baselines"), {}
        )
        variants: dict[Variant, dict[int, Any]] = {
            variant: {trial.seed: result for trial, result in found.items() if trial.variant == variant}
            for variant in VARIANTS
        }
        if not found:
            continue
        runs = {trial: result for trial, result in found.items() if trial.variant in VARIANTS}
        _reject_mixture(runs, experiment.out)
        any_run = next(iter(found.values()))
        times = [result["seconds"] for result in variants["pretrained"].values()]
        results.append(
            TaskResults(
                data=DataSizes(
                    task, any_run["num_train"], any_run["num_dev"], experiment.max_train.get(task)
                ),
                baselines=simple.get("baselines", {}),
                untrained={seed: result["metrics"] for seed, result in variants["untrained"].items()},
                pretrained={seed: result["metrics"] for seed, result in variants["pretrained"].items()},
                seconds=median(times) if times else None,
            )
        )
    return results


def read_results(folder: Path) -> list[TaskResults]:
    """Read the results of `python -m bench.downstream --out FOLDER`; the folder of a subset is TASK-SIZE."""
    subsets, trials = {}, []
    for path in sorted((folder / "results").glob("*/*.json")):
        task, size = path.parent.name, ""
        if task not in OFFICIAL_SIZES:
            task, _, size = task.rpartition("-")
            subsets[task] = int(size)
        variant, _, seed = path.stem.partition("-")
        if variant in ("baselines", "pretrained", "untrained"):
            trials.append(Trial(task, variant, int(seed or 0)))  # type: ignore[arg-type]
    if not trials:
        raise InputError(f"{folder}: has no results; run `python -m bench.downstream --out {folder}` first")
    return collect(trials, Experiment(Path(), Path(), folder, max_train=subsets))


def _reject_mixture(runs: Mapping[Trial, Mapping[str, Any]], out: Path) -> None:
    """Raise if runs of a task have different examples or settings."""
    items = list(runs.items())
    for trial, result in items[1:]:
        for key in ("num_train", "num_dev", "settings"):
            change = find_change(_without_seed(items[0][1][key]), _without_seed(result[key]), key=key)
            if change is not None:
                raise InputError(
                    f"{out}: runs of {trial.task} differ: {change} ({trial.name}); "
                    "remove the outdated ones from results/"
                )


def _without_seed(value: Any) -> Any:
    return {key: each for key, each in value.items() if key != "seed"} if isinstance(value, dict) else value
