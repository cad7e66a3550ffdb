"""A run comes in, all checks look at it, and what they found goes out, worst first."""

from collections.abc import Callable

from albert.app.doctor import damaged, slow, stuck, unstable
from albert.app.doctor.findings import Figure, Finding, sort_findings
from albert.app.doctor.reading import Run

CHECKS: tuple[Callable[[Run], Finding | None], ...] = (
    damaged.check_checkpoints,
    damaged.check_corpus,
    damaged.check_end,
    damaged.check_records,
    damaged.check_leftovers,
    stuck.check_words,
    stuck.check_pairs,
    stuck.check_learning_rate,
    unstable.check_divergence,
    unstable.check_overfitting,
    *(share.check for share in slow.SHARES),
    slow.check_threads,
    slow.check_load,
    slow.check_memory,
    slow.check_speed,
)


def examine(run: Run) -> list[Finding]:
    """Every symptom of a run; where none is more than a note, also that nothing is wrong."""
    findings = [found for check in CHECKS if (found := check(run)) is not None]
    if all(found.severity == "note" for found in findings):
        findings.append(describe_health(run))
    return sort_findings(findings)


def describe_health(run: Run) -> Finding:
    """That nothing is wrong, with the figures that say so."""
    figures: dict[str, Figure] = {"step": run.step, "of_steps": run.settings.num_steps}
    held_out, train = run.held_out_curve("mlm_loss"), run.train_curve("mlm_loss")
    known = held_out if len(held_out) else train
    if len(known):
        loss, unigram = float(known.values[-1]), run.facts.unigram_loss
        figures |= {"mlm_loss": loss, "unigram_loss": unigram, "below_unigram_share": 1 - loss / unigram}
    pairs = run.held_out_curve(f"{run.pair_objective}_accuracy")
    if len(pairs):
        figures[f"{run.pair_objective}_accuracy"] = float(pairs.values[-1])
    speed = slow.find_speed(run)
    if speed is not None:
        figures |= {"tokens_per_second": speed, **slow.measure_shares(run), "epochs_seen": run.num_epochs}
    return Finding(
        "healthy", "fine", "nothing is wrong" if len(known) else "nothing is wrong so far", figures
    )
