"""Reference values of the tasks: published sizes, metrics to show, scores of BERT-Tiny and BERT-Mini."""

from collections.abc import Mapping
from dataclasses import dataclass

from albert.tasks.catalogue import PUBLISHED_TASKS

# Too long for five seeds on two cores; --max-train cuts them.
LARGE = ("qqp", "qnli", "mnli", "squad-1.1", "squad-2.0", "race")
ENSEMBLES = ("sst-2", "mrpc", "squad-1.1", "squad-2.0")
# Published numbers of train and dev examples.
OFFICIAL_SIZES: Mapping[str, tuple[int, int]] = {
    "cola": (8551, 1043), "sst-2": (67_349, 872), "mrpc": (3668, 408), "sts-b": (5749, 1500),
    "qqp": (363_846, 40_430), "mnli": (392_702, 9815), "qnli": (104_743, 5463), "rte": (2490, 277),
    "wnli": (635, 71), "squad-1.1": (87_599, 10_570), "squad-2.0": (130_319, 11_873), "race": (87_866, 4887),
}  # fmt: skip
# BERT-Tiny (2 layers of width 128, 4.4M parameters) on the hidden test sets: the table of smaller models in
# the README of google-research/bert, March 2020; the best of 20 settings for each task, 4 epochs.
BERT_TINY: Mapping[str, Mapping[str, float]] = {
    "cola": {"matthews": 0.0}, "sst-2": {"accuracy": 83.2}, "mrpc": {"f1": 81.1, "accuracy": 71.1},
    "sts-b": {"pearson": 74.3, "spearman": 73.6}, "qqp": {"f1": 62.2, "accuracy": 83.4},
    "mnli": {"accuracy": 70.2, "accuracy_mismatched": 70.3}, "qnli": {"accuracy": 81.5},
    "rte": {"accuracy": 57.2}, "wnli": {"accuracy": 62.3},
}  # fmt: skip
# BERT-Mini (4 layers of width 256, 11.2M parameters), from the same table.
BERT_MINI: Mapping[str, Mapping[str, float]] = {
    "cola": {"matthews": 0.0}, "sst-2": {"accuracy": 85.9}, "mrpc": {"f1": 81.1, "accuracy": 71.8},
    "sts-b": {"pearson": 75.4, "spearman": 73.3}, "qqp": {"f1": 66.4, "accuracy": 86.2},
    "mnli": {"accuracy": 74.8, "accuracy_mismatched": 74.3}, "qnli": {"accuracy": 84.1},
    "rte": {"accuracy": 57.9}, "wnli": {"accuracy": 62.3},
}  # fmt: skip
_SHOWN: Mapping[str, tuple[str, ...]] = {
    "mnli": ("accuracy", "accuracy_mismatched"),
    "squad-1.1": ("exact", "f1"),
    "squad-2.0": ("exact", "f1"),
    "race": ("accuracy", "middle", "high"),
}
_COMPLETE_SHARE = 0.99  # a few broken rows may be missing


@dataclass(frozen=True)
class DataSizes:
    """The number of train examples, the limit that `--max-train` set, and the number of dev examples."""

    task: str
    num_train: int
    num_dev: int
    max_train: int | None = None

    @property
    def is_complete(self) -> bool:
        """Return whether the dev set is the published one, so that scores can be compared."""
        return self.num_dev >= _COMPLETE_SHARE * OFFICIAL_SIZES[self.task][1]

    @property
    def has_all_train(self) -> bool:
        """Return whether all published examples are used for training."""
        return self.num_train >= _COMPLETE_SHARE * OFFICIAL_SIZES[self.task][0]

    def describe(self) -> str:
        """Format a line of the notes."""
        train, dev = OFFICIAL_SIZES[self.task]
        num_train = f"{self.num_train:,}" + ("" if self.has_all_train else f" of {train:,}")
        limit = "" if self.max_train is None else f" (a random subset of at most {self.max_train:,})"
        num_dev = f"{self.num_dev:,}" + ("" if self.is_complete else f" of {dev:,}")
        reduced = "" if self.is_complete else "; **reduced: not comparable with published scores**"
        return f"{self.task}: {num_train} training examples{limit}, {num_dev} dev examples{reduced}"


def list_shown(task: str) -> tuple[str, ...]:
    """List the metrics that have a row in the table."""
    return _SHOWN.get(task) or PUBLISHED_TASKS[task].config.metrics
