"""Compare an ensemble of fine-tuned models with its members."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median

from albert.files import read_json, write_json
from albert.progress import Reporter
from albert.tasks.evaluate import evaluate
from albert.training.run_folder import MODEL_DIR
from bench.downstream.workshop import Trial, Workshop

NUM_MEMBERS = 3
_Z = 1.959964  # standard errors to each side of a 95% interval


@dataclass(frozen=True)
class Ensemble:
    """The scores of members and of all together, and the standard error of the latter (bootstrap)."""

    task: str
    seeds: tuple[int, ...]
    members: tuple[float, ...]
    together: float
    standard_error: float

    @property
    def is_not_worse(self) -> bool:
        """Than the median member, by more than one standard error."""
        return self.together >= median(self.members) - self.standard_error

    def describe(self) -> str:
        """A line for a person."""
        is_worse = "no" if self.is_not_worse else "**yes**"
        members = ", ".join(f"{score:.2f}" for score in self.members)
        return (
            f"{self.task}: {self.together:.2f} (standard error {self.standard_error:.2f}), members {members}"
            f"; worse than the median member by more than one standard error: {is_worse}"
        )


def measure_ensemble(
    task: str, seeds: Sequence[int], shop: Workshop, *, reporter: Reporter, num_members: int = NUM_MEMBERS
) -> Ensemble | None:
    """The first seeds that are finished, on the development set; None where there are too few."""
    trials = [Trial(task, "pretrained", seed) for seed in seeds]
    done = [trial for trial in trials if shop.find_result(trial).exists()][:num_members]
    if len(done) < num_members:
        return None
    path = shop.find_result(done[0]).with_name("ensemble.json")
    chosen = [trial.seed for trial in done]
    if path.exists() and (known := read_json(path))["seeds"] == chosen:
        return Ensemble(**{**known, "seeds": tuple(chosen), "members": tuple(known["members"])})
    reporter.say(f"{task}, an ensemble of seeds {', '.join(map(str, chosen))}")
    models = [shop.find_run(trial) / MODEL_DIR for trial in done]
    found = evaluate(task, model=models, data=shop.find_data(task), reporter=reporter)
    interval = found.intervals["score"]
    ensemble = Ensemble(
        task=task,
        seeds=tuple(chosen),
        members=tuple(member.scores["score"] for member in found.member_scores),
        together=found.scores["score"],
        standard_error=(interval.high - interval.low) / (2 * _Z),
    )
    write_json(path, asdict(ensemble))
    return ensemble
