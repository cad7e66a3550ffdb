"""Fine-tune a pretrained model on a task: read the data, train, score the best weights, write a folder."""

import hashlib
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from albert.errors import InputError
from albert.files import write_json, writing_to
from albert.model.albert_model import AlbertModel
from albert.model.runtime import build_autocast, select_device
from albert.pretrained.folder import NewWeightsWarning, format_card, format_rows, load_model
from albert.pretrained.hub import resolve_source
from albert.progress import NullReporter, Reporter, format_seconds
from albert.tasks.answering import ask_items
from albert.tasks.assignment import Assignment, find_teachable, open_assignment
from albert.tasks.baselines import score_majority
from albert.tasks.calibration import tune_facts
from albert.tasks.encoding.windows import MAX_QUESTION
from albert.tasks.examples import Example, TextExample, identify_examples, list_label_places
from albert.tasks.finetune_job import FinetuneJob, Renaming
from albert.tasks.finetune_settings import (
    FinetuneMetadata,
    FinetuneSettings,
    choose_recipe,
    read_finetune_recipe,
    read_finetune_run,
)
from albert.tasks.kinds.embedding import EmbeddingKind, check_dropout
from albert.tasks.kinds.kind import AnyKind
from albert.tasks.kinds.spans import SpanKind
from albert.tasks.metrics.task_score import format_figure
from albert.tasks.task_facts import TaskConfig, build_kind, read_facts
from albert.tasks.task_folder import save_finetuned
from albert.tasks.vocabulary_fit import check_known, load_own_vocabulary
from albert.text.tokenizer import Tokenizer
from albert.training.distributed import DistributedContext, open_distributed, run_on_main
from albert.training.loop import LoopOutcome, fetch_weights, load_best, load_newest, run_job
from albert.training.run_folder import (
    FREE_KEYS,
    MODEL_DIR,
    STEPS_ARE_SAVED,
    claim_run,
    has_run,
    reject_changes,
    write_run,
)

RESULT_NAME = "result.json"


@dataclass(frozen=True)
class FinetuneScores:
    """The metrics of a model on the dev set, and the step that its weights are from."""

    metrics: Mapping[str, float]
    step: int

    @property
    def score(self) -> float:
        """What the task is judged by, in points of 100."""
        return self.metrics["score"]


@dataclass(frozen=True)
class FinetuneResult:
    """How a run ended; if it finished, the folder of its model and the scores on the dev set."""

    run_dir: Path
    settings: FinetuneSettings
    outcome: LoopOutcome
    num_steps: int
    model_dir: Path | None
    scores: FinetuneScores | None
    is_main: bool = True


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
    """Fine-tune a pretrained model on a task.

    Args:
        task: A published task ("sst-2", "squad-2.0", ...) or a task type: classification, multilabel,
            regression, words, questions, choice or embedding.
        model: Folder, run, released name or hub name of the pretrained model.
        data: Task folder or table.
        out: The run folder.
        dev: A table for the dev set; by default a share of `data` is held out.
        recipe: A name or a YAML file; chosen by the width of the model by default.
        overrides: Settings to change, as in "batch_size=16" (`FinetuneSettings`).
        revision: The version of a model on the hub.
        resume: Continue an interrupted run exactly where it stopped.
        reporter: Receives progress and warnings.

    Returns:
        The run folder, the dev scores and the path of the best model.

    Raises:
        InputError: If `out` holds a different run, the data cannot be read, or the vocabularies differ.

    >>> done = albert.finetune("classification", model="folder", data="reviews.csv", out="mood")
    >>> print(done.scores.score)
    >>> answers = albert.load("mood").classify(["a warm day", "a cold night"])
    >>> print(answers[0].label, answers[0].probability)
    """
    find_teachable(task)  # reject an unknown task before anything is read
    run_dir, source = Path(out), resolve_source(model, revision=revision)
    config = load_model(source, heads={}).config
    tokenizer = load_own_vocabulary(source, config)
    name = str(recipe or choose_recipe(task.lower(), hidden_size=config.hidden_size))
    settings = read_finetune_recipe(name, overrides=overrides)
    build_autocast(settings.runtime)  # reject an unsupported precision
    with open_distributed(settings.strategy, settings.runtime.device) as world, ExitStack() as held:
        reporter = reporter if reporter is not None and world.is_main else NullReporter()
        run_on_main(world, lambda: held.enter_context(claim_run(run_dir, resume=resume)))
        assignment = open_assignment(
            task, data, dev=dev, columns=settings.columns, dev_share=settings.dev_share
        )
        for problem in assignment.problems:
            reporter.say(problem)
        facts = complete_facts(assignment, settings, limit=config.max_position_embeddings, reporter=reporter)
        kind = build_kind(facts)
        network = load_start(str(source), kind, settings, task=facts)
        known = FinetuneMetadata(
            data=str(data),
            dev=None if dev is None else str(dev),
            vocabulary=tokenizer.fingerprint,
            num_threads=torch.get_num_threads(),
            recipe=name,
            task=facts,
            model=str(source),
            weights=identify_weights(network),
            examples=assignment.fingerprint,
            num_train=len(assignment.train),
            num_dev=len(assignment.dev),
        )
        run_on_main(world, lambda: _check_run(run_dir, settings, known))
        job = _build_job(assignment, network, kind, settings, tokenizer, reporter=reporter, world=world)
        # Only now: examples that are rejected leave nothing behind.
        run_on_main(world, lambda: _begin_run(run_dir, job, known, assignment))
        newest = load_newest(run_dir, reporter=reporter, context=world)
        outcome = run_job(job, run_dir=run_dir, newest=newest, reporter=reporter, context=world)
        if not outcome.is_finished:
            return FinetuneResult(run_dir, settings, outcome, job.num_steps, None, None, world.is_main)
        state = fetch_weights(network, world)
        written = run_on_main(
            world,
            lambda: write_finetuned(
                run_dir,
                job,
                state=state,
                facts=known,
                tokenizer=tokenizer,
                outcome=outcome,
                reporter=reporter,
            ),
        )
        scores = world.gather(written)[0]  # every process knows how it ended: another seed may follow
        return FinetuneResult(
            run_dir, settings, outcome, job.num_steps, run_dir / MODEL_DIR, scores, world.is_main
        )


def complete_facts(
    assignment: Assignment, settings: FinetuneSettings, *, limit: int, reporter: Reporter
) -> TaskConfig:
    """Complete the config that the data gives with the lengths and weights of the recipe."""
    facts = assignment.facts
    weights = None
    if settings.class_weights == "balanced":
        weights = count_class_weights(assignment.train, facts)
    length = min(settings.max_length, limit)
    completed = facts.model_copy(
        update={
            **facts.fit_lengths(length),
            "class_weights": weights,
            "has_exits": settings.has_exits,
            "max_answer": settings.max_answer,
            "similarity_temperature": settings.similarity_temperature,
            "min_similarity": settings.min_similarity,
            "learned_from": (
                identify_examples(assignment.train),
                identify_examples((*assignment.train, *assignment.dev)),
            ),
            "tuned_on": identify_examples(assignment.dev),
        }
    )
    build_kind(completed)  # reject unsupported settings
    if length < settings.max_length:
        reporter.say(
            f"max_length is {length}, all the positions that the model has, not {settings.max_length}"
        )
    return completed


def count_class_weights(examples: Sequence[Example], facts: TaskConfig) -> tuple[float, ...]:
    """Balance the classes: each counts the same in total, and the mean over examples (or words) is 1."""
    if facts.kind not in ("texts", "words") or facts.label_kind != "one":
        raise InputError(
            f"class_weights=balanced for {facts.task}: only classes of which one is right can be weighed; "
            "leave it out"
        )
    counts = Counter(label for example in examples for label in list_label_places(example))
    total, num_classes = counts.total(), len(facts.labels)
    # A class without training examples has no loss to weigh.
    return tuple(
        total / (num_classes * counts[place]) if counts[place] else 1.0 for place in range(num_classes)
    )


def load_start(source: str, kind: AnyKind, settings: FinetuneSettings, *, task: TaskConfig) -> AlbertModel:
    """Load the encoder with the head of the task: the folder's, if it was trained on the same labels.

    Otherwise it is new, drawn from the seed; of a folder that does not say what it was trained on, also where
    the number of labels differs.
    """
    trained = read_facts(resolve_source(source))
    is_other = trained is not None and any(
        getattr(trained, key) != getattr(task, key) for key in ("kind", "label_kind", "labels")
    )
    dropouts = {
        "hidden_dropout_prob": settings.dropout,
        "attention_probs_dropout_prob": settings.dropout,
        "classifier_dropout_prob": settings.head_dropout,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NewWeightsWarning)  # a new head is what fine-tuning is for
        model = load_model(
            source,
            heads=kind.heads,
            seed=settings.seed,
            device=select_device(settings.runtime.device),
            gradient_checkpointing=settings.gradient_checkpointing,
            dropouts={key: value for key, value in dropouts.items() if value is not None},
            has_fresh_heads=is_other,
        ).model
    if settings.is_compiled:
        model.encoder.compile(dynamic=True)
    return model


def identify_weights(model: AlbertModel) -> str:
    """Hash the encoder; heads may be new."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.encoder.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _check_run(run_dir: Path, settings: FinetuneSettings, facts: FinetuneMetadata) -> None:
    """Reject resuming with another task, model, settings, vocabulary or data than the run began with."""
    if not has_run(run_dir):
        return
    begun, known = read_finetune_run(run_dir)

    def check(what: str, now: str, then: str, *, was: str = "") -> None:
        if now != then:
            raise InputError(
                f"{run_dir}: its run began with another {what}{was}; give that one, or choose another --out"
            )

    # Another task or model may have another recipe, and other settings other data: causes come first.
    check("task", facts.task.task, known.task.task)
    check("model", facts.weights, known.weights, was=f" ({known.model})")
    reject_changes(run_dir, begun, asked=settings, free=FREE_KEYS, hint="choose another --out")
    check("vocabulary", facts.vocabulary, known.vocabulary)
    check("data", facts.examples, known.examples, was=f" ({known.data})")


def _begin_run(
    run_dir: Path, job: FinetuneJob[Any, Any], facts: FinetuneMetadata, assignment: Assignment
) -> None:
    """Write the run down, if it is a new one."""
    if has_run(run_dir):
        return
    known = {"num_steps": job.num_steps, "guess": score_majority(assignment)}
    with writing_to(run_dir, hint="make room, or choose another --out"):
        write_run(run_dir, job.settings, facts.model_copy(update=known))


def _build_job(
    assignment: Assignment,
    model: AlbertModel,
    kind: AnyKind,
    settings: FinetuneSettings,
    tokenizer: Tokenizer,
    *,
    reporter: Reporter,
    world: DistributedContext,
) -> FinetuneJob[Any, Any]:
    """Encode the examples, warn about what is truncated or unknown, and build the job of the loop."""
    reporter.show("reading", f"{len(assignment.train):,} examples to learn from")
    items = kind.encode(assignment.train, tokenizer)
    train = [item for item in items if kind.teaches(item)]
    if not train:
        raise InputError(_explain_nothing(assignment, kind))
    if isinstance(kind, EmbeddingKind):
        check_dropout(train, model.config)
    if len(train) < len(items):
        number = f"{len(items) - len(train):,} of {len(items):,}"
        reporter.say(f"left out {number} sequences: nothing is to be learned from them")
    if warning := check_known(kind, train, tokenizer):
        reporter.say(warning)
    if num_cut := sum(map(kind.is_cut, train)):
        limit = model.config.max_position_embeddings
        reporter.say(_describe_cut(num_cut, len(train), len(assignment.train), kind, settings, limit=limit))
    dev = kind.encode(assignment.dev, tokenizer)
    num_tokens = sum(map(kind.measure, train))
    reporter.say(
        f"{assignment.facts.task}: {len(assignment.train):,} examples to learn from, {num_tokens:,} pieces"
        f" in {len(train):,} sequences; {len(assignment.dev):,} to be asked about"
    )
    renaming = Renaming.of(tokenizer, share=settings.rename_share, seed=settings.seed)
    job = FinetuneJob(model, kind, settings, train, dev, assignment.dev, world, renaming)
    fault = settings.schedule.find_fault(job.num_steps)
    if fault is not None:
        raise InputError(fault)
    return job


def _explain_nothing(assignment: Assignment, kind: AnyKind) -> str:
    """Why there is nothing to train on, and what to do about it."""
    number, task = len(assignment.train), assignment.facts.task
    if isinstance(kind, EmbeddingKind):
        scores = [each.label for each in assignment.train if isinstance(each, TextExample)]
        highest = max((score for score in scores if isinstance(score, int | float)), default=0.0)
        # Of STS-B's 5, the pairs from 4 on are taken: the same share of what is highest here.
        enough = min(highest, 0.8 * highest)
        return (
            f"none of the {number:,} pairs of {task} has a score of min_similarity, {kind.min_similarity:g}, "
            f"or more, and only such pairs teach; the highest is {highest:g}: set min_similarity={enough:g}"
        )
    return (
        f"none of the {number:,} examples of {task} has an answer that can be learned, in its place; check "
        "the columns of the answers"
    )


def _describe_cut(
    num_cut: int, num_items: int, num_examples: int, kind: AnyKind, settings: FinetuneSettings, *, limit: int
) -> str:
    if isinstance(kind, SpanKind):
        # A question may fill half of its window, and no more than the usual `max_question`.
        told = (
            f"{num_cut:,} of {num_examples:,} questions are cut to {kind.max_question} pieces (max_question)"
        )
        wide = min(limit, 2 * MAX_QUESTION)
        return f"{told}; max_length={wide} keeps more" if kind.max_length < wide else f"{told}; shorten them"
    length = settings.max_length
    told = f"{num_cut:,} of {num_items:,} sequences are cut to {min(length, limit)} pieces"
    return f"{told}; max_length={limit} keeps more" if length < limit else told


def write_finetuned(
    run_dir: Path,
    job: FinetuneJob[Any, Any],
    *,
    state: Mapping[str, Tensor],
    facts: FinetuneMetadata,
    tokenizer: Tokenizer,
    outcome: LoopOutcome,
    reporter: Reporter,
) -> FinetuneScores:
    """Write the model of the best evaluation, calibrated and scored on the dev set."""
    progress = outcome.progress
    step, weights = progress.step, dict(state)
    if progress.best_step is not None and progress.best_step != progress.step:
        best = load_best(run_dir, progress.best_step, names=state, reporter=reporter)
        step, weights = (step, weights) if best is None else (progress.best_step, best)
    cpu = job.settings.runtime.model_copy(update={"device": "cpu", "precision": "float32"})
    settings = job.settings.model_copy(update={"runtime": cpu})
    model = load_start(facts.model, job.kind, settings, task=facts.task).eval()
    model.load_state_dict(weights)
    reporter.show("scoring", f"the model of step {step:,}")
    answers = ask_items(model, job.kind, job.dev, max_tokens=job.settings.micro_batch_tokens)
    tuned = tune_facts(facts.task, answers, job.dev_examples).model_copy(update={"class_weights": None})
    metrics = build_kind(tuned).score(answers, job.dev_examples)
    card = _format_card(model, job.settings, facts, tuned, metrics, seconds=progress.seconds, step=step)
    with writing_to(run_dir / MODEL_DIR, hint=STEPS_ARE_SAVED):
        save_finetuned(run_dir / MODEL_DIR, model, facts=tuned, tokenizer=tokenizer, card=card)
        write_json(run_dir / RESULT_NAME, {"metrics": metrics, "step": step})
    return FinetuneScores(metrics, step)


def _format_card(
    model: AlbertModel,
    settings: FinetuneSettings,
    facts: FinetuneMetadata,
    task: TaskConfig,
    metrics: Mapping[str, float],
    *,
    seconds: float,
    step: int,
) -> str:
    """Format the model card: the task, the recipe and the scores."""
    optimizer = settings.optimizer
    rows = {
        "task": task.task,
        "labels": ", ".join(task.labels) or "–",
        "examples": f"{facts.num_train:,} to learn from, {facts.num_dev:,} to be asked about",
        "recipe": f"{facts.recipe}: batches of {settings.batch_size}, {optimizer.name} at a peak of "
        f"{optimizer.learning_rate:.3g}, at most {task.max_length} pieces, seed {settings.seed}",
        "weights": f"those of step {step:,}, the best on the development set",
        "time": f"{format_seconds(seconds)} on {facts.num_threads} threads",
        "temperature": f"{task.temperature:.3f}",
    }
    scores = {
        name.replace("_", " "): format_figure(value) for name, value in metrics.items() if name != "score"
    }
    return f"""{format_card(model).rstrip()}

## Fine-tuning

{format_rows(rows)}

On the development set, by which the weights were chosen (so expect a little less elsewhere):

{format_rows(scores)}
"""
