"""What a task has taught: a run of fine-tuning comes in; what is not learned, or only by heart, goes out."""

import math

from albert.app.doctor.findings import Figure, Finding, Severity, number_cures
from albert.app.doctor.reading import FinetuneRun
from albert.training.run_folder import MODEL_DIR

_MIN_EVALUATIONS = 3
_FALL = 0.97  # of its first height is what the loss of training must fall below
_BY_HEART = 0.9  # and of its height at the best score, where what is learned does not carry over
_WAIT = 0.5  # of all steps: before that nothing is said against a run


def find_margin(run: FinetuneRun) -> float:
    """Points of 100 by which two scores on the development set differ by chance: two standard errors."""
    return 100.0 / math.sqrt(max(1, run.facts.num_dev))


def check_guessing(run: FinetuneRun) -> Finding | None:
    """Scores that are not above those of always giving the same answer."""
    scores, guess = run.held_out_curve("score"), run.facts.guess
    is_early = not run.is_finished and run.step < _WAIT * run.num_steps  # patience may end it early, too
    if guess is None or len(scores) < _MIN_EVALUATIONS or is_early:
        return None
    best, margin = float(scores.values.max()), find_margin(run)
    if best > guess + margin:
        return None
    losses = run.train_curve("loss").values
    has_fallen = len(losses) > 1 and float(losses[-3:].mean()) < _FALL * float(losses[0])
    figures: dict[str, Figure] = {
        "best_score": best,
        "score_of_guessing": guess,
        "margin": margin,
        "first_train_loss": float(losses[0]) if len(losses) else "none",
        "train_loss": float(losses[-3:].mean()) if len(losses) else "none",
    }
    severity: Severity = "serious" if run.is_finished else "warning"
    title = "the task is not learned: the development set is answered no better than by guessing"
    return Finding("stuck", severity, title, figures, number_cures(_list_cures(run, has_fallen=has_fallen)))


def _list_cures(run: FinetuneRun, *, has_fallen: bool) -> list[str]:
    rate = run.settings.optimizer.learning_rate
    if has_fallen:  # what is learned does not carry over
        return [
            f"more examples than {run.facts.num_train:,}; or start from a model that was fine-tuned on a "
            "larger task of the kind, as the paper starts RTE from MNLI",
            f"a larger or longer pretrained model than {run.facts.model}",
        ]
    return [
        f"another learning rate than {rate:.2g}: {rate / 3:.2g} if all texts get the same answer (too high a "
        f"rate forgets), {3 * rate:.2g} if the loss has hardly moved",
        f"more steps: {_double(run)}",
        "look at the table: do the columns of text and label belong together?",
    ]


def _double(run: FinetuneRun) -> str:
    """What makes a run twice as long: a recipe has epochs, or steps, which stand before them."""
    if run.settings.num_steps is not None:
        return f"num_steps={2 * run.settings.num_steps}"
    return f"num_epochs={2 * run.settings.num_epochs:g}"


def check_overfitting(run: FinetuneRun) -> Finding | None:
    """The development set was answered better before, while the loss of training fell on."""
    scores, losses = run.held_out_curve("score"), run.train_curve("loss")
    if len(scores) <= _MIN_EVALUATIONS or not len(losses):
        return None
    place = int(scores.values.argmax())
    step, best, latest = int(scores.steps[place]), float(scores.values[place]), float(scores.values[-1])
    before, after = losses.between(0, step).values, losses.between(step, run.step).values
    is_lower = len(before) and len(after) and after[-1] < _BY_HEART * before[-1]
    is_lasting = place < len(scores) - 2
    if not is_lower or not is_lasting or latest > best - find_margin(run):
        return None
    figures: dict[str, Figure] = {
        "best_score": best,
        "best_step": step,
        "latest_score": latest,
        "train_loss_then": float(before[-1]),
        "train_loss": float(after[-1]),
    }
    verb = "is" if run.is_finished else "will be"
    cure = (
        f"nothing is lost, {run.path / MODEL_DIR} {verb} that of step {step}; next time patience=3, fewer "
        f"steps than {run.num_steps:,}, or dropout=0.1"
    )
    return Finding("stuck", "note", f"learned by heart since step {step:,}", figures, cure)


def check_length(run: FinetuneRun) -> Finding | None:
    """A score that was still rising at the end."""
    scores = run.held_out_curve("score")
    if not run.is_finished or len(scores) <= _MIN_EVALUATIONS:
        return None
    latest, before = float(scores.values[-1]), float(scores.values[: -(len(scores) // 3)].max())
    if latest < before + find_margin(run):
        return None
    figures: dict[str, Figure] = {"latest_score": latest, "best_before": before}
    cure = f"a longer run: {_double(run)}"
    return Finding("stuck", "note", "the score was still rising at the end", figures, cure)
