"""Read the results of a task: its baselines, and its seeds summarized."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from albert.errors import InputError
from albert.files import read_json
from albert.settings import find_change
from albert.tasks.metrics.intervals import SeedSummary, summarize_seeds
from bench.baselines.score import TRIVIAL
from bench.downstream.facts import OFFICIAL_SIZES, DataFacts
from bench.downstream.workshop import ARMS, Arm, Trial, Workshop

Metrics = Mapping[str, float]


@dataclass(frozen=True)
class TaskResults:
    """The metrics of each baseline of a task, and of both variants by seed."""

    data: DataFacts
    baselines: Mapping[str, Metrics] = field(default_factory=dict)
    untrained: Mapping[int, Metrics] = field(default_factory=dict)
    pretrained: Mapping[int, Metrics] = field(default_factory=dict)
    seconds: float | None = None

    @property
    def task(self) -> str:
        return self.data.task

    def find_best(self, metric: str, *, is_trivial: bool) -> tuple[str, float] | None:
        """The best baseline by a metric, of those that read the texts or of those that do not."""
        found = [
            (name, metrics[metric])
            for name, metrics in self.baselines.items()
            if (name in TRIVIAL) == is_trivial and metric in metrics
        ]
        return max(found, key=lambda pair: pair[1]) if found else None

    def summarize(self, arm: str, metric: str) -> SeedSummary | None:
        """Median and spread over seeds."""
        runs: Mapping[int, Metrics] = getattr(self, arm)
        scores = [metrics[metric] for metrics in runs.values() if metric in metrics]
        return summarize_seeds(scores) if scores else None


def collect(trials: Sequence[Trial], shop: Workshop) -> list[TaskResults]:
    """What is finished, task by task in one order, however long they take."""
    results = []
    asked = {trial.task for trial in trials}
    for task in (task for task in OFFICIAL_SIZES if task in asked):
        own = [trial for trial in trials if trial.task == task and shop.find_result(trial).exists()]
        found = {trial: read_json(shop.find_result(trial)) for trial in own}
        simple: dict[str, Any] = next(
            (result for trial, result in found.items() if trial.arm == "baselines"), {}
        )
        arms: dict[Arm, dict[int, Any]] = {
            arm: {trial.seed: result for trial, result in found.items() if trial.arm == arm} for arm in ARMS
        }
        if not found:
            continue
        _reject_mixture(task, [each for arm in arms.values() for each in arm.values()], shop)
        any_run = next(iter(found.values()))
        times = [result["seconds"] for result in arms["pretrained"].values()]
        results.append(
            TaskResults(
                data=DataFacts(task, any_run["num_train"], any_run["num_dev"], shop.max_train.get(task)),
                baselines=simple.get("baselines", {}),
                untrained={seed: result["metrics"] for seed, result in arms["untrained"].items()},
                pretrained={seed: result["metrics"] for seed, result in arms["pretrained"].items()},
                seconds=median(times) if times else None,
            )
        )
    return results


def _reject_mixture(task: str, results: Sequence[Mapping[str, Any]], shop: Workshop) -> None:
    """Reject runs of a task with different examples or settings: their median would mean nothing."""
    for result in results[1:]:
        for key in ("num_train", "num_dev", "settings"):
            change = find_change(_without_seed(results[0][key]), _without_seed(result[key]), key=key)
            if change is not None:
                raise InputError(
                    f"{shop.out}: runs of {task} differ: {change} ({result['arm']}, seed {result['seed']}); "
                    "remove those that are out of date from results/"
                )


def _without_seed(value: Any) -> Any:
    return {key: each for key, each in value.items() if key != "seed"} if isinstance(value, dict) else value
