"""Fine-tuning: a pretrained folder, a task and its data come in; a run with a scored model goes out."""

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from albert.errors import InputError
from albert.files import writing_to
from albert.model.albert_model import AlbertModel
from albert.model.runtime import build_autocast
from albert.pretrained.folder import load_model
from albert.pretrained.hub import resolve_source
from albert.reporting import Reporter, Silence
from albert.tasks.assignment import Assignment, find_teachable, open_assignment
from albert.tasks.finetune_facts import FinetuneFacts, identify_weights, read_finetune_run
from albert.tasks.finetune_job import FinetuneJob
from albert.tasks.finetune_model import load_start
from albert.tasks.finetune_recipes import choose_recipe, read_finetune_recipe
from albert.tasks.finetune_settings import FinetuneSettings
from albert.tasks.finetune_start import build_job, complete_facts
from albert.tasks.finetuned import FinetuneScores, write_finetuned
from albert.tasks.guessing import score_guessing
from albert.tasks.kinds.kind import Kind
from albert.tasks.task_facts import TaskFacts, build_kind
from albert.tasks.vocabulary_fit import load_own_vocabulary
from albert.text.tokenizer import Tokenizer
from albert.training.loop import LoopOutcome, fetch_weights, load_newest, run_job
from albert.training.run_folder import (
    FREE_KEYS,
    MODEL_DIR,
    claim_run,
    has_run,
    refuse_changes,
    write_run,
)
from albert.training.world import World, open_world, run_on_main


@dataclass(frozen=True)
class FinetuneResult:
    """How a run ended; the folder of its model and its scores on the development set, if it was finished."""

    run_dir: Path
    settings: FinetuneSettings
    outcome: LoopOutcome
    num_steps: int
    model_dir: Path | None
    scores: FinetuneScores | None
    is_main: bool = True


@dataclass(frozen=True)
class _Start:
    """All that a run needs besides its folder."""

    source: str
    data: str
    dev: str | None
    tokenizer: Tokenizer
    settings: FinetuneSettings
    recipe: str
    assignment: Assignment
    facts: TaskFacts
    kind: Kind[Any, Any, Any, Any, Any]


def finetune(
    task: str,
    *,
    model: str | Path,
    data: str | Path,
    out: str | Path,
    dev: str | Path | None = None,
    recipe: str | Path | None = None,
    overrides: Iterable[str] = (),
    revision: str | None = None,
    resume: bool = False,
    reporter: Reporter | None = None,
) -> FinetuneResult:
    """Teach a pretrained model a task; stopped anywhere, `resume` goes on exactly.

    `task` is a published one, as in sst-2, with the folder of its files as `data`; or one of classification,
    multilabel, regression, words, questions, choice and embedding, with a table of yours. `dev` is another
    table to be asked about; without one, a share of `data` is kept for that. `recipe` is a name or a YAML
    file, chosen by the size of the model where none is given; `overrides` change its settings
    (`FinetuneSettings`). `model` is what `load` opens, of the hub in that `revision`; so is `out`, the folder
    of the run. A `reporter` hears how far it is. Refused: a folder with another run, data that cannot be
    read, a vocabulary that is not the model's, and on resuming another model, other settings or other data.

    >>> done = albert.finetune("classification", model="folder", data="reviews.csv", out="mood")
    >>> print(done.scores.score)
    >>> answers = albert.load("mood").classify(["a warm day", "a cold night"])
    >>> print(answers[0].label, answers[0].probability)
    """
    find_teachable(task)  # refused now, if at all
    run_dir, source = Path(out), resolve_source(model, revision=revision)
    config = load_model(source, heads={}).config
    tokenizer = load_own_vocabulary(source, config)
    name = str(recipe or choose_recipe(task.lower(), hidden_size=config.hidden_size))
    settings = read_finetune_recipe(name, overrides=overrides)
    build_autocast(settings.runtime)  # refused now, if at all
    with open_world(settings.strategy, settings.runtime.device) as world, ExitStack() as held:
        reporter = reporter if reporter is not None and world.is_main else Silence()
        run_on_main(world, lambda: held.enter_context(claim_run(run_dir, resume=resume)))
        assignment = open_assignment(
            task, data, dev=dev, columns=settings.columns, dev_share=settings.dev_share
        )
        for problem in assignment.problems:
            reporter.say(problem)
        facts = complete_facts(assignment, settings, limit=config.max_position_embeddings, reporter=reporter)
        start = _Start(
            source=str(source),
            data=str(data),
            dev=None if dev is None else str(dev),
            tokenizer=tokenizer,
            settings=settings,
            recipe=name,
            assignment=assignment,
            facts=facts,
            kind=build_kind(facts),
        )
        return _run(run_dir, start, reporter=reporter, world=world)


def _run(run_dir: Path, start: _Start, *, reporter: Reporter, world: World) -> FinetuneResult:
    kind, settings = start.kind, start.settings
    model = load_start(start.source, kind, settings, task=start.facts)
    facts = _describe_start(start, model)
    run_on_main(world, lambda: _check_run(run_dir, settings, facts))
    job = build_job(start.assignment, model, kind, settings, start.tokenizer, reporter=reporter, world=world)
    # Only now: examples that are refused leave nothing behind.
    run_on_main(world, lambda: _begin_run(run_dir, job, facts, start.assignment))
    newest = load_newest(run_dir, reporter=reporter, world=world)
    outcome = run_job(job, run_dir=run_dir, newest=newest, reporter=reporter, world=world)
    if not outcome.is_finished:
        return FinetuneResult(run_dir, settings, outcome, job.num_steps, None, None, world.is_main)
    state = fetch_weights(model, world)
    written = run_on_main(
        world,
        lambda: write_finetuned(
            run_dir,
            job,
            state=state,
            facts=facts,
            tokenizer=start.tokenizer,
            outcome=outcome,
            reporter=reporter,
        ),
    )
    scores = world.gather(written)[0]  # every process knows how it ended: another seed may follow
    return FinetuneResult(
        run_dir, settings, outcome, job.num_steps, run_dir / MODEL_DIR, scores, world.is_main
    )


def _describe_start(start: _Start, model: AlbertModel) -> FinetuneFacts:
    return FinetuneFacts(
        data=start.data,
        dev=start.dev,
        vocabulary=start.tokenizer.fingerprint,
        num_threads=torch.get_num_threads(),
        recipe=start.recipe,
        task=start.facts,
        model=start.source,
        weights=identify_weights(model),
        examples=start.assignment.fingerprint,
        num_train=len(start.assignment.train),
        num_dev=len(start.assignment.dev),
    )


def _begin_run(
    run_dir: Path, job: FinetuneJob[Any, Any], facts: FinetuneFacts, assignment: Assignment
) -> None:
    """Write the run down, if it is a new one."""
    if has_run(run_dir):
        return
    known = {"num_steps": job.num_steps, "guess": score_guessing(assignment)}
    with writing_to(run_dir, cure="make room, or choose another --out"):
        write_run(run_dir, job.settings, facts.model_copy(update=known))


def _check_run(run_dir: Path, settings: FinetuneSettings, facts: FinetuneFacts) -> None:
    """Check that nothing else is asked for now than when the run began, if it did."""
    if not has_run(run_dir):
        return
    begun, known = read_finetune_run(run_dir)
    # Another task or model may have another recipe, and other settings other data: causes come first.
    _refuse_other(run_dir, "task", facts.task.task, known.task.task)
    _refuse_other(run_dir, "model", facts.weights, known.weights, was=f" ({known.model})")
    refuse_changes(run_dir, begun, asked=settings, free=FREE_KEYS, cure="choose another --out")
    _refuse_other(run_dir, "vocabulary", facts.vocabulary, known.vocabulary)
    _refuse_other(run_dir, "data", facts.examples, known.examples, was=f" ({known.data})")


def _refuse_other(run_dir: Path, what: str, now: str, then: str, *, was: str = "") -> None:
    if now != then:
        raise InputError(
            f"{run_dir}: its run began with another {what}{was}; give that one, or choose another --out"
        )
