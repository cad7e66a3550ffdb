"""A run comes in, all checks look at it, and what they found goes out, worst first."""

from collections.abc import Callable

from albert.app.doctor import damaged, slow, stuck, taught, unlike, unstable
from albert.app.doctor.findings import Figure, Finding, sort_findings
from albert.app.doctor.reading import AnyRun, FinetuneRun, PretrainRun

CHECKS: tuple[Callable[[AnyRun], Finding | None], ...] = (
    damaged.check_checkpoints,
    damaged.check_end,
    damaged.check_records,
    damaged.check_leftovers,
    unstable.check_divergence,
    *(share.check for share in slow.SHARES),
    slow.check_threads,
    slow.check_load,
    slow.check_memory,
    slow.check_speed,
)
PRETRAIN_CHECKS: tuple[Callable[[PretrainRun], Finding | None], ...] = (
    damaged.check_corpus,
    damaged.check_weights,
    stuck.check_words,
    stuck.check_pairs,
    stuck.check_learning_rate,
    unstable.check_overfitting,
    unlike.check_held_out,
)
FINETUNE_CHECKS: tuple[Callable[[FinetuneRun], Finding | None], ...] = (
    damaged.check_data,
    damaged.check_model,
    taught.check_guessing,
    taught.check_overfitting,
    taught.check_length,
)


def examine(run: AnyRun) -> list[Finding]:
    """Every symptom of a run; where none is more than a note, also that nothing is wrong."""
    found = [check(run) for check in CHECKS]
    if isinstance(run, PretrainRun):
        found += [check(run) for check in PRETRAIN_CHECKS]
    else:
        found += [check(run) for check in FINETUNE_CHECKS]
    findings = [finding for finding in found if finding is not None]
    if all(finding.severity == "note" for finding in findings):
        findings.append(describe_health(run))
    return sort_findings(findings)


def describe_health(run: AnyRun) -> Finding:
    """That nothing is wrong, with the figures that say so."""
    learned = run.list_figures()
    figures: dict[str, Figure] = {"step": run.step, "of_steps": run.num_steps, **learned}
    speed = slow.find_speed(run)
    if speed is not None:
        figures |= {"tokens_per_second": speed, **slow.measure_shares(run)}
    title = "nothing is wrong" if learned else "nothing is wrong so far"
    return Finding("healthy", "fine", title, figures)
