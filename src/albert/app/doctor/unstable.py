"""What is learned and lost again: a run comes in; divergence and overfitting go out as findings."""

import numpy as np

from albert.app.doctor.curves import Curve, Trend, fit_trend, read_curve
from albert.app.doctor.findings import SEVERITIES, Figure, Finding, Severity
from albert.app.doctor.reading import PretrainRun
from albert.app.doctor.run import MIN_RECORDS, Run, take_last_quarter
from albert.training.run_folder import BEST_DIR

_RISE = 0.02  # of its height is what a loss must rise to be called so
_GROWTH = 3.0  # times its earlier median is what a gradient norm must have
_FEW_SKIPS = 3


def check_divergence(run: Run) -> Finding | None:
    """A loss that rises, gradients that grow, steps that had to be left out."""
    skips = [record for record in run.list_records("skip") if record["step"] > 0.75 * run.step]
    trend, growth = _find_trend(run), _find_growth(run)
    signs: dict[str, Severity] = {}
    if run.is_stopped_by_guard:
        signs["it was stopped: no step could be taken any more"] = "serious"
    if trend is not None and trend.is_rising(_RISE):
        signs["the training loss rises"] = "serious"
    if growth > _GROWTH and not (trend is not None and trend.is_falling(_RISE)):
        signs["gradients grow"] = "warning"
    if skips:
        signs["steps were left out"] = "warning" if len(skips) >= _FEW_SKIPS else "note"
    if not signs:
        return None
    figures: dict[str, Figure] = {"steps_left_out": len(skips), "gradient_norm_to_earlier": growth}
    if trend is not None:
        figures |= {"change_in_1000_steps": 1000 * trend.slope, "standard_error": 1000 * trend.error}
    if skips:
        figures["last_left_out"] = f"step {skips[-1]['step']}, {skips[-1].get('reason', '')}"
    severity: Severity = min(signs.values(), key=SEVERITIES.index)
    if severity == "note":
        cure = "nothing, while they stay few: the guard has kept them out"
        return Finding("stuck", severity, ", ".join(signs), figures, cure)
    return Finding("stuck", severity, f"diverging: {', '.join(signs)}", figures, _format_cure(run))


def _format_cure(run: Run) -> str:
    rate = 0.5 * run.settings.optimizer.learning_rate
    warmup = max(2 * run.num_warmup, run.num_steps // 20)
    return (
        f"a new run with half the learning rate and a longer warm-up: optimizer.learning_rate={rate:.3g} "
        f"schedule.warmup_steps={warmup} schedule.warmup_share=null"
    )


def _find_trend(run: Run) -> Trend | None:
    """Where the loss of the present stage has been going lately; None: too little is known."""
    start = max(run.stage_step, run.num_warmup)
    records = take_last_quarter([record for record in run.trains if record["step"] > start])
    curve = read_curve(records, "loss")
    return fit_trend(curve) if len(curve) >= MIN_RECORDS else None


def _find_growth(run: Run) -> float:
    """The recent gradient norm of the present stage by its earlier one; 1 where too little is known."""
    norms = run.train_curve("grad_norm").between(max(run.stage_step, run.num_warmup), run.step).values
    if len(norms) < 2 * MIN_RECORDS:
        return 1.0
    cut = len(norms) - max(MIN_RECORDS, len(norms) // 4)
    return float(np.median(norms[cut:]) / max(float(np.median(norms[:cut])), 1e-12))


def check_overfitting(run: PretrainRun) -> Finding | None:
    """Held-out text becomes stranger while the training text becomes more familiar."""
    held_out = run.held_out_curve("mlm_loss").between(run.stage_step, run.step)
    if len(held_out) < 4:
        return None
    best = int(held_out.values.argmin())
    least, latest = float(held_out.values[best]), float(held_out.values[-1])
    train = run.train_curve("mlm_loss")
    before = train.between(_find_previous(held_out, best, run.stage_step), held_out.steps[best])
    now = train.between(held_out.steps[-2], held_out.steps[-1])
    if best >= len(held_out) - 2 or latest < (1.0 + _RISE) * least or not len(before) or not len(now):
        return None
    if now.values.mean() >= before.values.mean():
        return None
    step = int(held_out.steps[best])
    figures: dict[str, Figure] = {
        "held_out_mlm_loss": latest,
        "best_held_out_mlm_loss": least,
        "best_step": step,
        "train_mlm_loss": float(now.values.mean()),
        "train_mlm_loss_at_best_step": float(before.values.mean()),
        "epochs_seen": run.num_epochs,
        "pieces": run.facts.num_pieces,
    }
    place = run.path / BEST_DIR
    kept = f"{place}" if place.exists() else f"step {step}, which the finished run writes to {place}"
    cure = (
        f"more text (this one was seen {run.num_epochs:.1f} times), or fewer steps; the best model is {kept}"
    )
    title = f"overfitting since step {step:,}: held-out text becomes stranger, training text more familiar"
    return Finding("stuck", "warning", title, figures, cure)


def _find_previous(curve: Curve, place: int, start: int) -> float:
    return float(curve.steps[place - 1]) if place else float(start)
