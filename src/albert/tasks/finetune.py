"""Fine-tune a pretrained model on a task: read the data, train, score the best weights, write a folder.

Weights are selected on the dev set, on which the temperature (or threshold) is fitted, too.
"""

import hashlib
import re
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import SerializeAsAny, field_validator
from torch import Tensor, nn

from albert.errors import InputError
from albert.files import dump_json, reject_foreign, require_folder, write_json, write_text, writing_to
from albert.inference.predictor import iter_batches
from albert.model.albert_model import AlbertModel
from albert.model.runtime import build_autocast, select_device
from albert.pretrained.folder import NewWeightsWarning, format_card, format_rows, load_model, load_vocabulary
from albert.pretrained.hub import resolve_source
from albert.progress import NullReporter, Reporter, StderrReporter, format_seconds
from albert.tasks.catalogue import build_task, find_trainable_task, parse_config, read_config
from albert.tasks.data import TaskData, open_task_data
from albert.tasks.finetune_job import FinetuneJob, TokenReplacement
from albert.tasks.finetune_losses import FinetuneTeacher, StudentItem, load_teacher
from albert.tasks.finetune_settings import (
    FinetuneSettings,
    TeacherSettings,
    choose_recipe,
    read_finetune_recipe,
)
from albert.tasks.metrics.intervals import SeedSummary, summarize_seeds
from albert.tasks.metrics.scores import find_median, format_score
from albert.tasks.models import load_own_vocabulary, predict_items, save_finetuned
from albert.tasks.splits import identify_examples
from albert.tasks.task import AnyTask, Example, Item, TaskConfig
from albert.text.tokenizer import Tokenizer
from albert.training.distributed import DistributedContext, is_first_process, open_distributed, run_on_main
from albert.training.loop import LoopOutcome, fetch_weights, load_best, load_newest, run_job
from albert.training.run_folder import (
    FREE_KEYS,
    MODEL_DIR,
    STEPS_ARE_SAVED,
    RunMetadata,
    claim_run,
    has_run,
    read_run,
    reject_changes,
    write_run,
)

RESULT_NAME = "result.json"
SEEDS_NAME = "seeds.json"
_SEED_NAME = re.compile(r"seed-\d+|\..*")
_NUM_SAMPLED = 256  # items in which unknown tokens are counted
_MANY_UNKNOWN, _TOO_MANY_UNKNOWN = 0.2, 0.9  # shares of tokens
_NUM_TIMED = 200  # examples that represent the lengths
_FIXED_SECONDS = 5.0  # for reading, tokenizing and writing the model
AnyJob = FinetuneJob[Example, Item, object, object]


class FinetuneMetadata(RunMetadata):
    """The metadata of a fine-tuning run.

    Args:
        weights: The hash of the pretrained encoder.
        examples: The hash of the train, dev and unlabeled examples.
        guess: The score of the majority baseline on the dev set.
        teacher: The path of the teacher.
        teacher_weights: The hash of the teacher with its head.
        unlabeled: The file of unlabeled examples.
    """

    job: Literal["finetune"] = "finetune"
    recipe: str
    task: SerializeAsAny[TaskConfig]
    model: str
    dev: str | None = None
    weights: str
    examples: str
    num_train: int
    num_dev: int
    num_steps: int | None = None
    guess: float | None = None
    teacher: str | None = None
    teacher_weights: str | None = None
    unlabeled: str | None = None
    num_unlabeled: int = 0

    @field_validator("task", mode="before")
    @classmethod
    def _parse_task(cls, value: Any) -> Any:
        return parse_config(value, source="run.json") if isinstance(value, dict) else value


def read_finetune_run(run_dir: Path) -> tuple[FinetuneSettings, FinetuneMetadata]:
    """Read the settings and the metadata of a fine-tuning run."""
    return read_run(run_dir, FinetuneSettings, FinetuneMetadata)


@dataclass(frozen=True)
class FinetuneScores:
    """The metrics of a model on the dev set, and the step of its weights."""

    metrics: Mapping[str, float]
    step: int

    @property
    def score(self) -> float:
        """The main score, in points of 100."""
        return self.metrics["score"]


@dataclass(frozen=True)
class FinetuneResult:
    """The result of `finetune`; `model_dir` and `scores` are None if the run was interrupted."""

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
    teacher: str | Path | None = None,
    unlabeled: str | Path | None = None,
    resume: bool = False,
    reporter: Reporter | None = None,
) -> FinetuneResult:
    """Fine-tune a pretrained model on a task.

    Args:
        task: A published task ("sst-2", "squad-2.0", ...) or a task type: classification, multilabel,
            regression, token-classification, question-answering, multiple-choice or embedding.
        model: Folder, run, released name or hub name of the pretrained model.
        data: Task folder or table.
        out: The run folder.
        dev: A table for the dev set; by default a share of `data` is held out.
        recipe: Name or YAML file of a recipe; by default it depends on the task and the model's width.
        overrides: Settings to change (`FinetuneSettings`), as in ["batch_size=16"].
            "columns.text=review" and "columns.label=mood" name the columns of a table.
        revision: The version of a model on the hub.
        teacher: A model fine-tuned on the same task, whose predictions the student follows besides the
            labels (`TeacherSettings`).
        unlabeled: A table of further examples, for which the student follows the teacher only; labels are not
            read.
        resume: Continue an interrupted run exactly where it stopped.
        reporter: Receives progress and warnings; by default, messages are printed to stderr.

    Returns:
        The run folder, the dev scores and the path of the best model.

    Raises:
        InputError: If `out` holds a different run, the data cannot be read, the vocabularies differ, or the
            teacher has other labels.

    >>> done = albert.finetune("classification", model="folder", data="reviews.csv", out="mood",
    ...                        overrides=["columns.text=review", "columns.label=mood"])
    >>> print(done.scores.score)
    >>> answers = albert.load("mood").classify(["a warm day", "a cold night"])
    >>> print(answers[0].label, answers[0].probability)
    """
    task = find_trainable_task(task).name  # reject an unknown task before anything is read
    run_dir, source = Path(out), resolve_source(model, revision=revision)
    model_config = load_model(source, heads={}).config
    tokenizer = load_own_vocabulary(source, model_config)
    name = str(recipe or choose_recipe(task, hidden_size=model_config.hidden_size))
    settings = read_finetune_recipe(name, overrides=overrides)
    build_autocast(settings.runtime)  # reject an unsupported precision
    _check_options(settings, teacher=teacher, unlabeled=unlabeled)
    with open_distributed(settings.strategy, settings.runtime.device) as context, ExitStack() as stack:
        reporter = (reporter or StderrReporter()) if context.is_main else NullReporter()
        run_on_main(context, lambda: stack.enter_context(claim_run(run_dir, resume=resume)))
        opened = open_task_data(
            task,
            data,
            dev=dev,
            columns=settings.columns,
            dev_share=settings.dev_share,
            unlabeled=unlabeled,
        )
        for problem in opened.problems:
            reporter.say(problem)
        limit = model_config.max_position_embeddings
        config = complete_config(opened, settings, max_positions=limit)
        if settings.max_length > limit:
            reporter.say(
                f"Using max_length={limit}, the number of positions of the model, not {settings.max_length}."
            )
        network = load_start(str(source), build_task(config), settings)
        loaded_teacher = None
        if teacher is not None:
            loaded_teacher = load_teacher(
                teacher, config, settings, student=model_config, tokenizer=tokenizer
            )
        metadata = FinetuneMetadata(
            data=str(data),
            dev=None if dev is None else str(dev),
            vocabulary=tokenizer.fingerprint,
            num_threads=torch.get_num_threads(),
            recipe=name,
            task=config,
            model=str(source),
            weights=identify_weights(network),
            examples=opened.fingerprint,
            num_train=len(opened.train),
            num_dev=len(opened.dev),
            teacher=None if teacher is None else str(resolve_source(teacher)),
            teacher_weights=None if loaded_teacher is None else _hash_weights(loaded_teacher.finetuned.model),
            unlabeled=None if unlabeled is None else str(unlabeled),
            num_unlabeled=len(opened.unlabeled),
        )
        run_on_main(context, lambda: _check_run(run_dir, settings, metadata))
        job = _build_job(
            opened, network, config, settings, tokenizer, loaded_teacher, reporter=reporter, context=context
        )
        # Only now, so that rejected examples leave nothing behind.
        run_on_main(context, lambda: _start_run(run_dir, job, metadata, opened))
        newest = load_newest(run_dir, reporter=reporter, context=context)
        outcome = run_job(job, run_dir=run_dir, newest=newest, reporter=reporter, context=context)
        if not outcome.is_finished:
            return FinetuneResult(run_dir, settings, outcome, job.num_steps, None, None, context.is_main)
        state = fetch_weights(network, context)
        written = run_on_main(
            context,
            lambda: _write_model(run_dir, job, state, metadata, tokenizer, outcome, reporter=reporter),
        )
        scores = context.gather(written)[0]  # every process needs them, because another seed may follow
        return FinetuneResult(
            run_dir, settings, outcome, job.num_steps, run_dir / MODEL_DIR, scores, context.is_main
        )


def _check_options(
    settings: FinetuneSettings, *, teacher: str | Path | None, unlabeled: str | Path | None
) -> None:
    """Raise `InputError` for unlabeled examples or settings of a teacher without a teacher."""
    if teacher is None and settings.teacher != TeacherSettings():
        raise InputError("teacher.* settings are given without a teacher; add --teacher, or remove them")
    if teacher is None and unlabeled is not None:
        raise InputError(f"--unlabeled {unlabeled}: only a teacher labels these examples; add --teacher")
    if unlabeled is not None and settings.batch_size < 2:
        raise InputError("batch_size is 1; with --unlabeled, set it to at least 2")


def complete_config(opened: TaskData, settings: FinetuneSettings, *, max_positions: int) -> TaskConfig:
    """Add the lengths and options of the recipe to the config of the data."""
    completed = opened.config.complete(settings, train=opened.train, max_positions=max_positions)
    learned_from = (identify_examples(opened.train), identify_examples((*opened.train, *opened.dev)))
    return completed.model_copy(
        update={"learned_from": learned_from, "tuned_on": identify_examples(opened.dev)}
    )


def load_start(source: str, task: AnyTask, settings: FinetuneSettings) -> AlbertModel:
    """Load the encoder with the head of the task.

    The folder's head is used if it was trained on the same labels, or without task.json on the same number of
    labels. Otherwise the head is new and initialized by the seed.
    """
    trained = read_config(resolve_source(source))
    dropouts = {
        "hidden_dropout_prob": settings.dropout,
        "attention_probs_dropout_prob": settings.dropout,
        "classifier_dropout_prob": settings.head_dropout,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NewWeightsWarning)  # a new head is expected
        model = load_model(
            source,
            heads=task.heads,
            seed=settings.seed,
            device=select_device(settings.runtime.device),
            gradient_checkpointing=settings.gradient_checkpointing,
            dropouts={key: value for key, value in dropouts.items() if value is not None},
            has_fresh_heads=trained is not None and not task.config.has_same_outputs(trained),
        ).model
    if settings.is_compiled:
        model.encoder.compile(dynamic=True)
    return model


def identify_weights(model: AlbertModel) -> str:
    """Hash the weights of the encoder, without heads, which may be new."""
    return _hash_weights(model.encoder)


def _hash_weights(module: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _check_run(run_dir: Path, settings: FinetuneSettings, metadata: FinetuneMetadata) -> None:
    """Raise `InputError` if a run is resumed with another task, model, settings, vocabulary or data."""
    if not has_run(run_dir):
        return
    known_settings, known = read_finetune_run(run_dir)

    def check(what: str, given: str | None, expected: str | None, *, source: str = "") -> None:
        if given != expected:
            raise InputError(
                f"{run_dir}: was started with another {what}{source}; give that one, or choose another --out"
            )

    # The task and the model first: they change the settings, and settings change the data.
    check("task", metadata.task.task, known.task.task)
    check("model", metadata.weights, known.weights, source=f" ({known.model})")
    reject_changes(run_dir, known_settings, given=settings, free=FREE_KEYS, hint="choose another --out")
    check("vocabulary", metadata.vocabulary, known.vocabulary)
    check("teacher", metadata.teacher_weights, known.teacher_weights, source=f" ({known.teacher or 'none'})")
    files = known.data if known.unlabeled is None else f"{known.data}, unlabeled {known.unlabeled}"
    check("data", metadata.examples, known.examples, source=f" ({files})")


def _start_run(run_dir: Path, job: AnyJob, metadata: FinetuneMetadata, opened: TaskData) -> None:
    if has_run(run_dir):
        return
    known = {"num_steps": job.num_steps, "guess": opened.score_majority()}
    with writing_to(run_dir, hint="free some space, or choose another --out"):
        write_run(run_dir, job.settings, metadata.model_copy(update=known))


def _build_job(
    opened: TaskData,
    model: AlbertModel,
    config: TaskConfig,
    settings: FinetuneSettings,
    tokenizer: Tokenizer,
    teacher: FinetuneTeacher | None,
    *,
    reporter: Reporter,
    context: DistributedContext,
) -> AnyJob:
    """Encode the examples, warn about truncated text and unknown tokens, and build the job."""
    task = build_task(config)
    reporter.show("reading", f"{len(opened.train):,} training examples")
    items = task.encode(opened.train, tokenizer)
    train = [item for item in items if task.has_label(item)]
    if not train:
        raise InputError(task.explain_no_labels(opened.train))
    task.check_train(train, model)
    if len(train) < len(items):
        reporter.say(
            f"Skipped {len(items) - len(train):,} of {len(items):,} sequences without a usable label"
        )
    if warning := check_known_tokens(task, train, tokenizer):
        reporter.say(warning)
    if num_truncated := sum(item.is_truncated for item in train):
        limit = model.config.max_position_embeddings
        reporter.say(task.describe_truncated(num_truncated, len(opened.train), max_positions=limit))
    dev = task.encode(opened.dev, tokenizer)
    num_tokens = sum(item.num_tokens for item in train)
    reporter.say(
        f"{config.task}: {len(opened.train):,} training examples, {num_tokens:,} tokens in {len(train):,} "
        f"sequences; {len(opened.dev):,} dev examples"
    )
    replacement = TokenReplacement.of(tokenizer, share=settings.rename_share, seed=settings.seed)
    unlabeled: list[StudentItem] = []
    if teacher is not None:
        pairs = teacher.pair_items(task, items, opened.train, has_labels=True)
        train = [pair for pair in pairs if task.has_label(pair.item)]
        if opened.unlabeled:
            reporter.show("reading", f"{len(opened.unlabeled):,} unlabeled examples")
            others = task.encode(opened.unlabeled, tokenizer)
            unlabeled = teacher.pair_items(task, others, opened.unlabeled, has_labels=False)
            reporter.say(f"{len(opened.unlabeled):,} unlabeled examples in {len(unlabeled):,} sequences")
    job = FinetuneJob(model, task, settings, train, dev, opened.dev, context, replacement, teacher, unlabeled)
    if error := settings.schedule.find_error(job.num_steps):
        raise InputError(error)
    return job


def check_known_tokens(task: AnyTask, items: Sequence[Item], tokenizer: Tokenizer) -> str | None:
    """Return a warning if many tokens are unknown to the vocabulary; raise `InputError` if almost all are."""
    ids = task.build_batch(items[:: 1 + len(items) // _NUM_SAMPLED]).ids_T
    is_text = (ids != tokenizer.cls_id) & (ids != tokenizer.sep_id)
    share = float((ids == tokenizer.unk_id).sum() / max(1, is_text.sum()))
    if share <= _MANY_UNKNOWN:
        return None
    message = f"{share:.0%} of the tokens of the examples are unknown to the model's vocabulary"
    hint = "give a model of this language and script, or check the text column"
    if share > _TOO_MANY_UNKNOWN:
        raise InputError(f"{message}, more than {_TOO_MANY_UNKNOWN:.0%}; {hint}")
    return f"{message}; {hint}"


def _write_model(
    run_dir: Path,
    job: AnyJob,
    state: Mapping[str, Tensor],
    metadata: FinetuneMetadata,
    tokenizer: Tokenizer,
    outcome: LoopOutcome,
    *,
    reporter: Reporter,
) -> FinetuneScores:
    """Write the model of the best evaluation, tuned and scored on the dev set."""
    progress = outcome.progress
    step, weights = progress.step, dict(state)
    if progress.best_step is not None and progress.best_step != progress.step:
        best = load_best(run_dir, progress.best_step, names=state, reporter=reporter)
        step, weights = (step, weights) if best is None else (progress.best_step, best)
    cpu = job.settings.runtime.model_copy(update={"device": "cpu", "precision": "float32"})
    settings = job.settings.model_copy(update={"runtime": cpu})
    model = load_start(metadata.model, job.task, settings).eval()
    model.load_state_dict(weights)
    reporter.show("scoring", f"the model of step {step:,}")
    answers = predict_items(model, job.task, job.dev, max_tokens=job.settings.micro_batch_tokens)
    tuned = job.task.tune(answers, job.dev_examples)
    metrics = build_task(tuned).score(answers, job.dev_examples)
    card = _format_card(model, job.settings, metadata, tuned, metrics, seconds=progress.seconds, step=step)
    with writing_to(run_dir / MODEL_DIR, hint=STEPS_ARE_SAVED):
        save_finetuned(run_dir / MODEL_DIR, model, config=tuned, tokenizer=tokenizer, card=card)
        write_json(run_dir / RESULT_NAME, {"metrics": metrics, "step": step})
    return FinetuneScores(metrics, step)


def _format_card(
    model: AlbertModel,
    settings: FinetuneSettings,
    metadata: FinetuneMetadata,
    config: TaskConfig,
    metrics: Mapping[str, float],
    *,
    seconds: float,
    step: int,
) -> str:
    """Format the model card with the task, the recipe and the scores."""
    optimizer = settings.optimizer
    rows = {
        "task": config.task,
        "labels": ", ".join(config.labels) or "–",
        "examples": f"{metadata.num_train:,} train, {metadata.num_dev:,} dev",
        "recipe": f"{metadata.recipe}: batches of {settings.batch_size}, {optimizer.name} with a peak "
        f"learning rate of {optimizer.learning_rate:.3g}, at most {config.max_length} tokens, seed "
        f"{settings.seed}",
        "weights": f"those of step {step:,}",
        "time": f"{format_seconds(seconds)} on {metadata.num_threads} threads",
        "temperature": f"{config.temperature:.3f}",
    }
    if metadata.teacher is not None:
        rows["teacher"] = f"{metadata.teacher}, with {metadata.num_unlabeled:,} unlabeled examples"
    scores = {
        name.replace("_", " "): format_score(value) for name, value in metrics.items() if name != "score"
    }
    return f"""{format_card(model).rstrip()}

## Fine-tuning

{format_rows(rows)}

On the dev set, on which the weights were selected (expect slightly lower scores on other data):

{format_rows(scores)}
"""


@dataclass(frozen=True)
class SeedRuns:
    """The scores of finished runs by seed, and their summary; `stopped` is a run that was interrupted."""

    scores: dict[int, FinetuneScores]
    summary: SeedSummary | None
    best_seed: int | None
    stopped: FinetuneResult | None


def finetune_seeds(
    train: Callable[[int, Path], FinetuneResult],
    *,
    seeds: Sequence[int],
    out: Path,
    resume: bool,
    reporter: Reporter,
) -> SeedRuns:
    """Fine-tune with several seeds, each in OUT/seed-N, and write a summary to seeds.json."""
    if has_run(out):
        raise InputError(f"{out}: already holds a run with one seed; choose another --out for several seeds")
    others = [name for name in require_folder(out) if not _SEED_NAME.fullmatch(name) and name != SEEDS_NAME]
    reject_foreign(out, others, what="seed")
    started = [seed for seed in seeds if has_run(out / f"seed-{seed}")]
    if started and not resume:
        if all((out / f"seed-{seed}" / MODEL_DIR).exists() for seed in seeds):
            raise InputError(f"{out}: these runs are finished; choose another --out, or remove the folder")
        raise InputError(
            f"{out}: already holds a run with seed {started[0]}; add --resume, or choose another --out"
        )
    scores: dict[int, FinetuneScores] = {}
    for number, seed in enumerate(seeds, start=1):
        if is_first_process():
            reporter.say(f"seed {seed}, {number} of {len(seeds)}")
        result = train(seed, out / f"seed-{seed}")
        if result.scores is None:
            return SeedRuns(scores, None, None, result)
        scores[seed] = result.scores
    summary = summarize_seeds([each.score for each in scores.values()])
    best = max(scores, key=lambda seed: scores[seed].score)
    if is_first_process():
        all_scores = list(scores.values())
        content = {
            "scores": {str(seed): dict(each.metrics) for seed, each in scores.items()},
            "median": {
                name: find_median([each.metrics[name] for each in all_scores])
                for name in scores[best].metrics
            },
            "spread": summary.spread,
            "best_seed": best,
            "model": str(Path(f"seed-{best}") / MODEL_DIR),
        }
        write_text(out / SEEDS_NAME, f"{dump_json(content, indent=2)}\n")
    return SeedRuns(scores, summary, best, None)


@dataclass(frozen=True)
class Cost:
    """The estimated time of a run."""

    num_train: int
    num_dev: int
    train_tokens: float
    tokens_per_second: float
    seconds: float

    def describe(self) -> str:
        """Describe the estimate in one line."""
        return (
            f"{self.num_train:,} training examples, {self.train_tokens:,.0f} tokens a run at "
            f"{self.tokens_per_second:,.0f} tokens/s: {format_seconds(self.seconds)} a run"
        )


def estimate_cost(
    task: str, *, model: Path, data: Path, recipe: str | None = None, overrides: Sequence[str]
) -> Cost:
    """Estimate the time of a run from a few batches, with and without the backward pass."""
    model_config = load_model(model, heads={}).config
    name = recipe or choose_recipe(task, hidden_size=model_config.hidden_size)
    settings = read_finetune_recipe(name, overrides=overrides)
    opened = open_task_data(task, data, dev=None, columns=settings.columns, dev_share=settings.dev_share)
    config = complete_config(opened, settings, max_positions=model_config.max_position_embeddings)
    built, tokenizer = build_task(config), load_vocabulary(model)
    network = load_start(str(model), built, settings)
    # For train and dev: items and tokens of all examples, and tokens per second
    num_items, num_tokens, speeds = [], [], []
    for examples, is_training in ((opened.train, True), (opened.dev, False)):
        sample = examples[:: max(1, len(examples) // _NUM_TIMED)]
        items = built.encode(sample, tokenizer)
        scale = len(examples) / len(sample)
        num_items.append(scale * len(items))
        num_tokens.append(scale * sum(item.num_tokens for item in items))
        max_tokens = settings.micro_batch_tokens
        speeds.append(_measure_speed(network, built, items, max_tokens=max_tokens, is_training=is_training))
    epochs = settings.num_epochs
    if settings.num_steps is not None:
        epochs = settings.num_steps * settings.batch_size / num_items[0]
    num_evaluations = settings.num_evaluations + 1  # one more for the model that is written
    seconds = epochs * num_tokens[0] / speeds[0] + num_evaluations * num_tokens[1] / speeds[1]
    return Cost(
        len(opened.train), len(opened.dev), epochs * num_tokens[0], speeds[0], seconds + _FIXED_SECONDS
    )


def _measure_speed(
    model: AlbertModel, task: AnyTask, items: Sequence[Item], *, max_tokens: int, is_training: bool
) -> float:
    """Measure tokens per second with batches of short, middle and long items, after a warm-up batch."""
    rows = list(iter_batches([item.num_tokens for item in items], max_tokens=max_tokens))
    chosen = rows[:: max(1, len(rows) // 3)]
    batches = [task.build_batch([items[index] for index in row]) for row in (chosen[0], *chosen)]
    model.train(is_training)
    num_tokens, start = 0, 0.0
    with torch.set_grad_enabled(is_training):
        for number, batch in enumerate(batches):
            if number == 1:
                start = time.perf_counter()
            if is_training:
                torch.stack([loss for loss, _ in task.compute_losses(model, batch).values()]).sum().backward()
            else:
                task.predict(model, batch)
            num_tokens += len(batch.ids_T) if number else 0
    return num_tokens / (time.perf_counter() - start)
