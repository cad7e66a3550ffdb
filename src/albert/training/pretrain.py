"""Pretraining: train a model by a recipe on a prepared corpus, in a run folder that can be resumed."""

import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from albert.errors import EchoError, InputError
from albert.files import writing_to
from albert.model.albert_model import AlbertModel
from albert.model.runtime import RuntimeSettings, build_autocast
from albert.pretrained.folder import format_card, format_rows, save_model
from albert.progress import NullReporter, Reporter, format_seconds
from albert.training.evaluation import count_asked, find_unigram_loss
from albert.training.loop import LoopOutcome, Progress, fetch_weights, load_best, load_newest, run_job
from albert.training.pretrain_job import (
    PretrainData,
    PretrainJob,
    build_pretrain_model,
    change_shape,
    open_data,
    resolve_model,
)
from albert.training.recipes import read_recipe
from albert.training.run_folder import (
    BEST_DIR,
    FREE_KEYS,
    MODEL_DIR,
    STEPS_ARE_SAVED,
    PretrainMetadata,
    claim_run,
    has_run,
    identify_corpus,
    read_pretrain_run,
    reject_changes,
    write_run,
)
from albert.training.settings import PretrainSettings
from albert.training.timing import freeze_steps, parse_duration, share_warmup
from albert.training.world import DistributedContext, open_world, run_on_main

# What may change when a run is resumed. The number of steps is ignored.
_FREE = FREE_KEYS | {"num_steps", "num_workers"}
_MANY_DROPPED = 0.1


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
    """Pretrain a model by a recipe on a prepared corpus.

    Args:
        recipe: A recipe's name, such as nano, or a YAML file.
        data: A corpus that `albert corpus prepare` wrote.
        out: The run folder, which `load` opens.
        overrides: Changes of the recipe's settings (`PretrainSettings`), as in "num_steps=100".
        batch_size: Another batch size; learning rate, warm-up and number of steps are adapted.
        budget: A time, such as 90m or 2h; the number of steps becomes what fits into it.
        resume: Continue the run in `out` exactly where it stopped; start a new one if there is none.
        reporter: Receives messages and progress.

    Returns:
        The run folder, the settings, how the run ended, and the folder of the model if it was finished.

    Raises:
        InputError: If `out` holds another run, the corpus has another vocabulary or is smaller than a batch,
            or a resumed run is given other settings or another corpus.

    >>> done = albert.pretrain("nano", data="corpus", out="run", overrides=["num_steps=2"])  # a trial
    >>> print(done.outcome.progress.figures["mlm_loss"])
    >>> model = albert.load("run")
    """
    began = time.monotonic()
    settings = read_recipe(recipe, overrides=overrides, batch_size=batch_size)
    build_autocast(settings.runtime)  # raises now, if at all
    run_dir = Path(out)
    with open_world(settings.strategy, settings.runtime.device) as world, ExitStack() as held:
        reporter = reporter if reporter is not None and world.is_main else NullReporter()
        run_on_main(world, lambda: held.enter_context(claim_run(run_dir, resume=resume)))
        found = open_data(
            data,
            settings.held_out,
            objective=settings.examples.objective,
            share=settings.data_share,
            reporter=reporter,
        )
        start_run(run_dir, settings, found, budget=budget, began=began, reporter=reporter, world=world)
        # Read by the first process, which wrote it: on a network file system others may not see it yet.
        begun, facts = world.gather(read_pretrain_run(run_dir) if world.is_main else None)[0]
        # The settings of the run, with those of now that change no weight.
        free = {key: getattr(settings, key) for key in _FREE if key != "num_steps"}
        settings = _move_held_out(begun, settings).model_copy(update=free)
        newest = load_newest(run_dir, reporter=reporter, world=world)
        model = build_pretrain_model(settings, is_resumed=newest is not None)
        job = PretrainJob(model, settings, found, world)
        outcome = run_job(job, run_dir=run_dir, newest=newest, reporter=reporter, world=world)
        if not outcome.is_finished:
            return PretrainResult(run_dir, settings, outcome, None, world.is_main)
        state = fetch_weights(model, world)
        run_on_main(world, lambda: _write_models(run_dir, state, settings, facts, found, outcome, reporter))
        return PretrainResult(run_dir, settings, outcome, run_dir / MODEL_DIR, world.is_main)


def start_run(
    run_dir: Path,
    settings: PretrainSettings,
    data: PretrainData,
    *,
    budget: str | None,
    began: float,
    reporter: Reporter,
    world: DistributedContext,
) -> None:
    """Start a new run, or check that the one in the folder fits; every process calls this."""
    # Each machine may have a copy of the corpus on its own disk.
    found = world.gather((identify_corpus(data.whole), identify_corpus(data.held_out)))
    for rank, copies in enumerate(found):
        for corpus, other, first in zip((data.whole, data.held_out), copies, found[0], strict=True):
            if other != first:
                told = (
                    f"{corpus.name}: process {rank} of {world.size} has another corpus there than the first; "
                    "give all of them the same one"
                )
                raise InputError(told) if world.is_main else EchoError(told)
    # Only the first process looks: on a network file system, others would cache that nothing was there.
    if world.gather(has_run(run_dir) if world.is_main else None)[0]:
        run_on_main(world, lambda: _check_run(run_dir, settings, data, budget=budget, reporter=reporter))
        return
    seconds = None if budget is None else parse_duration(budget)
    settings = resolve_model(_resolve_path(settings), data.tokenizer)
    recipe_steps = settings.num_steps
    if seconds is not None:
        settings = freeze_steps(
            settings, data, run_dir, seconds=seconds, began=began, reporter=reporter, world=world
        )
    run_on_main(
        world,
        lambda: _begin_run(
            run_dir, settings, data, seconds=seconds, recipe_steps=recipe_steps, reporter=reporter
        ),
    )


def _begin_run(
    run_dir: Path,
    settings: PretrainSettings,
    data: PretrainData,
    *,
    seconds: float | None,
    recipe_steps: int,
    reporter: Reporter,
) -> None:
    """Check everything, then write settings and metadata."""
    job = PretrainJob(build_pretrain_model(settings), settings, data)
    dropped = job.check()
    if dropped > _MANY_DROPPED:
        reporter.say(
            f"{dropped:.0%} of the examples are left out: their documents are of a single sentence, and the "
            f"objective {settings.examples.objective} needs two"
        )
    source = job.build_held_out(settings.examples.objective)
    facts = PretrainMetadata(
        data=data.whole.location,
        corpus=identify_corpus(data.whole),
        held_out=identify_corpus(data.held_out),
        num_pieces=data.train.num_tokens,
        vocabulary=data.tokenizer.fingerprint,
        num_asked=count_asked(source, num_examples=settings.held_out.num_examples),
        unigram_loss=find_unigram_loss(data.train, source, num_examples=settings.held_out.num_examples),
        num_threads=torch.get_num_threads(),
        budget_seconds=seconds,
        recipe_steps=recipe_steps,
    )
    write_run(run_dir, settings, facts)


def _check_run(
    run_dir: Path, asked: PretrainSettings, data: PretrainData, *, budget: str | None, reporter: Reporter
) -> None:
    """Raise an InputError if other settings or another corpus are given than the run was started with."""
    settings, facts = read_pretrain_run(run_dir)
    model_dir = run_dir / MODEL_DIR
    other = f"with init_from={model_dir}" if model_dir.exists() else "in another --out"
    reject_changes(
        run_dir,
        settings,
        asked=_resolve_like(settings, asked, facts, data),
        free=_FREE,
        hint=f"start a new run {other}",
    )
    for corpus, known in ((data.whole, facts.corpus), (data.held_out, facts.held_out)):
        if identify_corpus(corpus) != known:
            raise InputError(
                f"{corpus.name}: is not the corpus that this run began with ({facts.data}); give that one"
            )
    if budget is not None or (facts.budget_seconds is None and asked.num_steps != settings.num_steps):
        reporter.say(f"the run was begun with {settings.num_steps:,} steps and keeps them")


def _resolve_like(
    settings: PretrainSettings, asked: PretrainSettings, facts: PretrainMetadata, data: PretrainData
) -> PretrainSettings:
    """Resolve what is asked for now as the settings of the run were resolved."""
    asked = _move_held_out(asked, settings)
    if facts.budget_seconds is not None:
        # Warm-up is a share of the steps that the recipe had then.
        num_steps = facts.recipe_steps or asked.num_steps
        asked = share_warmup(asked.model_copy(update={"num_steps": num_steps}))
    if asked.init_from is None:
        return resolve_model(asked, data.tokenizer)
    # The folder may be gone by now: the run has its own weights.
    is_same = str(Path(asked.init_from).resolve()) == settings.init_from
    asked = asked.model_copy(update={"init_from": settings.init_from}) if is_same else _resolve_path(asked)
    assert settings.model is not None, "a begun run knows its shape"
    return asked.model_copy(update={"model": change_shape(settings.model, asked.model)})


def _resolve_path(settings: PretrainSettings) -> PretrainSettings:
    """Make `init_from` absolute, where it is a path."""
    source = settings.init_from
    if source is None or not Path(source).exists():
        return settings
    return settings.model_copy(update={"init_from": str(Path(source).resolve())})


def _move_held_out(settings: PretrainSettings, other: PretrainSettings) -> PretrainSettings:
    """Take the path of the held-out corpus from other settings; only its content must stay the same."""
    if settings.held_out.data is None or other.held_out.data is None:
        return settings
    moved = settings.held_out.model_copy(update={"data": other.held_out.data})
    return settings.model_copy(update={"held_out": moved})


def _write_models(
    run_dir: Path,
    state: dict[str, Tensor],
    settings: PretrainSettings,
    facts: PretrainMetadata,
    data: PretrainData,
    outcome: LoopOutcome,
    reporter: Reporter,
) -> None:
    """Write the model of the last step, and that of the best step if it is another one."""
    plain = settings.model_copy(update={"runtime": RuntimeSettings(device="cpu"), "is_compiled": False})
    model = build_pretrain_model(plain, is_resumed=True).eval()
    model.load_state_dict(state)
    card = _format_card(model, settings, facts, outcome.progress)
    with writing_to(run_dir / MODEL_DIR, hint=STEPS_ARE_SAVED):
        save_model(run_dir / MODEL_DIR, model, tokenizer=data.tokenizer, card=card)
    best = outcome.progress.best_step
    if best is None or best == outcome.progress.step:
        return
    weights = load_best(run_dir, best, names=state, reporter=reporter)
    if weights is not None:
        model.load_state_dict(weights)
        with writing_to(run_dir / BEST_DIR, hint=STEPS_ARE_SAVED):
            save_model(run_dir / BEST_DIR, model, tokenizer=data.tokenizer, card=card)


def _format_card(
    model: AlbertModel, settings: PretrainSettings, facts: PretrainMetadata, progress: Progress
) -> str:
    """The model card with a section about training."""
    optimizer = settings.optimizer
    rows = {
        "steps": f"{progress.step:,} of {settings.batch_size} × {settings.examples.max_length} pieces",
        "pieces seen": f"{progress.num_tokens:,}, of a corpus of {facts.num_pieces:,}",
        "objectives": f"masked words, sentence objective {settings.examples.objective}",
        "optimiser": f"{optimizer.name}, {settings.schedule.name}, peak {optimizer.learning_rate:.3g}",
        "time": f"{format_seconds(progress.seconds)} on {facts.num_threads} threads",
        "versions": ", ".join(f"{name} {version}" for name, version in facts.versions.items()),
    }
    scores = {name.replace("_", " "): f"{value:.4f}" for name, value in progress.figures.items()}
    return f"""{format_card(model).rstrip()}

## Training

{format_rows(rows)}

On held-out documents, where the mere frequency of pieces gives a loss of {facts.unigram_loss:.4f}:

{format_rows(scores)}
"""
