"""What a run is asked about: a run comes in; that it is another kind of text than it learns from goes out."""

from albert.app.doctor.findings import Figure, Finding
from albert.app.doctor.reading import PretrainRun

_STRANGER = 1.1  # times the loss of training is what held-out text must have
_BY_HEART = 2.0  # epochs, after which training text may be familiar for another reason
_RISE = 1.02  # above its best: that is overfitting, which another check tells


def check_held_out(run: PretrainRun) -> Finding | None:
    """Held-out text that is much stranger than training text which was hardly seen twice.

    It is asked about at full length; while shorter sequences are trained, nothing is said.
    """
    model, settings = run.settings.model, run.settings
    if model is None or run.step < 1 or run.num_epochs > _BY_HEART:
        return None
    if settings.build_curriculum(model).find(run.step - 1).length != settings.examples.max_length:
        return None
    held_out = run.held_out_curve("mlm_loss").between(run.stage_step, run.step)
    if len(held_out) < 2 or held_out.values[-1] > _RISE * held_out.values.min():
        return None
    train = run.train_curve("mlm_loss").between(held_out.steps[-2], held_out.steps[-1])
    if not len(train) or held_out.values[-1] < _STRANGER * train.values.mean():
        return None
    figures: dict[str, Figure] = {
        "held_out_mlm_loss": float(held_out.values[-1]),
        "train_mlm_loss": float(train.values.mean()),
        "epochs_seen": run.num_epochs,
    }
    title = "held-out text is of another kind than what is learned from"
    if settings.held_out.data is not None:
        cure = f"nothing, if it is meant to be: it is that of held_out.data, {settings.held_out.data}"
        return Finding("stuck", "note", title, figures, cure)
    cure = (
        "the last documents of the corpus are asked about, which of sorted files are those of the last one; "
        "prepare some of each kind as a corpus of its own, with the same --vocab, and name it: "
        "held_out.data=DIR"
    )
    return Finding("stuck", "warning", title, figures, cure)
