"""What an evaluation found: facts come in from `evaluation.py`; pages, files and commands read them here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from albert.tasks.examples import Example
from albert.tasks.metrics.calibration import ReliabilityBin
from albert.tasks.metrics.classification import ClassScore, Confusion
from albert.tasks.metrics.intervals import Interval
from albert.tasks.metrics.squad import BestThresholds, ChosenThreshold
from albert.tasks.task_facts import TaskConfig


@dataclass(frozen=True)
class Verdict:
    """One example and what became of it, in words that a person reads.

    `texts` are the parts of the example by their names, in the order to show them. `loss` says how wrong the
    answer is, 0 where it could not be better: -log p of what is right, for spans 1 - F1, for numbers the
    distance. `confidence` is the probability of what was given; a number has none.
    """

    id: str
    texts: Mapping[str, str]
    gold: str
    given: str
    is_right: bool
    loss: float
    confidence: float | None


@dataclass(frozen=True)
class MemberScore:
    """One model by itself, on the examples that the whole is scored on."""

    name: str
    scores: Mapping[str, float]
    is_chosen: bool = True


@dataclass(frozen=True)
class Selection:
    """How the members of an ensemble were chosen, on examples that have no part in its scores.

    `steps` are the names in the order in which they were added, and the score of what there was then, on the
    examples that they were chosen on.
    """

    chosen_on: str
    num_chosen_on: int
    steps: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Calibration:
    """How honest the probabilities are.

    `temperature` is the one that they were made with, None where each member has its own. `ece` is how far
    confidence and accuracy lie apart (0 to 1), `loss` the mean -log p of what is right. `best_temperature` is
    what these very examples would still want on top: 1 is honest, above 1 the model is too sure. `bins` have
    the answers by their confidence. Where a temperature was chosen on these examples (`is_tuned_here`),
    `ece`, `loss` and `bins` are of halves: what each member says, at a temperature chosen on the other.
    """

    temperature: float | None
    ece: float
    loss: float
    best_temperature: float
    bins: tuple[ReliabilityBin, ...] = ()
    is_tuned_here: bool = False


@dataclass(frozen=True)
class ThresholdReport:
    """What leaves SQuAD 2.0's questions unanswered: odds for no answer above `threshold`.

    `source` says where it is from. `elsewhere` is the honest figure where a threshold is yet to be chosen:
    chosen on the first half of the articles, scored on the `num_reported` questions of the second; None where
    there is but one article. `best` is the official script's search over all questions, which flatters.
    """

    threshold: float
    source: str
    best: BestThresholds
    elsewhere: ChosenThreshold | None = None
    num_chosen_on: int = 0
    num_reported: int = 0


@dataclass(frozen=True)
class Evaluation:
    """What models say of the examples of a split, and how right they are.

    `models` are those that were asked and, of an ensemble with a selection, chosen. `examples` and `answers`
    (of the kind that `facts` build) are all of the split; `scores` and all below them are of the `num_scored`
    examples that had no part in choosing. A split without labels has no scores. `scores` are in points of
    100, and `score` is the one that the task is judged by; `intervals` have those that can be drawn again.
    """

    task: str
    split: str
    data: str
    models: tuple[str, ...]
    facts: TaskConfig
    examples: tuple[Example, ...]
    answers: tuple[Any, ...]
    problems: tuple[str, ...] = ()
    num_scored: int = 0
    scores: Mapping[str, float] = field(default_factory=dict)
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    member_scores: tuple[MemberScore, ...] = ()
    selection: Selection | None = None
    classes: tuple[ClassScore, ...] = ()
    confusion: Confusion | None = None
    calibration: Calibration | None = None
    threshold: ThresholdReport | None = None
    verdicts: tuple[Verdict, ...] = ()
