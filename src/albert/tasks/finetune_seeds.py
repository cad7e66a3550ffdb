"""Fine-tuning with several seeds: a way to train comes in; runs, their median and spread go out."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert.errors import InputError
from albert.files import dump_json, refuse_foreign, require_folder, write_text
from albert.reporting import Reporter
from albert.tasks.finetune import FinetuneResult
from albert.tasks.finetuned import FinetuneScores
from albert.tasks.metrics.figures import find_middle
from albert.tasks.metrics.seeds import SeedSummary, summarise_seeds
from albert.training.run_folder import MODEL_DIR, has_run
from albert.training.world import is_first_process

SUMMARY_NAME = "seeds.json"
_SEED_NAME = re.compile(r"seed-\d+|\..*")


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
        if is_first_process():
            reporter.say(f"seed {seed}, {number} of {len(seeds)}")
        result = train(seed, out / f"seed-{seed}")
        if result.scores is None:
            return SeedRuns(scores, None, None, result)
        scores[seed] = result.scores
    summary = summarise_seeds([each.score for each in scores.values()])
    best = max(scores, key=lambda seed: scores[seed].score)
    if is_first_process():
        text = dump_json(format_summary(scores, summary, best_seed=best), indent=2)
        write_text(out / SUMMARY_NAME, f"{text}\n")
    return SeedRuns(scores, summary, best, None)


def format_summary(
    scores: Mapping[int, FinetuneScores], summary: SeedSummary, *, best_seed: int
) -> dict[str, Any]:
    """What seeds.json holds: the metrics of each seed, their medians, and where the best model lies."""
    names = scores[best_seed].metrics
    return {
        "scores": {str(seed): dict(each.metrics) for seed, each in scores.items()},
        "median": {name: find_middle([each.metrics[name] for each in scores.values()]) for name in names},
        "spread": summary.spread,
        "best_seed": best_seed,
        "model": str(Path(f"seed-{best_seed}") / MODEL_DIR),
    }


def refuse_other_runs(out: Path, *, seeds: Sequence[int], resume: bool) -> None:
    """Raise an InputError if the folder holds a single run, other files, or started runs without `resume`."""
    if has_run(out):
        raise InputError(f"{out}: holds a run of a single seed; choose another --out for several")
    found = require_folder(out)
    others = [name for name in found if not _SEED_NAME.fullmatch(name) and name != SUMMARY_NAME]
    refuse_foreign(out, others, what="seed")
    begun = [seed for seed in seeds if has_run(out / f"seed-{seed}")]
    if begun and not resume:
        raise InputError(
            f"{out}: holds the run of seed {begun[0]} already; add --resume to go on, or choose another --out"
        )
