"""What is broken or unfinished: a run comes in; what is cut, missing or left over goes out as findings."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from albert.app.doctor.findings import Figure, Finding, Severity
from albert.app.doctor.reading import FinetuneRun, PretrainRun
from albert.app.doctor.run import Run
from albert.corpus.remote import is_url
from albert.errors import AlbertError
from albert.pretrained.huggingface import CONFIG_NAME
from albert.training.metrics import METRICS_NAME
from albert.training.run_folder import BEST_DIR, MODEL_DIR, RUN_NAME, SETTINGS_NAME, identify_corpus

if TYPE_CHECKING:
    from albert.training.checkpoints import CheckpointFolder

# What is written aside and then renamed, by the name it would have had.
_WRITTEN = (RUN_NAME, SETTINGS_NAME, METRICS_NAME, MODEL_DIR, BEST_DIR)


def check_checkpoints(run: Run) -> Finding | None:
    """Checkpoints that lack a part, or whose checksum does not fit."""
    from albert.training.checkpoints import CheckpointFolder
    from albert.training.run_folder import CHECKPOINTS_DIR

    folder = CheckpointFolder(run.path / CHECKPOINTS_DIR)
    reasons = {step: _find_damage(folder, step) for step in folder.list_steps()}
    present = folder.list_steps()  # a run at work removes old ones while we look
    whole = [step for step in present if reasons.get(step) is None]
    damaged = {step: reason for step, reason in reasons.items() if reason is not None and step in present}
    if not damaged:
        return None
    figures: dict[str, Figure] = {f"step-{step}": reason for step, reason in damaged.items()}
    figures["whole_checkpoints"] = ", ".join(map(str, whole)) or "none"
    names = ", ".join(f"step-{step}" for step in damaged)
    title = f"damaged: checkpoint {names}"
    if run.is_finished:
        cure = f"the run is finished and {run.path / MODEL_DIR} does not need it; delete it"
        return Finding("damaged", "note", title, figures, cure)
    if whole and whole[-1] > max(damaged):
        cure = "a newer one is whole, and resuming takes that; delete the damaged one"
        return Finding("damaged", "note", title, figures, cure)
    back = f"resuming passes over it and goes on from step {whole[-1]}" if whole else "resuming begins anew"
    cure = f"copy it back if you have it elsewhere; otherwise {back}. Look at the disk (`dmesg`, `df -h`)"
    return Finding("damaged", "serious", title, figures, cure)


def _find_damage(folder: "CheckpointFolder", step: int) -> str | None:
    try:
        folder.load(step)
        return None
    except (AlbertError, OSError) as error:
        return str(error)


def check_leftovers(run: Run) -> Finding | None:
    """What a killed process was writing; one that is at work is writing still."""
    if run.is_held:
        return None
    found = sorted(_iter_leftovers(run.path))
    if not found:
        return None
    size = sum(file.stat().st_size for path in found for file in (path, *path.rglob("*")) if file.is_file())
    figures: dict[str, Figure] = {"megabytes": round(size / 1e6, 1), "first": str(found[0])}
    title = f"{len(found)} left over from a save that was killed"
    cure = "harmless, and nothing reads it: delete it (resuming sweeps checkpoints/ by itself)"
    return Finding("damaged", "note", title, figures, cure)


def _iter_leftovers(path: Path) -> Iterator[Path]:
    from albert.training.run_folder import CHECKPOINTS_DIR

    yield from path.glob(f"{CHECKPOINTS_DIR}/.step-*")
    for name in _WRITTEN:
        yield from path.glob(f".{name}.*")


def check_records(run: Run) -> Finding | None:
    """Lines of the records that cannot be read."""
    if not run.cut_lines:
        return None
    last = len(run.records) + len(run.cut_lines)
    listed = ", ".join(map(str, run.cut_lines[:5]))
    figures: dict[str, Figure] = {"unreadable_lines": len(run.cut_lines), "line": listed, "of_lines": last}
    title = f"{METRICS_NAME} has lines that were cut"
    if run.cut_lines == (last,):
        cure = "only the last one, as when a process is killed; resuming drops it and writes it again"
        return Finding("damaged", "note", title, figures, cure)
    cure = "the curves lack these records and the weights lack nothing; look at the disk (`dmesg`, `df -h`)"
    return Finding("damaged", "warning", title, figures, cure)


def check_corpus(run: PretrainRun) -> Finding | None:
    """The corpus, opened as resuming would: missing, cut, or another one."""
    from albert.training.pretrain_job import open_data

    data = run.facts.data
    severity: Severity = "note" if run.is_finished else "serious"
    figures: dict[str, Figure] = {"data": data}
    if not is_url(data) and not Path(data).is_absolute() and not Path(data).exists():
        cure = f"{data} is relative to where the run was started: go there, or give --data when resuming"
        return Finding("damaged", "note", "the corpus is not to be found from here", figures, cure)
    try:
        found = open_data(data, run.settings.held_out, objective=run.settings.examples.objective)
    except (AlbertError, OSError) as error:
        figures["reason"] = str(error)
        cure = "copy the corpus back, or prepare it again from the same sources with the same vocabulary"
        return Finding("damaged", severity, "the corpus cannot be opened", figures, cure)
    for what, corpus, known in (
        ("corpus", found.whole, run.facts.corpus),
        ("held-out text", found.held_out, run.facts.held_out),
    ):
        now = identify_corpus(corpus)
        if known not in ("", now):
            figures |= {"began_with": known[:12], "found": now[:12]}
            title = f"the {what} is not the one that the run began with; resuming refuses it"
            return Finding("damaged", severity, title, figures, f"put the old one back, or {_say_anew(run)}")
    return None


def _say_anew(run: PretrainRun) -> str:
    place = run.path / MODEL_DIR
    return "start a new run on this one" + (f" with init_from={place}" if place.exists() else "")


def check_data(run: FinetuneRun) -> Finding | None:
    """The examples of a run that is to go on, read as resuming would: missing, broken, or others."""
    from albert.tasks.assignment import open_assignment

    if run.is_finished:
        return None
    facts, settings = run.facts, run.settings
    figures: dict[str, Figure] = {"data": facts.data, **({} if facts.dev is None else {"dev": facts.dev})}
    try:
        found = open_assignment(
            facts.task.task,
            facts.data,
            dev=facts.dev,
            columns=settings.columns,
            dev_share=settings.dev_share,
        )
    except (AlbertError, OSError) as error:
        figures["reason"] = str(error)
        cure = "put it back, or, if the path is relative, go to where the run was started"
        return Finding("damaged", "serious", "the examples cannot be read", figures, cure)
    if found.fingerprint == facts.examples:
        return None
    title = "the examples are not those that the run began with; resuming refuses them"
    cure = "put the old ones back, or start a new run on these"
    return Finding("damaged", "serious", title, figures, cure)


def check_weights(run: PretrainRun) -> Finding | None:
    """The model that was written, and that of the best step, opened as fine-tuning would."""
    from albert.pretrained.folder import check_vocabulary, load_model, load_vocabulary

    def load(place: Path) -> None:
        check_vocabulary(load_model(place).config, load_vocabulary(place))

    return _check_folders(run, (MODEL_DIR, BEST_DIR), load)


def check_model(run: FinetuneRun) -> Finding | None:
    """The model that was written, opened as `albert predict` would."""
    from albert.tasks.answering import load_answerer

    return _check_folders(run, (MODEL_DIR,), load_answerer)


def _check_folders(
    run: PretrainRun | FinetuneRun, names: Sequence[str], load: Callable[[Path], object]
) -> Finding | None:
    """Of a finished run: at work, it may be writing them."""
    for place in (run.path / name for name in names):
        if not run.is_finished or not (place / CONFIG_NAME).exists():
            continue
        try:
            load(place)
        except (AlbertError, OSError) as error:
            cure = f"write it again from the checkpoints: `{run.format_resume()}`"
            return Finding("damaged", "serious", "the model cannot be opened", {"reason": str(error)}, cure)
    return None


def check_end(run: Run) -> Finding | None:
    """A run that is not at its end and that no process is at work on."""
    has_model = (run.path / MODEL_DIR / CONFIG_NAME).exists()
    if run.is_held or run.is_stopped_by_guard or (run.is_finished and has_model):
        return None
    ends = run.list_records("end")
    is_told = bool(ends) and ends[-1] is run.records[-1]
    signal, error = (ends[-1].get("signal"), ends[-1].get("error")) if is_told else (None, None)
    figures: dict[str, Figure] = {
        "step": run.step,
        "of_steps": run.num_steps,
        "ended_by": signal or error or "a kill or a crash",
    }
    title = (
        "all steps are done, but the model was not written" if run.is_finished else "the run is unfinished"
    )
    first = "mend what ended it, then " if error else ""
    return Finding("damaged", "warning", title, figures, f"{first}go on exactly: `{run.format_resume()}`")
