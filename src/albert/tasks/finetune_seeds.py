"""Fine-tune with several seeds, and summarize their scores in seeds.json."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from albert.errors import InputError
from albert.files import dump_json, reject_foreign, require_folder, write_text
from albert.progress import Reporter
from albert.tasks.finetune import FinetuneResult, FinetuneScores
from albert.tasks.metrics.intervals import SeedSummary, summarise_seeds
from albert.tasks.metrics.task_score import find_middle
from albert.training.distributed import is_first_process
from albert.training.run_folder import MODEL_DIR, has_run

SUMMARY_NAME = "seeds.json"
_SEED_NAME = re.compile(r"seed-\d+|\..*")


@dataclass(frozen=True)
class SeedRuns:
    """The finished runs and the summary of their scores; `stopped` is a run that was interrupted."""

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
    _reject_other_runs(out, seeds=seeds, resume=resume)
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
        runs = list(scores.values())
        content = {
            "scores": {str(seed): dict(each.metrics) for seed, each in scores.items()},
            "median": {
                name: find_middle([each.metrics[name] for each in runs]) for name in scores[best].metrics
            },
            "spread": summary.spread,
            "best_seed": best,
            "model": str(Path(f"seed-{best}") / MODEL_DIR),
        }
        write_text(out / SUMMARY_NAME, f"{dump_json(content, indent=2)}\n")
    return SeedRuns(scores, summary, best, None)


def _reject_other_runs(out: Path, *, seeds: Sequence[int], resume: bool) -> None:
    """Reject a folder of something else, and runs that exist without `resume`."""
    if has_run(out):
        raise InputError(f"{out}: holds a run of a single seed; choose another --out for several")
    found = require_folder(out)
    others = [name for name in found if not _SEED_NAME.fullmatch(name) and name != SUMMARY_NAME]
    reject_foreign(out, others, what="seed")
    begun = [seed for seed in seeds if has_run(out / f"seed-{seed}")]
    if begun and not resume:
        raise InputError(
            f"{out}: holds the run of seed {begun[0]} already; add --resume to go on, or choose another --out"
        )
