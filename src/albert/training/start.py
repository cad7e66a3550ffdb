"""How a run begins or is taken up: what is asked for comes in, and is checked or written down."""

from pathlib import Path

import torch

from albert.errors import EchoError, InputError
from albert.reporting import Reporter
from albert.training.budget import parse_duration
from albert.training.evaluation import count_asked, find_unigram_loss
from albert.training.launch import run_on_main
from albert.training.pretrain_data import PretrainData
from albert.training.pretrain_facts import PretrainFacts, identify_corpus, read_pretrain_run
from albert.training.pretrain_job import PretrainJob
from albert.training.pretrain_model import build_pretrain_model, change_shape, resolve_model
from albert.training.run_folder import FREE_KEYS, MODEL_DIR, has_run, refuse_changes, write_run
from albert.training.settings import PretrainSettings
from albert.training.timing import freeze_steps, share_warmup
from albert.training.world import World

# What may differ when a run goes on. The number of steps stays what it was.
_FREE = FREE_KEYS | {"num_steps", "num_workers"}
_MANY_DROPPED = 0.1


def start_run(
    run_dir: Path,
    settings: PretrainSettings,
    data: PretrainData,
    *,
    budget: str | None,
    began: float,
    reporter: Reporter,
    world: World,
) -> None:
    """Begin the run, or check that the one in the folder is what is asked for; every process calls this."""
    _refuse_other_copies(data, world)
    # Only the first looks: on a file system of a network, another would remember that it saw nothing there.
    if world.gather(has_run(run_dir) if world.is_main else None)[0]:
        run_on_main(world, lambda: _check_run(run_dir, settings, data, budget=budget, reporter=reporter))
        return
    seconds = None if budget is None else parse_duration(budget)
    settings = resolve_model(resolve_path(settings), data.tokenizer)
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


def _refuse_other_copies(data: PretrainData, world: World) -> None:
    """Each machine may have a copy of the corpus on its own disk, and must not have another corpus there."""
    found = world.gather((identify_corpus(data.whole), identify_corpus(data.held_out)))
    for rank, copies in enumerate(found):
        for corpus, other, first in zip((data.whole, data.held_out), copies, found[0], strict=True):
            if other != first:
                told = (
                    f"{corpus.name}: process {rank} of {world.size} has another corpus there than the first; "
                    "give all of them the same one"
                )
                raise InputError(told) if world.is_main else EchoError(told)


def _begin_run(
    run_dir: Path,
    settings: PretrainSettings,
    data: PretrainData,
    *,
    seconds: float | None,
    recipe_steps: int,
    reporter: Reporter,
) -> None:
    """Check everything and write the run down; its files come last."""
    job = PretrainJob(build_pretrain_model(settings), settings, data)
    dropped = job.check()
    if dropped > _MANY_DROPPED:
        reporter.say(
            f"{dropped:.0%} of the examples are left out: their documents are of a single sentence, and the "
            f"objective {settings.examples.objective} needs two"
        )
    source = job.build_held_out(settings.examples.objective)
    facts = PretrainFacts(
        data=data.whole.place,
        corpus=identify_corpus(data.whole),
        held_out=identify_corpus(data.held_out),
        num_pieces=data.train.num_pieces,
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
    """Check that nothing else is asked for now than when the run began."""
    settings, facts = read_pretrain_run(run_dir)
    refuse_changes(
        run_dir,
        settings,
        asked=_resolve_like(settings, asked, facts, data),
        free=_FREE,
        cure=f"start a new run{_name_start(run_dir / MODEL_DIR)}",
    )
    for corpus, known in ((data.whole, facts.corpus), (data.held_out, facts.held_out)):
        if identify_corpus(corpus) != known:
            raise InputError(
                f"{corpus.name}: is not the corpus that this run began with ({facts.data}); give that one"
            )
    if budget is not None or (facts.budget_seconds is None and asked.num_steps != settings.num_steps):
        reporter.say(f"the run was begun with {settings.num_steps:,} steps and keeps them")


def _name_start(model_dir: Path) -> str:
    """How to begin with what was learned, if a model was written."""
    return f" with init_from={model_dir}" if model_dir.exists() else " in another --out"


def keep_free(settings: PretrainSettings, asked: PretrainSettings) -> PretrainSettings:
    """The settings of a run with those of now that change no weight."""
    free = {key: getattr(asked, key) for key in _FREE if key != "num_steps"}
    return _move_held_out(settings, asked).model_copy(update=free)


def _move_held_out(settings: PretrainSettings, other: PretrainSettings) -> PretrainSettings:
    """The same with the other's place of held-out text: it is by its contents that it must stay the same."""
    if settings.held_out.data is None or other.held_out.data is None:
        return settings
    moved = settings.held_out.model_copy(update={"data": other.held_out.data})
    return settings.model_copy(update={"held_out": moved})


def resolve_path(settings: PretrainSettings) -> PretrainSettings:
    """The same with `init_from`, where it is a path, as one that holds wherever the run goes on from."""
    source = settings.init_from
    if source is None or not Path(source).exists():
        return settings
    return settings.model_copy(update={"init_from": str(Path(source).resolve())})


def _resolve_like(
    settings: PretrainSettings, asked: PretrainSettings, facts: PretrainFacts, data: PretrainData
) -> PretrainSettings:
    """What is asked for now, resolved as it was at the beginning."""
    asked = _move_held_out(asked, settings)
    if facts.budget_seconds is not None:
        # Of the steps that the recipe had then: how many are asked for now does not count.
        num_steps = facts.recipe_steps or asked.num_steps
        asked = share_warmup(asked.model_copy(update={"num_steps": num_steps}))
    if asked.init_from is None:
        return resolve_model(asked, data.tokenizer)
    # The folder may be gone by now: the run has its own weights.
    is_same = str(Path(asked.init_from).resolve()) == settings.init_from
    asked = asked.model_copy(update={"init_from": settings.init_from}) if is_same else resolve_path(asked)
    assert settings.model is not None, "a begun run knows its shape"
    return asked.model_copy(update={"model": change_shape(settings.model, asked.model)})
