"""Pretraining: a recipe and a prepared corpus come in; a run folder with a model in it goes out."""

import copy
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from albert.errors import AlbertError, InputError
from albert.examples.batches import PretrainingBatch
from albert.files import hold
from albert.model.albert_model import AlbertModel
from albert.pretrained.folder import save_model
from albert.reporting import Reporter, Silence
from albert.training.checkpoints import CheckpointFolder
from albert.training.loop import LoopOutcome, TrainingLoop
from albert.training.optimizers import build_optimizer
from albert.training.pretrain_data import PretrainData, open_data
from albert.training.pretrain_job import PretrainJob
from albert.training.pretrain_model import build_autocast, build_pretrain_model, format_training_card
from albert.training.recipes import read_recipe
from albert.training.run_folder import (
    BEST_DIR,
    CHECKPOINTS_DIR,
    LOCK_NAME,
    MODEL_DIR,
    RunFacts,
    has_run,
    refuse_strangers,
)
from albert.training.settings import PretrainSettings
from albert.training.start import begin_run, take_up_run


@dataclass(frozen=True)
class PretrainResult:
    """How a run ended, and the folder of its model if it was finished."""

    run_dir: Path
    settings: PretrainSettings
    outcome: LoopOutcome
    model_dir: Path | None


def pretrain(
    recipe: str | Path,
    *,
    data: str | Path,
    out: str | Path,
    overrides: Iterable[str] = (),
    batch_size: int | None = None,
    budget: str | None = None,
    resume: bool = False,
    reporter: Reporter | None = None,
) -> PretrainResult:
    """Train a model by a recipe on a prepared corpus; stopped anywhere, `resume` goes on exactly.

    Refused: a folder with another run, a corpus of another vocabulary or smaller than a batch, and on
    resuming other settings or another corpus.
    """
    reporter = reporter or Silence()
    run_dir, began = Path(out), time.monotonic()
    settings = read_recipe(recipe, overrides=overrides, batch_size=batch_size)
    build_autocast(settings.runtime)  # refused now, if at all
    if not has_run(run_dir):
        refuse_strangers(run_dir)
    elif not resume:
        raise InputError(
            f"{run_dir}: holds a run already; add --resume to go on with it, or choose another --out"
        )
    busy = f"{run_dir}: another process is training there; wait for it, or choose another --out"
    with hold(run_dir / LOCK_NAME, busy=busy):
        found = open_data(Path(data), settings.held_out, objective=settings.examples.objective)
        if has_run(run_dir):
            settings, facts = take_up_run(run_dir, settings, found, budget=budget, reporter=reporter)
        else:
            settings, facts = begin_run(
                run_dir, settings, found, budget=budget, began=began, reporter=reporter
            )
        return _run(run_dir, settings, facts, found, reporter)


def _run(
    run_dir: Path, settings: PretrainSettings, facts: RunFacts, data: PretrainData, reporter: Reporter
) -> PretrainResult:
    checkpoints = CheckpointFolder(run_dir / CHECKPOINTS_DIR)
    checkpoints.sweep()
    newest = checkpoints.load_newest(say=reporter.say)
    model = build_pretrain_model(settings, data.tokenizer, is_resumed=newest is not None)
    loop: TrainingLoop[PretrainingBatch] = TrainingLoop(
        PretrainJob(model, settings, data),
        model=model,
        optimizer=build_optimizer(model, settings.optimizer),
        settings=settings,
        run_dir=run_dir,
        seed=settings.seed,
        reporter=reporter,
        autocast=build_autocast(settings.runtime),
    )
    if newest is not None:
        loop.restore(newest)
        reporter.say(f"goes on at step {newest.step:,} of {settings.num_steps:,}")
    elif checkpoints.list_steps():
        reporter.say("no checkpoint is whole: begins again, from the beginning")
    outcome = loop.run()
    model_dir = None
    if outcome.is_finished:
        model_dir = _write_models(run_dir, model, settings, facts, data, outcome, reporter)
    return PretrainResult(run_dir, settings, outcome, model_dir)


def _write_models(
    run_dir: Path,
    model: AlbertModel,
    settings: PretrainSettings,
    facts: RunFacts,
    data: PretrainData,
    outcome: LoopOutcome,
    reporter: Reporter,
) -> Path:
    """The model of the last step; and the best one apart where that is another."""
    card = format_training_card(model, settings, facts, outcome.progress)
    save_model(run_dir / MODEL_DIR, model.cpu().eval(), tokenizer=data.tokenizer, card=card)
    best = outcome.progress.best_step
    if best is not None and best != outcome.progress.step:
        try:
            tensors = CheckpointFolder(run_dir / CHECKPOINTS_DIR).load(best).tensors
        except AlbertError as error:
            reporter.say(f"{error}; the model of the best evaluation, step {best}, is lost")
            return run_dir / MODEL_DIR
        other = copy.deepcopy(model)
        other.load_state_dict({name: tensors[f"model.{name}"] for name in other.state_dict()})
        save_model(run_dir / BEST_DIR, other, tokenizer=data.tokenizer, card=card)
    return run_dir / MODEL_DIR
