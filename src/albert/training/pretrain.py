"""Pretraining: a recipe and a prepared corpus come in; a run folder with a model in it goes out."""

import copy
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from albert.errors import InputError
from albert.examples.batches import PretrainingBatch
from albert.files import hold
from albert.model.albert_model import AlbertModel
from albert.model.runtime import autocast, select_device
from albert.pretrained.folder import save_model
from albert.reporting import Reporter, Silence
from albert.training.budget import parse_duration
from albert.training.checkpoints import CheckpointFolder
from albert.training.evaluation import build_held_out_source, find_unigram_loss
from albert.training.loop import LoopOutcome, TrainingLoop
from albert.training.optimizers import build_optimizer
from albert.training.pretrain_data import PretrainData, open_data
from albert.training.pretrain_job import PretrainJob
from albert.training.pretrain_model import build_pretrain_model, format_training_card, resolve_model
from albert.training.recipes import read_recipe
from albert.training.run_folder import (
    BEST_DIR,
    CHECKPOINTS_DIR,
    LOCK_NAME,
    MODEL_DIR,
    RunFacts,
    find_change,
    has_run,
    identify_corpus,
    read_run,
    refuse_strangers,
    write_run,
)
from albert.training.settings import PretrainSettings
from albert.training.timing import freeze_steps

# What may differ when a run goes on: it changes no weight.
_FREE = frozenset(
    {"num_steps", "log_every", "save_minutes", "num_checkpoints", "has_tensorboard", "num_workers"}
)


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
    autocast(select_device(settings.runtime.device), settings.runtime.precision)  # refused now, if at all
    if not has_run(run_dir):
        refuse_strangers(run_dir)
    elif not resume:
        raise InputError(
            f"{run_dir}: holds a run already; add --resume to go on with it, or choose another --out"
        )
    busy = f"{run_dir}: another process is training there; wait for it, or choose another --out"
    with hold(run_dir / LOCK_NAME, busy=busy):
        found = open_data(Path(data), settings.held_out)
        if has_run(run_dir):
            settings, facts = _take_up(run_dir, settings, found)
        else:
            settings, facts = _begin(run_dir, settings, found, budget, began, reporter)
        return _run(run_dir, settings, facts, found, reporter)


def _take_up(run_dir: Path, asked: PretrainSettings, data: PretrainData) -> tuple[PretrainSettings, RunFacts]:
    """The settings that the run began with, after checking that nothing else is asked for now."""
    settings, facts = read_run(run_dir)
    asked = resolve_model(asked, data.tokenizer)
    before, after = (
        {key: value for key, value in dumped.model_dump(mode="json").items() if key not in _FREE}
        for dumped in (settings, asked)
    )
    change = find_change(before, after)
    if change is not None:
        raise InputError(
            f"{run_dir}: {change}; a run goes on as it began. Leave the change out, or start a new run "
            f"with init_from={run_dir / MODEL_DIR}"
        )
    if facts.corpus != identify_corpus(data.whole):
        raise InputError(
            f"{data.whole.folder}: is not the corpus that this run began with ({facts.data}); give that one"
        )
    free = {key: getattr(asked, key) for key in _FREE if key != "num_steps"}
    return settings.model_copy(update=free), facts


def _begin(
    run_dir: Path,
    settings: PretrainSettings,
    data: PretrainData,
    budget: str | None,
    began: float,
    reporter: Reporter,
) -> tuple[PretrainSettings, RunFacts]:
    settings = resolve_model(settings, data.tokenizer)
    seconds = None
    if budget is not None:
        seconds = parse_duration(budget)
        settings = freeze_steps(settings, data, seconds, began, reporter)
    PretrainJob(build_pretrain_model(settings, data.tokenizer), settings, data).check()
    source = build_held_out_source(
        data.held_out, data.tokenizer, settings.examples, objective=settings.examples.objective
    )
    facts = RunFacts(
        data=str(data.whole.folder.resolve()),
        corpus=identify_corpus(data.whole),
        num_pieces=data.train.num_pieces,
        vocabulary=data.tokenizer.fingerprint,
        unigram_loss=find_unigram_loss(data.train, source, num_examples=settings.held_out.num_examples),
        num_threads=torch.get_num_threads(),
        budget_seconds=seconds,
    )
    write_run(run_dir, settings, facts)
    return settings, facts


def _run(
    run_dir: Path, settings: PretrainSettings, facts: RunFacts, data: PretrainData, reporter: Reporter
) -> PretrainResult:
    device = select_device(settings.runtime.device)
    model = build_pretrain_model(settings, data.tokenizer).to(device)
    if settings.is_compiled:
        model.encoder.compile(dynamic=True)
    optimizer = build_optimizer(model, settings.optimizer)
    loop: TrainingLoop[PretrainingBatch] = TrainingLoop(
        PretrainJob(model, settings, data),
        model=model,
        optimizer=optimizer,
        settings=settings,
        run_dir=run_dir,
        seed=settings.seed,
        reporter=reporter,
        autocast=partial(autocast, device, settings.runtime.precision),
    )
    checkpoints = CheckpointFolder(run_dir / CHECKPOINTS_DIR)
    checkpoints.sweep()
    newest = checkpoints.load_newest(say=reporter.say)
    if newest is not None:
        loop.restore(newest)
        reporter.say(f"goes on at step {newest.step:,} of {settings.num_steps:,}")
    elif checkpoints.list_steps():
        reporter.say("no checkpoint is whole: begins again, from the beginning")
    outcome = loop.run()
    model_dir = _write_models(run_dir, model, settings, facts, data, outcome) if outcome.is_finished else None
    return PretrainResult(run_dir, settings, outcome, model_dir)


def _write_models(
    run_dir: Path,
    model: AlbertModel,
    settings: PretrainSettings,
    facts: RunFacts,
    data: PretrainData,
    outcome: LoopOutcome,
) -> Path:
    """The model of the last step; and the best one apart where that is another."""
    card = format_training_card(model, settings, facts, outcome.progress)
    save_model(run_dir / MODEL_DIR, model.cpu().eval(), tokenizer=data.tokenizer, card=card)
    best = outcome.progress.best_step
    if best is not None and best != outcome.progress.step:
        tensors = CheckpointFolder(run_dir / CHECKPOINTS_DIR).load(best).tensors
        other = copy.deepcopy(model)
        other.load_state_dict({name: tensors[f"model.{name}"] for name in other.state_dict()})
        save_model(run_dir / BEST_DIR, other, tokenizer=data.tokenizer, card=card)
    return run_dir / MODEL_DIR
