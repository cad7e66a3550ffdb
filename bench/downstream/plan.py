"""Plan the trials: their order and estimated times."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from albert.errors import AlbertError, FileFormatError, InputError
from albert.progress import Reporter, format_seconds
from albert.tasks.catalogue import PUBLISHED_TASKS, find_task
from albert.tasks.finetune import Cost, estimate_cost
from bench.downstream.experiment import VARIANTS, Experiment, Trial
from bench.downstream.reference import LARGE, OFFICIAL_SIZES


def list_tasks(named: str | None, data: Path) -> list[str]:
    """List the named tasks, or all tasks in the data."""
    if named:
        tasks = [find_task(name.strip()).name for name in named.split(",")]
        for name in tasks:
            if name not in OFFICIAL_SIZES:
                raise InputError(f"{name} has no training examples; choose from {', '.join(OFFICIAL_SIZES)}")
        return list(dict.fromkeys(tasks))
    found = []
    for name in OFFICIAL_SIZES:
        with suppress(FileFormatError):
            for split in ("train", "dev"):
                PUBLISHED_TASKS[name].find_split(data, split)
            found.append(name)
    if not found:
        raise InputError(
            f"{data}: none of {', '.join(OFFICIAL_SIZES)} found; give the folder that contains their folders"
        )
    return found


def parse_cuts(words: Sequence[str], tasks: Sequence[str]) -> dict[str, int]:
    """Parse `4000`, which limits all large tasks, or `sst-2=20000`; later values win."""
    cuts: dict[str, int] = {}
    for word in words:
        name, _, number = word.rpartition("=")
        if not number.isdecimal() or int(number) < 1:
            raise InputError(f"--max-train {word}: expected a number or TASK=NUMBER, such as race=2000")
        names = (find_task(name).name,) if name else LARGE
        cuts.update(dict.fromkeys(names, int(number)))
    return {name: number for name, number in cuts.items() if name in tasks}


def list_trials(task: str, seeds: Sequence[int], num_untrained: int) -> Iterator[Trial]:
    """List the baselines, then both variants seed by seed, so that a stopped run still compares them."""
    yield Trial(task, "baselines")
    for number, seed in enumerate(seeds):
        for variant in VARIANTS:
            if variant != "untrained" or number < num_untrained:
                yield Trial(task, variant, seed)


@dataclass(frozen=True)
class Plan:
    """All trials, the cheapest task first; their estimated times; and tasks that cannot be run."""

    trials: tuple[Trial, ...]
    seconds: Mapping[Trial, float]
    missed: Mapping[str, str]


def make_plan(
    tasks: Sequence[str],
    experiment: Experiment,
    *,
    seeds: Mapping[str, range],
    num_untrained: int,
    reporter: Reporter,
) -> Plan:
    """Estimate and report the times of the remaining trials, and sort them."""
    own = {task: list(list_trials(task, seeds[task], num_untrained)) for task in tasks}
    left = {task: [each for each in own[task] if not experiment.find_result(each).exists()] for task in tasks}
    costs: dict[str, Cost] = {}
    missed: dict[str, str] = {}
    for task in (task for task in tasks if left[task]):
        reporter.show("timing", task)
        try:
            costs[task] = estimate_cost(
                task,
                model=experiment.model,
                data=experiment.find_data(task),
                overrides=experiment.list_overrides(task),
            )
        except AlbertError as error:
            missed[task] = str(error)
            reporter.say(f"{task}: skipped: {error}")
    order = sorted(costs, key=lambda task: costs[task].seconds * len(left[task]))
    for task in order:
        reporter.say(f"{task}: {costs[task].describe()}, {len(left[task])} trials to do")
    done = [task for task in tasks if not left[task]]
    trials = tuple(trial for task in (*done, *order) for trial in own[task])
    seconds = {
        trial: costs[task].seconds for task in order for trial in left[task] if trial.variant != "baselines"
    }
    number = sum(len(left[task]) for task in order)
    reporter.say(f"{number} of {len(trials)} trials are left: about {format_seconds(sum(seconds.values()))}")
    return Plan(trials, seconds, missed)
