"""Pretraining: a recipe and a prepared corpus come in; a run folder with a model in it goes out."""

import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from albert.files import writing_to
from albert.model.runtime import RuntimeSettings, build_autocast
from albert.pretrained.folder import save_model
from albert.reporting import Reporter, Silence
from albert.training.claim import claim_run
from albert.training.job import LoopOutcome
from albert.training.launch import list_launchers, open_world, run_on_main
from albert.training.pretrain_data import PretrainData, open_data
from albert.training.pretrain_facts import PretrainFacts, read_pretrain_run
from albert.training.pretrain_job import PretrainJob
from albert.training.pretrain_model import build_pretrain_model, format_training_card
from albert.training.recipes import read_recipe
from albert.training.run_folder import BEST_DIR, MODEL_DIR, STEPS_ARE_SAVED
from albert.training.run_job import fetch_weights, load_best, load_newest, run_job
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

    `recipe` is a name, as in nano, or a YAML file; `overrides` change its settings (`PretrainSettings`).
    `batch_size` takes another one and fits learning rate, warm-up and number of steps to it; `budget`, as in
    90m or 2h, makes the number of steps what fits into that time. `data` is what `albert corpus prepare`
    wrote. `out` becomes the folder of the run, which `load` opens. A `reporter` hears how far it is. Refused:
    a folder with another run, a corpus of another vocabulary or smaller than a batch, and on resuming other
    settings or another corpus.

    >>> done = albert.pretrain("nano", data="corpus", out="run", overrides=["num_steps=2"])  # a trial
    >>> print(done.outcome.progress.figures["mlm_loss"])
    >>> model = albert.load("run")
    """
    began = time.monotonic()
    settings = read_recipe(recipe, overrides=overrides, batch_size=batch_size)
    build_autocast(settings.runtime)  # refused now, if at all
    run_dir = Path(out)
    with open_world(settings.strategy, settings.runtime.device) as world, ExitStack() as held:
        reporter = reporter if reporter is not None and world.is_main else Silence()
        launchers = list_launchers(world)
        run_on_main(world, lambda: held.enter_context(claim_run(run_dir, resume=resume, launchers=launchers)))
        objective = settings.examples.objective
        found = open_data(
            data, settings.held_out, objective=objective, share=settings.data_share, reporter=reporter
        )
        start_run(run_dir, settings, found, budget=budget, began=began, reporter=reporter, world=world)
        # The first process wrote it, and on a file system of a network another may not see it yet.
        begun, facts = world.gather(read_pretrain_run(run_dir) if world.is_main else None)[0]
        return _run(run_dir, keep_free(begun, settings), facts, found, reporter, world)


def _run(
    run_dir: Path,
    settings: PretrainSettings,
    facts: PretrainFacts,
    data: PretrainData,
    reporter: Reporter,
    world: World,
) -> PretrainResult:
    newest = load_newest(run_dir, reporter=reporter, world=world)
    model = build_pretrain_model(settings, is_resumed=newest is not None)
    job = PretrainJob(model, settings, data, world)
    outcome = run_job(job, run_dir=run_dir, newest=newest, reporter=reporter, world=world)
    if not outcome.is_finished:
        return PretrainResult(run_dir, settings, outcome, None, world.is_main)
    state = fetch_weights(model, world)
    run_on_main(world, lambda: _write_models(run_dir, state, settings, facts, data, outcome, reporter))
    return PretrainResult(run_dir, settings, outcome, run_dir / MODEL_DIR, world.is_main)


def _write_models(
    run_dir: Path,
    state: dict[str, Tensor],
    settings: PretrainSettings,
    facts: PretrainFacts,
    data: PretrainData,
    outcome: LoopOutcome,
    reporter: Reporter,
) -> None:
    """The model of the last step; and the best one apart where that is another."""
    plain = settings.model_copy(update={"runtime": RuntimeSettings(device="cpu"), "is_compiled": False})
    model = build_pretrain_model(plain, is_resumed=True).eval()
    model.load_state_dict(state)
    card = format_training_card(model, settings, facts, outcome.progress)
    with writing_to(run_dir / MODEL_DIR, cure=STEPS_ARE_SAVED):
        save_model(run_dir / MODEL_DIR, model, tokenizer=data.tokenizer, card=card)
    best = outcome.progress.best_step
    if best is None or best == outcome.progress.step:
        return
    weights = load_best(run_dir, best, names=state, reporter=reporter)
    if weights is not None:
        model.load_state_dict(weights)
        with writing_to(run_dir / BEST_DIR, cure=STEPS_ARE_SAVED):
            save_model(run_dir / BEST_DIR, model, tokenizer=data.tokenizer, card=card)
