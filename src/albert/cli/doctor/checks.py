"""The checks of a run, each a function from a loaded run to its findings.

The thresholds are rules of thumb for small models on few cores; docs/doctor.md lists them.
"""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from albert.cli.doctor.run import (
    KINDS,
    MIN_RECORDS,
    SEVERITIES,
    AnyRun,
    Finding,
    FinetuneRun,
    PretrainRun,
    Run,
    Severity,
    Trend,
    Value,
    read_curve,
)
from albert.data.paths import is_url
from albert.errors import AlbertError
from albert.pretrained.huggingface import CONFIG_NAME
from albert.training.run_folder import BEST_DIR, CHECKPOINTS_DIR, MODEL_DIR, count_cores

_PLATEAU = 0.97  # times the unigram loss; a model above it has learned token frequencies only


def diagnose(run: AnyRun) -> list[Finding]:
    """Run all checks and return the findings, worst first; without a warning also that the run is healthy."""
    findings = [finding for check in CHECKS for finding in check(run)]
    if isinstance(run, PretrainRun):
        findings += [finding for check in PRETRAIN_CHECKS for finding in check(run)]
    else:
        findings += check_score(run)
    if all(finding.severity == "note" for finding in findings):
        values: dict[str, Value] = {"step": run.step, "of_steps": run.num_steps, **_list_results(run)}
        findings.append(Finding("healthy", "fine", "no problem found", values))
    return sorted(findings, key=lambda each: (SEVERITIES.index(each.severity), KINDS.index(each.kind)))


def _list_results(run: AnyRun) -> dict[str, Value]:
    """Return the latest losses and scores, and the speed."""
    values: dict[str, Value] = {}
    if isinstance(run, PretrainRun):
        unigram, name = run.facts.unigram_loss, f"{run.settings.examples.pair_objective}_accuracy"
        if losses := list(_list_mlm_losses(run).values()):
            values = {"mlm_loss": losses[0], "unigram_loss": unigram}
            values["below_unigram_share"] = 1 - losses[0] / unigram
        if len(pairs := run.held_out_curve(name).values):
            values[name] = float(pairs[-1])
        values["epochs_seen"] = run.num_epochs
    elif len(scores := run.held_out_curve("score")):
        best = int(scores.values.argmax())
        values = {"best_score": float(scores.values[best]), "best_step": int(scores.steps[best])}
        values |= {} if run.facts.guess is None else {"score_of_guessing": run.facts.guess}
    if len(speeds := read_curve(run.recent, "tokens_per_second").values):
        values |= {"tokens_per_second": float(np.median(speeds)), **_measure_shares(run)}
    return values


# Damaged or unfinished.


def check_checkpoints(run: Run) -> Iterator[Finding]:
    """Find checkpoints that cannot be loaded."""
    from albert.training.checkpoints import CheckpointFolder

    folder = CheckpointFolder(run.path / CHECKPOINTS_DIR)
    reasons = {step: _find_error(folder.load, step) for step in folder.list_steps()}
    steps = folder.list_steps()  # an active run deletes old checkpoints
    damaged = {step: reason for step, reason in reasons.items() if reason and step in steps}
    if not damaged:
        return
    whole = [step for step in steps if step not in damaged]
    values = {f"step-{step}": reason for step, reason in damaged.items()}
    values["whole_checkpoints"] = ", ".join(map(str, whole)) or "none"
    title = "damaged checkpoint: " + ", ".join(f"step-{step}" for step in damaged)
    if run.is_finished or (whole and whole[-1] > max(damaged)):
        yield Finding("damaged", "note", title, values, "No action needed: nothing reads it.")
    else:
        start = f"continues from step {whole[-1]}" if whole else "starts from step 0"
        hint = f"Restore it from a copy, or resume, which {start}. Check the disk with `dmesg` and `df -h`."
        yield Finding("damaged", "serious", title, values, hint)


def check_model(run: AnyRun) -> Iterator[Finding]:
    """Load the model folders of a finished run."""
    from albert.pretrained.folder import check_vocabulary, load_model, load_vocabulary
    from albert.tasks.answering import load_answerer

    def load(folder: Path) -> None:
        if isinstance(run, PretrainRun):
            check_vocabulary(load_model(folder).config, load_vocabulary(folder))
        else:
            load_answerer(folder)

    for folder in (run.path / MODEL_DIR, run.path / BEST_DIR):
        if run.is_finished and (folder / CONFIG_NAME).exists() and (reason := _find_error(load, folder)):
            hint = f"Write it again from the checkpoints: `{run.format_resume()}`"
            yield Finding("damaged", "serious", "the model cannot be loaded", {"reason": reason}, hint)


def check_end(run: Run) -> Iterator[Finding]:
    """Find a run that is not finished although no process works on it."""
    has_model = (run.path / MODEL_DIR / CONFIG_NAME).exists()
    if run.is_active or run.is_stopped or (run.is_finished and has_model):
        return
    last = run.records[-1] if run.records and run.records[-1].get("kind") == "end" else {}
    reason = last.get("signal") or last.get("error") or "killed or crashed"
    values: dict[str, Value] = {"step": run.step, "of_steps": run.num_steps, "ended_by": reason}
    title = "all steps are done but the model was not written" if run.is_finished else "unfinished run"
    when = " after fixing the error" if last.get("error") else ""
    yield Finding("damaged", "warning", title, values, f"Resume it{when}: `{run.format_resume()}`")


def check_corpus(run: PretrainRun) -> Iterator[Finding]:
    """Open the corpus as `--resume` would: it may be missing or damaged."""
    from albert.training.pretrain import open_data

    data = run.facts.data
    if not is_url(data) and not Path(data).is_absolute() and not Path(data).exists():
        hint = "The path is relative to the folder where the run was started: go there, or give --data."
        yield Finding("damaged", "note", "corpus not found from here", {"data": data}, hint)
        return
    try:
        open_data(data, run.settings.held_out, objective=run.settings.examples.objective)
    except (AlbertError, OSError) as error:
        values = {"data": data, "reason": str(error)}
        hint = "Restore it, or prepare it again from the same sources with the same vocabulary."
        severity: Severity = "note" if run.is_finished else "serious"
        yield Finding("damaged", severity, "the corpus cannot be opened", values, hint)


def _find_error(load: Callable[[Any], object], what: Any) -> str:
    try:
        load(what)
    except (AlbertError, OSError) as error:
        return str(error)
    return ""


# Pretraining that is stuck or unstable.


def check_mlm_loss(run: PretrainRun) -> Iterator[Finding]:
    """Find an MLM loss that stays at the unigram loss."""
    losses, unigram = _list_mlm_losses(run), run.facts.unigram_loss
    if not losses or min(losses.values()) < _PLATEAU * unigram:
        return
    values: dict[str, Value] = {**losses, "unigram_loss": unigram, "step": run.step}
    trend = run.fit_trend("mlm_loss", start=run.num_warmup)
    is_falling = trend is not None and trend.direction < 0
    if trend is not None and trend.noise < 0.04 and not is_falling:
        if trend.direction == 0:  # a rising loss is divergence
            yield _build_plateau_finding(run, trend, values)
    elif run.is_finished:
        hint = f"Train longer: `{run.format_new(f'num_steps={4 * run.num_steps}')}`"
        yield Finding("stuck", "warning", "the run ended at the unigram loss", values, hint)
    elif not is_falling:
        values["warm_up_steps"] = run.num_warmup
        later = max(run.num_warmup + MIN_RECORDS * run.settings.log_every, 2 * run.step)
        hint = f"Run `albert doctor {run.path}` again after step {later:,}."
        yield Finding("stuck", "note", "too early to tell whether the MLM loss falls", values, hint)


def _build_plateau_finding(run: PretrainRun, trend: Trend, values: dict[str, Value]) -> Finding:
    curve = run.train_curve("mlm_loss")
    away = np.flatnonzero(abs(curve.values - trend.mean) > 0.05 * trend.mean)
    since = int(curve.steps[min(away[-1] + 1, len(curve) - 1) if len(away) else 0])
    values |= {"since_step": since, **_describe(trend)}
    # Small models often stay there for thousands of steps and then leave it.
    severity: Severity = "serious" if run.is_finished or run.step - since > 3000 else "warning"
    side = "at" if trend.mean < (2 - _PLATEAU) * run.facts.unigram_loss else "above"
    settings, rate, tokens = run.settings, run.settings.optimizer.learning_rate, _count_step_tokens(run)
    name, layers = settings.optimizer.name, settings.model.num_hidden_layers if settings.model else 1
    best = {each: (scale_learning_rates(each, tokens) or (0.0, 0.0))[1] for each in ("muon", name)}
    muon = f"optimizer.name=muon optimizer.learning_rate={best['muon']:.2g}"
    changes = {
        muon: name != "muon" and settings.strategy != "fsdp",
        f"optimizer.learning_rate={best[name]:.2g}": rate < 0.7 * best[name],
        f"--batch-size {max(1, settings.batch_size // 2)}": tokens > 4096,
        "'length_schedule=[{until: 0.7, value: 32}]'": settings.examples.max_length > 32
        and not settings.length_schedule,
        "'depth_schedule=[{until: 0.5, value: 1}]'": layers > 1 and not settings.depth_schedule,
        "position_init=sinusoidal": settings.position_init == "normal" and settings.init_from is None,
        f"num_steps={4 * run.num_steps}": True,
    }
    listed = [change for change, is_possible in changes.items() if is_possible]
    lines = "\n".join(f"({number}) {change}" for number, change in enumerate(listed, 1))
    hint = f"Start a new run with the first of these changes: `{run.format_new('CHANGE')}`\n{lines}"
    title = f"the MLM loss has been {side} the unigram loss since step {since:,}"
    return Finding("stuck", severity, title, values, hint)


def _describe(trend: Trend) -> dict[str, float]:
    return {"change_in_1000_steps": 1000 * trend.slope, "standard_error": 1000 * trend.error}


def _list_mlm_losses(run: PretrainRun) -> dict[str, float]:
    held_out, train = run.held_out_curve("mlm_loss").values, run.train_curve("mlm_loss").values
    found = {"held_out_mlm_loss": float(held_out[-1])} if len(held_out) else {}
    return {**found, "train_mlm_loss": float(train[-5:].mean())} if len(train) else found


def check_pairs(run: PretrainRun) -> Iterator[Finding]:
    """Find SOP or NSP at chance level although the MLM loss has left the plateau or the run is long."""
    name, losses = run.settings.examples.pair_objective, _list_mlm_losses(run)
    held_out = run.held_out_curve(f"{name}_accuracy").values
    if name is None or not losses or not len(held_out) or run.step <= run.num_warmup:
        return
    height, accuracy = min(losses.values()) / run.facts.unigram_loss, float(held_out[-3:].mean())
    # All evaluations use the same examples: averaging does not reduce the error.
    error = 0.5 / math.sqrt(run.facts.num_asked or run.settings.held_out.num_examples)
    train = read_curve(run.recent, f"{name}_accuracy").values
    train_accuracy = float(train.mean()) if len(train) else 0.0
    is_learned = train_accuracy >= 0.55 and accuracy > train_accuracy - 2 * error
    is_early = height >= _PLATEAU and run.step <= 10_000 and not run.is_finished
    if accuracy > 0.5 + 2 * error or is_learned or is_early:
        return
    values: dict[str, Value] = {f"held_out_{name}_accuracy": accuracy, "standard_error": error}
    values |= {f"train_{name}_accuracy": train_accuracy, "word_loss_to_unigram_loss": height}
    title = f"{name} accuracy is at chance"
    if height >= (_PLATEAU if run.is_finished else 0.85):
        hint = "Wait until the MLM loss is well below the unigram loss: pairs are learned later."
        yield Finding("stuck", "note", title, values, hint)
        return
    longer = run.format_new(f"num_steps={2 * run.num_steps}")
    hint = (
        f"Check that documents have several sentences in order: `albert corpus show {run.facts.data} "
        f"--example 0`. Then train longer: `{longer}`"
    )
    yield Finding("stuck", "warning", title, values, hint)


# Lowest, best and highest peak learning rate at a number of tokens per step. They scale with the square root
# of that number, up to the last factor. LAMB: section 4.1 of the paper. The others: measured on small models.
_LEARNING_RATES = {
    "lamb": (0.00176, 0.00176, 0.00176, 4096 * 512, math.inf),
    "adamw": (1e-4, 1e-3, 3e-3, 8192, 2.0),
    "muon": (5e-4, 4e-3, 7e-3, 2048, 1.0),
}


def scale_learning_rates(optimizer: str, tokens_per_step: int) -> tuple[float, float, float] | None:
    """Return the lowest, best and highest learning rate known to work; None for other optimizers."""
    if optimizer not in _LEARNING_RATES:
        return None
    low, best, high, tokens, max_factor = _LEARNING_RATES[optimizer]
    factor = min(math.sqrt(tokens_per_step / tokens), max_factor)
    return low * factor, best * factor, high * factor


def _count_step_tokens(run: PretrainRun) -> int:
    return run.settings.batch_size * run.settings.examples.max_length


def check_learning_rate(run: PretrainRun) -> Iterator[Finding]:
    """Find a peak learning rate more than four times outside of those known to work."""
    name, rate = run.settings.optimizer.name, run.settings.optimizer.learning_rate
    tokens = _count_step_tokens(run)
    rates = scale_learning_rates(name, tokens)
    if rates is None:
        return
    low, best, high = rates
    factor, side = max((low / rate, "low"), (rate / high, "high"))
    if factor > 4.0 and (side == "high" or run.settings.init_from is None):
        values: dict[str, Value] = {"learning_rate": rate, "pieces_a_step": tokens, "times_outside": factor}
        values |= {"lowest": low, "highest": high}
        title = f"the learning rate is too {side} for {name} with {tokens:,} tokens per step"
        hint = f"Start a new run: `{run.format_new(f'optimizer.learning_rate={best:.2g}')}`"
        yield Finding("stuck", "warning", title, values, hint)


def check_divergence(run: Run) -> Iterator[Finding]:
    """Find a rising training loss and skipped steps in the current stage."""
    start = max(run.stage_step, run.num_warmup)
    trend = run.fit_trend("loss", start=start)
    direction = trend.direction if trend is not None else 0
    skips = [record for record in run.list_records("skip") if record["step"] > 0.75 * run.step]
    signs = {
        "stopped after too many skipped steps": run.is_stopped,
        "the training loss rises": direction > 0,
        "steps were skipped": bool(skips),
    }
    found = [title for title, is_there in signs.items() if is_there]
    if not found:
        return
    values: dict[str, Value] = {"steps_left_out": len(skips)}
    values |= {} if trend is None else _describe(trend)
    if skips:
        values["last_left_out"] = f"step {skips[-1]['step']}, {skips[-1].get('reason', '')}"
    if found == ["steps were skipped"] and len(skips) < 3:
        hint = "No action needed while they are few: skipped steps do not change the weights."
        yield Finding("stuck", "note", found[0], values, hint)
        return
    command = run.format_new(
        f"optimizer.learning_rate={0.5 * run.settings.optimizer.learning_rate:.3g}",
        f"schedule.warmup_steps={max(2 * run.num_warmup, run.num_steps // 20)}",
        "schedule.warmup_share=null",
    )
    severity: Severity = "serious" if run.is_stopped or direction > 0 else "warning"
    hint = f"Start a new run with half the learning rate and a longer warm-up: `{command}`"
    yield Finding("stuck", severity, f"diverging: {', '.join(found)}", values, hint)


def check_held_out(run: PretrainRun) -> Iterator[Finding]:
    """Find overfitting, and held-out text that differs in kind from the training text."""
    held_out, train = run.held_out_curve("mlm_loss"), run.train_curve("mlm_loss")
    held_out = held_out.between(run.stage_step, run.step)
    if len(held_out) < 2 or not len(now := train.between(held_out.steps[-2], held_out.steps[-1]).values):
        return
    best = int(held_out.values.argmin())
    step, least, latest = int(held_out.steps[best]), float(held_out.values[best]), float(held_out.values[-1])
    before = train.between(held_out.steps[best - 1] if best else run.stage_step, step).values
    values: dict[str, Value] = {"held_out_mlm_loss": latest, "train_mlm_loss": float(now.mean())}
    values["epochs_seen"] = run.num_epochs
    if latest >= 1.02 * least:
        if 4 <= len(held_out) > best + 2 and len(before) and now.mean() < before.mean():
            values |= {"best_held_out_mlm_loss": least, "best_step": step, "pieces": run.facts.num_pieces}
            values["train_mlm_loss_at_best_step"] = float(before.mean())
            hint = (
                f"Use more text (this was seen {run.num_epochs:.1f} times), or fewer steps: "
                f"`{run.format_new(f'num_steps={step}')}`. The best model is in {run.path / BEST_DIR}."
            )
            yield Finding("stuck", "warning", f"overfitting since step {step:,}", values, hint)
        return
    model, is_intended = run.settings.model, run.settings.held_out.data is not None
    length = run.settings.build_curriculum(model).find(run.step - 1).length if model else 0
    if run.num_epochs <= 2 and length == run.settings.examples.max_length and latest >= 1.1 * now.mean():
        hint = (
            "By default the end of the corpus is held out: if its files are sorted, the last of them. "
            f"Hold out a corpus of all kinds: `{run.format_new('held_out.data=DIR')}`"
        )
        title = "the held-out text differs from the training text"
        yield Finding("stuck", "note" if is_intended else "warning", title, values, hint)


# Fine-tuning that does not learn, or overfits.


def check_score(run: FinetuneRun) -> Iterator[Finding]:
    """Compare the dev scores with those of a constant prediction, and the latest one with the best."""
    scores, losses, guess = run.held_out_curve("score"), run.train_curve("loss"), run.facts.guess
    if len(scores) < 3 or not len(losses):
        return
    index = int(scores.values.argmax())
    step, best, latest = int(scores.steps[index]), float(scores.values[index]), float(scores.values[-1])
    margin = 100.0 / math.sqrt(max(1, run.facts.num_dev))  # two standard errors
    num_steps, loss = run.settings.num_steps, float(losses.values[-3:].mean())
    longer = f"num_steps={2 * num_steps}" if num_steps else f"num_epochs={2 * run.settings.num_epochs:g}"
    is_late = run.is_finished or run.step >= 0.5 * run.num_steps
    if guess is not None and is_late and best <= guess + margin:
        values: dict[str, Value] = {"best_score": best, "score_of_guessing": guess, "margin": margin}
        values |= {"first_train_loss": float(losses.values[0]), "train_loss": loss}
        rate = run.settings.optimizer.learning_rate
        hint = (
            "Check that the text and label columns belong together. If all predictions are the same, lower "
            f"the learning rate: `{run.format_new(f'optimizer.learning_rate={rate / 3:.2g}')}`. If the "
            f"training loss has hardly moved, use {3 * rate:.2g}, or train longer: {longer}"
        )
        if loss < 0.97 * losses.values[0]:
            hint = (
                "The training loss falls but the model does not generalize: use more examples than "
                f"{run.facts.num_train:,}, a larger model than {run.facts.model}, or one that was "
                "fine-tuned on a larger similar task."
            )
        title = "the dev score is not better than that of a constant prediction"
        yield Finding("stuck", "serious" if run.is_finished else "warning", title, values, hint)
        return
    before, after = losses.between(0, step).values, losses.between(step, run.step).values
    is_memorized = len(before) and len(after) and after[-1] < 0.9 * before[-1]
    if is_memorized and index < len(scores) - 2 and latest <= best - margin:
        values = {"best_score": best, "best_step": step, "latest_score": latest}
        values |= {"train_loss_then": float(before[-1]), "train_loss": float(after[-1])}
        hint = (
            f"{run.path / MODEL_DIR} of the finished run holds the weights of step {step}. To stop earlier: "
            f"`{run.format_new('patience=3')}`; or add dropout=0.1"
        )
        yield Finding("stuck", "note", f"overfitting since step {step:,}", values, hint)
    earlier = float(scores.values[: -(len(scores) // 3)].max())
    if run.is_finished and len(scores) > 3 and latest >= earlier + margin:
        values = {"latest_score": latest, "best_before": earlier}
        hint = f"Train longer: `{run.format_new(longer)}`"
        yield Finding("stuck", "note", "the dev score was still rising at the end", values, hint)


# Slow.


def check_time(run: AnyRun) -> Iterator[Finding]:
    """Find parts of a run that take a large share of its time."""
    kinds = ("train", "evaluate", "save")
    seconds = {kind: sum(record.get("seconds") or 0.0 for record in run.list_records(kind)) for kind in kinds}
    total = max(sum(seconds.values()), 1e-9)
    waiting, limit = "Find other processes with `top`.", 0.4
    if isinstance(run, PretrainRun):
        command = run.format_resume(f"num_workers={run.settings.num_workers + 1}")
        waiting, limit = f"Stop the run and resume it with one more data loader: `{command}`", 0.15
    rarer = run.format_new(f"num_evaluations={max(1, run.settings.num_evaluations // 2)}")
    saving = run.format_resume(f"save_minutes={3 * run.settings.save_minutes:g}")
    shares = {
        "waiting_for_data": (_share(run, "waited_seconds"), 0.1, waiting),
        "evaluation": (seconds["evaluate"] / total, limit, f"Evaluate less often: `{rarer}`"),
        "saving": (seconds["save"] / total, 0.1, f"Save less often, or to a faster disk: `{saving}`"),
    }
    for name, (share, most, hint) in shares.items():
        if share > most:
            values = {f"{name}_share": share, **_measure_shares(run), "limit_share": most}
            title = f"{name.replace('_', ' ')} takes much of the time"
            yield Finding("slow", "warning", title, values, hint)


def _measure_shares(run: Run) -> dict[str, float]:
    return {f"{part}_share": _share(run, f"{part}_seconds") for part in ("model", "optimizer")}


def _share(run: Run, key: str) -> float:
    total = sum(record.get("seconds") or 0.0 for record in run.recent)
    return float(sum(record.get(key) or 0.0 for record in run.recent) / max(total, 1e-9))


def check_contention(run: Run) -> Iterator[Finding]:
    """Compare the threads and the load with the number of cores."""
    start = run.last_start
    cores: int = start.get("cores") or count_cores()
    threads: int = start.get("threads") or cores
    # torch counts two hardware threads as one core; several processes share the cores.
    is_right = threads <= cores <= 2 * threads or start.get("processes", 1) > 1
    if not is_right and run.settings.runtime.device in ("auto", "cpu"):
        hint = f"Use as many threads as cores: `export OMP_NUM_THREADS={cores}`"
        title = f"{threads} threads on {cores} cores"
        values: dict[str, Value] = {"threads": threads, "cores": cores}
        yield Finding("slow", "warning" if threads > cores else "note", title, values, hint)
    loads = read_curve(run.recent, "load").values
    cores = max(count_cores(), start.get("threads", 1))  # it may have run on a larger machine
    if len(loads) and np.median(loads) > 1.25 * cores + 0.5:
        values = {"load": float(np.median(loads)), "cores": cores}
        hint = "Find them with `top` and run one after the other."
        yield Finding("slow", "warning", "other processes use the same cores", values, hint)


def check_memory(run: AnyRun) -> Iterator[Finding]:
    """Find swapping."""
    swap = float(read_curve(run.recent, "swap_mb").values.max(initial=0.0))
    faults = np.diff(read_curve(run.recent, "major_faults").values)
    seconds = max(sum(record.get("seconds") or 0.0 for record in run.recent[1:]), 1e-9)
    rate = float(faults.clip(min=0).sum()) / seconds  # the counter restarts with each process
    if swap >= 1.0 or rate > 10.0:
        peak = float(read_curve(run.recent, "peak_mb").values.max(initial=0.0))
        values: dict[str, Value] = {"swapped_mb": swap, "pages_from_disk_a_second": rate, "peak_mb": peak}
        change = f"micro_batch_tokens={max(1, run.settings.micro_batch_tokens // 2)}"
        hint = f"Close other programs, or use less memory: `{run.format_new(change)}`"
        severity: Severity = "warning" if rate > 10.0 else "note"
        yield Finding("slow", severity, "memory is short: the run is partly swapped out", values, hint)


CHECKS: tuple[Callable[[AnyRun], Iterator[Finding]], ...] = (
    check_checkpoints, check_model, check_end, check_divergence, check_time, check_contention, check_memory,
)  # fmt: skip
PRETRAIN_CHECKS: tuple[Callable[[PretrainRun], Iterator[Finding]], ...] = (
    check_corpus, check_mlm_loss, check_pairs, check_learning_rate, check_held_out,
)  # fmt: skip
