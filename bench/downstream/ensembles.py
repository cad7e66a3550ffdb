"""Compare an ensemble of fine-tuned models with its members."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median

from albert.files import read_json, write_json
from albert.progress import Reporter
from albert.tasks.evaluate import evaluate
from albert.training.run_folder import MODEL_DIR
from bench.downstream.experiment import Experiment, Trial

NUM_MEMBERS = 3
_Z = 1.959964  # standard errors to each side of a 95% interval


@dataclass(frozen=True)
class Ensemble:
    """The scores of the members and of the ensemble (`together`), and its standard error (bootstrap)."""

    task: str
    seeds: tuple[int, ...]
    members: tuple[float, ...]
    together: float
    standard_error: float

    @property
    def is_not_worse(self) -> bool:
        """Return whether the score is within one standard error of the median member, or better."""
        return self.together >= median(self.members) - self.standard_error

    def describe(self) -> str:
        """Format a line of the report."""
        is_worse = "no" if self.is_not_worse else "**yes**"
        members = ", ".join(f"{score:.2f}" for score in self.members)
        return (
            f"{self.task}: {self.together:.2f} (standard error {self.standard_error:.2f}), members {members}"
            f"; more than one standard error below the median member: {is_worse}"
        )


def measure_ensemble(
    task: str,
    seeds: Sequence[int],
    experiment: Experiment,
    *,
    reporter: Reporter,
    num_members: int = NUM_MEMBERS,
) -> Ensemble | None:
    """Evaluate the first finished seeds on the dev set; None if there are too few."""
    trials = [Trial(task, "pretrained", seed) for seed in seeds]
    done = [trial for trial in trials if experiment.find_result(trial).exists()][:num_members]
    if len(done) < num_members:
        return None
    path = experiment.find_result(done[0]).with_name("ensemble.json")
    chosen = [trial.seed for trial in done]
    if path.exists() and (known := read_json(path))["seeds"] == chosen:
        return Ensemble(**{**known, "seeds": tuple(chosen), "members": tuple(known["members"])})
    reporter.say(f"{task}: ensemble of seeds {', '.join(map(str, chosen))}")
    models = [experiment.find_run(trial) / MODEL_DIR for trial in done]
    found = evaluate(task, model=models, data=experiment.find_data(task), reporter=reporter)
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
