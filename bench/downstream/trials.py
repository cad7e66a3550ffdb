"""Run trials; each writes a JSON file when it is finished, so that a new start continues with the rest."""

import shutil
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from albert.errors import AlbertError, InputError
from albert.files import hold, write_json, write_text
from albert.progress import Reporter, format_seconds
from albert.tasks.catalogue import PUBLISHED_TASKS
from albert.tasks.data import open_task_data
from albert.tasks.evaluate import evaluate
from albert.tasks.finetune import finetune, read_finetune_run
from albert.tasks.task import Example
from albert.training.loop import StoppedError
from albert.training.run_folder import CHECKPOINTS_DIR, has_run
from bench.baselines.score import score_baselines
from bench.downstream.experiment import Experiment, Trial
from bench.downstream.subsets import find_optional_split

_MISMATCHED = "dev-mismatched"
_MISMATCHED_NAME = "accuracy_mismatched"


def run_trials(
    trials: Sequence[Trial],
    experiment: Experiment,
    *,
    reporter: Reporter,
    seconds: Mapping[Trial, float],
    budget: float | None = None,
) -> dict[Trial, str]:
    """Run the trials without a result, in this order; return those that still have none, with the reason.

    Several processes may share the work: each takes trials that no other process runs.
    """
    began, missed = time.perf_counter(), {}
    for number, trial in enumerate(trials, start=1):
        path = experiment.find_result(trial)
        spent = time.perf_counter() - began
        if not path.exists() and budget is not None and spent + seconds.get(trial, 0.0) > budget:
            missed[trial] = "not started: over the budget"
        elif not path.exists():
            left = sum(seconds.get(each, 0.0) for each in trials[number - 1 :])
            about = f"about {format_seconds(left)} left"
            reporter.say(f"{number} of {len(trials)}: {trial.task}, {trial.name} ({about})")
            reason = _claim_and_attempt(trial, experiment, path, reporter=reporter)
            if reason is not None:
                missed[trial] = reason
                reporter.say(f"no result: {reason}; continuing with the others")
    # Another process may have finished some of them by now.
    return {trial: reason for trial, reason in missed.items() if not experiment.find_result(trial).exists()}


def _claim_and_attempt(trial: Trial, experiment: Experiment, path: Path, *, reporter: Reporter) -> str | None:
    busy = "running in another process"
    try:
        with hold(path.with_suffix(".lock"), busy=busy):
            return None if path.exists() else _attempt(trial, experiment, path, reporter=reporter)
    except InputError:  # of the lock; _attempt catches its own
        return busy


def _attempt(trial: Trial, experiment: Experiment, path: Path, *, reporter: Reporter) -> str | None:
    """Run a trial and write its result; return the reason if it fails."""
    failure = path.with_suffix(".failure.txt")
    try:
        run = _run_baselines if trial.variant == "baselines" else _run_finetuning
        result = run(trial, experiment, reporter)
    except StoppedError:
        raise
    except AlbertError as error:
        write_text(failure, f"{error}\n")
        return str(error)
    except Exception as error:  # the other trials continue
        write_text(failure, traceback.format_exc())
        return f"{type(error).__name__}: {error} ({failure})"
    write_json(path, {**asdict(trial), **result})
    failure.unlink(missing_ok=True)
    return None


def _run_baselines(trial: Trial, experiment: Experiment, reporter: Reporter) -> dict[str, Any]:
    began = time.perf_counter()
    data = open_task_data(trial.task, experiment.find_data(trial.task), dev=None, columns={}, dev_share=0.1)
    scores = score_baselines(data)
    mismatched = _read_mismatched(trial.task, experiment)
    if mismatched:
        others = score_baselines(replace(data, dev=mismatched))
        scores = {name: {**own, _MISMATCHED_NAME: others[name]["accuracy"]} for name, own in scores.items()}
    return {
        "baselines": scores,
        "num_train": len(data.train),
        "num_dev": len(data.dev),
        "seconds": time.perf_counter() - began,
    }


def _run_finetuning(trial: Trial, experiment: Experiment, reporter: Reporter) -> dict[str, Any]:
    run_dir, data = experiment.find_run(trial), experiment.find_data(trial.task)
    result = finetune(
        trial.task,
        model=experiment.find_start(trial),
        data=data,
        out=run_dir,
        overrides=("has_tensorboard=false", *experiment.list_overrides(trial.task), f"seed={trial.seed}"),
        resume=has_run(run_dir),
        reporter=reporter,
    )
    result.outcome.check_finished()
    assert result.scores is not None, "it is finished"
    assert result.model_dir is not None, "it is finished"
    metrics = dict(result.scores.metrics)
    _, metadata = read_finetune_run(run_dir)
    if _read_mismatched(trial.task, experiment):
        other = evaluate(trial.task, model=result.model_dir, data=data, split=_MISMATCHED)
        metrics[_MISMATCHED_NAME] = other.scores["accuracy"]
    shutil.rmtree(run_dir / CHECKPOINTS_DIR, ignore_errors=True)  # ten times as large as the model
    return {
        "metrics": metrics,
        "num_train": metadata.num_train,
        "num_dev": metadata.num_dev,
        "best_step": result.scores.step,
        "num_steps": result.num_steps,
        "seconds": result.outcome.progress.seconds,
        "settings": result.settings.model_dump(mode="json"),
    }


def _read_mismatched(name: str, experiment: Experiment) -> tuple[Example, ...]:
    """MNLI's second dev set, if the data has it."""
    task, data = PUBLISHED_TASKS[name], experiment.find_data(name)
    if _MISMATCHED not in task.files or find_optional_split(task, data, _MISMATCHED) is None:
        return ()
    return task.read_split(data, _MISMATCHED).examples
