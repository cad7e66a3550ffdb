"""Fine-tuning with several seeds: a way to train comes in; runs, their median and spread go out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from albert.errors import InputError
from albert.files import write_json
from albert.reporting import Reporter
from albert.tasks.finetune import FinetuneResult
from albert.tasks.finetuned import FinetuneScores
from albert.tasks.metrics.seeds import SeedSummary, summarise_seeds
from albert.training.run_folder import MODEL_DIR, has_run

SUMMARY_NAME = "seeds.json"


@dataclass(frozen=True)
class SeedRuns:
    """The runs that were finished, and what their scores have in common; `stopped` is one that was not."""

    scores: dict[int, FinetuneScores]
    summary: SeedSummary | None
    best_seed: int | None
    stopped: FinetuneResult | None


def finetune_seeds(
    train: Callable[[int, Path], FinetuneResult],
    *,
    seeds: Sequence[int],
    out: Path,
    resume: bool,
    reporter: Reporter,
) -> SeedRuns:
    """Train with one seed after the other, each in OUT/seed-N."""
    refuse_other_runs(out, seeds=seeds, resume=resume)
    scores: dict[int, FinetuneScores] = {}
    for number, seed in enumerate(seeds, start=1):
        reporter.say(f"seed {seed}, {number} of {len(seeds)}")
        result = train(seed, out / f"seed-{seed}")
        if result.scores is None:
            return SeedRuns(scores, None, None, result)
        scores[seed] = result.scores
    summary = summarise_seeds([each.score for each in scores.values()])
    best = max(scores, key=lambda seed: scores[seed].score)
    metrics = {name: median(each.metrics[name] for each in scores.values()) for name in scores[best].metrics}
    write_json(
        out / SUMMARY_NAME,
        {
            "scores": {str(seed): dict(each.metrics) for seed, each in scores.items()},
            "median": metrics,
            "spread": summary.spread,
            "best_seed": best,
            "model": str(Path(f"seed-{best}") / MODEL_DIR),
        },
    )
    return SeedRuns(scores, summary, best, None)


def refuse_other_runs(out: Path, *, seeds: Sequence[int], resume: bool) -> None:
    """The folder of several seeds is not that of a single run, and runs go on only when they are told to."""
    if has_run(out):
        raise InputError(f"{out}: holds a run of a single seed; choose another --out for several")
    begun = [seed for seed in seeds if has_run(out / f"seed-{seed}")]
    if begun and not resume:
        raise InputError(
            f"{out}: holds the run of seed {begun[0]} already; add --resume to go on, or choose another --out"
        )
