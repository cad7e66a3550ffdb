"""Pretraining: a recipe and a prepared corpus come in; a run folder with a model in it goes out."""

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from albert.errors import AlbertError, InputError
from albert.examples.batches import PretrainingBatch
from albert.files import hold
from albert.model.runtime import RuntimeSettings
from albert.pretrained.folder import save_model
from albert.reporting import Reporter, Silence
from albert.training.checkpoints import CheckpointFolder
from albert.training.launch import list_launchers, open_world, run_on_main
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
    is_same_launch,
    read_run,
    refuse_strangers,
    write_launch,
)
from albert.training.settings import PretrainSettings
from albert.training.start import keep_free, start_run
from albert.training.world import World


@dataclass(frozen=True)
class PretrainResult:
    """How a run ended, and the folder of its model if it was finished."""

    run_dir: Path
    settings: PretrainSettings
    outcome: LoopOutcome
    model_dir: Path | None
    is_main: bool = True


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
    began = time.monotonic()
    settings = read_recipe(recipe, overrides=overrides, batch_size=batch_size)
    build_autocast(settings.runtime)  # refused now, if at all
    run_dir = Path(out)
    with open_world(settings) as world, ExitStack() as held:
        reporter = reporter if reporter is not None and world.is_main else Silence()
        launchers = list_launchers(world)
        run_on_main(world, lambda: held.enter_context(_claim(run_dir, resume=resume, launchers=launchers)))
        objective = settings.examples.objective
        found = open_data(data, settings.held_out, objective=objective, reporter=reporter)
        start_run(run_dir, settings, found, budget=budget, began=began, reporter=reporter, world=world)
        begun, facts = read_run(run_dir)
        return _run(run_dir, keep_free(begun, settings), facts, found, reporter, world)


@contextmanager
def _claim(run_dir: Path, *, resume: bool, launchers: list[str]) -> Iterator[None]:
    """Keep others out of the folder of the run; refused: one of something else, or of a run already.

    Processes that torchrun has started again go on without being told to.
    """
    if not has_run(run_dir):
        refuse_strangers(run_dir)
    elif not resume and not is_same_launch(run_dir, launchers):
        raise InputError(
            f"{run_dir}: holds a run already; add --resume to go on with it, or choose another --out"
        )
    busy = f"{run_dir}: another process is training there; wait for it, or choose another --out"
    with hold(run_dir / LOCK_NAME, busy=busy):
        CheckpointFolder(run_dir / CHECKPOINTS_DIR).sweep()
        if launchers:
            write_launch(run_dir, launchers)
        yield


def _run(
    run_dir: Path,
    settings: PretrainSettings,
    facts: RunFacts,
    data: PretrainData,
    reporter: Reporter,
    world: World,
) -> PretrainResult:
    checkpoints = CheckpointFolder(run_dir / CHECKPOINTS_DIR)
    newest = checkpoints.load_newest(say=reporter.say)
    model = build_pretrain_model(settings, data.tokenizer, is_resumed=newest is not None)
    job = PretrainJob(model, settings, data, world)
    network = world.spread(job.build_network())
    loop: TrainingLoop[PretrainingBatch] = TrainingLoop(
        job,
        model=model,
        network=network,
        optimizer=build_optimizer(model, settings.optimizer),  # of the parameters as they are spread
        settings=settings,
        run_dir=run_dir,
        seed=settings.seed,
        reporter=reporter,
        autocast=build_autocast(settings.runtime),
        world=world,
    )
    if newest is not None:
        loop.restore(newest)
        reporter.say(f"goes on at step {newest.step:,} of {settings.num_steps:,}")
    elif checkpoints.list_steps():
        reporter.say("no checkpoint is whole: begins again, from the beginning")
    outcome = loop.run()
    if not outcome.is_finished:
        return PretrainResult(run_dir, settings, outcome, None, world.is_main)
    state = {name: world.fetch(tensor).cpu() for name, tensor in model.state_dict().items()}
    run_on_main(world, lambda: _write_models(run_dir, state, settings, facts, data, outcome, reporter))
    return PretrainResult(run_dir, settings, outcome, run_dir / MODEL_DIR, world.is_main)


def _write_models(
    run_dir: Path,
    state: dict[str, Tensor],
    settings: PretrainSettings,
    facts: RunFacts,
    data: PretrainData,
    outcome: LoopOutcome,
    reporter: Reporter,
) -> None:
    """The model of the last step; and the best one apart where that is another."""
    plain = settings.model_copy(update={"runtime": RuntimeSettings(device="cpu"), "is_compiled": False})
    model = build_pretrain_model(plain, data.tokenizer, is_resumed=True).eval()
    model.load_state_dict(state)
    card = format_training_card(model, settings, facts, outcome.progress)
    save_model(run_dir / MODEL_DIR, model, tokenizer=data.tokenizer, card=card)
    best = outcome.progress.best_step
    if best is None or best == outcome.progress.step:
        return
    try:
        tensors = CheckpointFolder(run_dir / CHECKPOINTS_DIR).load(best).tensors
    except AlbertError as error:
        reporter.say(f"{error}; the model of the best evaluation, step {best}, is lost")
        return
    model.load_state_dict({name: tensors[f"model.{name}"] for name in state})
    save_model(run_dir / BEST_DIR, model, tokenizer=data.tokenizer, card=card)
