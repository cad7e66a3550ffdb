"""State what the results of all tasks show, in sentences with yes or no."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from albert.tasks.metrics.intervals import SeedSummary, summarize_seeds
from bench.downstream.ensembles import Ensemble
from bench.downstream.reference import BERT_TINY
from bench.downstream.results import TaskResults

SENTIMENT = "sst-2"


def list_findings(results: Sequence[TaskResults], ensembles: Sequence[Ensemble]) -> list[str]:
    """Compare pretrained with untrained, the baselines, BERT-Tiny and ensembles; a line each."""
    sentiment = [result for result in results if result.task == SENTIMENT]
    others = [result for result in results if result.task != SENTIMENT]
    gains = [find_gain(SENTIMENT, sentiment), find_gain("the mean of the others", others)]
    return [
        *(gain.describe() for gain in gains if gain is not None),
        *_compare_with_baselines(results),
        *_compare_with_bert(results),
        *(f"Ensemble, {each.describe()}." for each in ensembles),
    ]


@dataclass(frozen=True)
class Gain:
    """Pretrained against untrained: the medians over seeds, and the larger spread of the two."""

    name: str
    num_tasks: int
    untrained: SeedSummary
    pretrained: SeedSummary

    @property
    def difference(self) -> float:
        """Return the difference of the medians."""
        return self.pretrained.median - self.untrained.median

    @property
    def spread(self) -> float | None:
        """Return the larger standard deviation of the two; None if one has a single seed."""
        spreads = (self.untrained.spread, self.pretrained.spread)
        return None if None in spreads else max(spreads)  # type: ignore[type-var]

    def describe(self) -> str:
        """Format a line of the report."""
        tasks = f" ({self.num_tasks} tasks)" if self.num_tasks > 1 else ""
        medians = f"median {self.pretrained.median:.2f} against {self.untrained.median:.2f}"
        text = f"Pretrained against untrained on {self.name}{tasks}: {medians}, {self.difference:+.2f}"
        if self.spread is None:
            return f"{text}; one seed, so no standard deviation."
        is_larger = "larger" if self.difference > self.spread else "**not** larger"
        seeds = f"{self.pretrained.num_seeds} seeds"
        return f"{text}; {is_larger} than the standard deviation of {self.spread:.2f} over {seeds}."


def find_gain(name: str, results: Sequence[TaskResults]) -> Gain | None:
    """Average the scores of the seeds that all tasks have in both variants; None if there are none."""
    known = [result for result in results if result.untrained and result.pretrained]
    if not known:
        return None
    seeds = set.intersection(*({*result.untrained} & {*result.pretrained} for result in known))
    if not seeds:
        return None

    def summarize(variant: str) -> SeedSummary:
        means = [fmean(getattr(each, variant)[seed]["score"] for each in known) for seed in sorted(seeds)]
        return summarize_seeds(means)

    return Gain(name, len(known), summarize("untrained"), summarize("pretrained"))


def _compare_with_baselines(results: Sequence[TaskResults]) -> list[str]:
    known = []
    for result in results:
        found = (result.find_best("score", is_trivial=flag) for flag in (True, False))
        simple, own = [each[1] for each in found if each is not None], result.summarize("pretrained", "score")
        if simple and own is not None:
            known.append((result.task, round(own.median, 1) > round(max(simple), 1)))  # as the table shows
    return [list_passed("Better than both trivial and bag of words", known)] if known else []


def _compare_with_bert(results: Sequence[TaskResults]) -> list[str]:
    known = []
    for result in results:
        for metric, score in BERT_TINY.get(result.task, {}).items():
            own = result.summarize("pretrained", metric)
            if own is not None and result.data.is_complete:
                known.append((f"{result.task} {metric}", own.median >= score))
    return [list_passed("At least the BERT-Tiny score (its test set, our dev set)", known)] if known else []


def list_passed(what: str, known: Sequence[tuple[str, bool]]) -> str:
    """Say on which of the named tasks something is true."""
    passed, missed = ([name for name, flag in known if flag is wanted] for wanted in (True, False))
    if not missed:
        return f"{what} on all: {', '.join(passed)}."
    return f"{what} on {', '.join(passed) or 'none'}; not on {', '.join(missed)}."
