"""Pretrain a model by a recipe on a prepared corpus, in a run folder that can be resumed.

Everything is checked before the run folder is written, so that a rejected run leaves nothing behind. The
first process alone reads and writes the run folder.
"""

import time
from collections.abc import Generator, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from albert.data.corpus import Corpus, hold_out, is_corpus, keep_beginning, open_corpus
from albert.data.prepare import prepare_corpus
from albert.data.shards import VOCAB_DIR, reject_other_vocabulary
from albert.data.storage import PathOrUrl
from albert.errors import InputError
from albert.examples.batches import (
    ExampleSource,
    GroupedSource,
    PretrainingBatch,
    build_placeholder,
    build_source,
    iter_steps,
)
from albert.examples.masking import build_token_table
from albert.files import writing_to
from albert.model.albert_model import AlbertModel, build_model
from albert.model.config import ModelConfig
from albert.model.initialization import WordMatching
from albert.model.runtime import RuntimeSettings, build_autocast, select_device
from albert.pretrained.folder import format_card, format_rows, load_model, load_vocabulary, save_model
from albert.pretrained.hub import find_vocabulary_path, resolve_source
from albert.pretrained.sentence_transformers import format_sentence_files
from albert.progress import NullReporter, Reporter, StderrReporter, format_seconds
from albert.settings import build_settings
from albert.text.folder import load_tokenizer
from albert.text.tokenizer import Tokenizer
from albert.training.distillation import (
    TEACHER_MAP,
    DistillationLosses,
    DistillationTeacher,
    complete_student,
    evaluate_distillation,
    group_examples,
    list_student_heads,
    load_teacher,
    start_student,
)
from albert.training.distributed import (
    DistributedContext,
    is_first_process,
    open_distributed,
    raise_together,
    run_on_main,
)
from albert.training.loop import Job, LoopOutcome, Progress, fetch_weights, load_best, load_newest, run_job
from albert.training.losses import (
    MLM,
    PassScores,
    PretrainLosses,
    build_held_out_source,
    count_terms,
    evaluate_pass,
    list_heads,
    measure_held_out,
)
from albert.training.run_folder import (
    BEST_DIR,
    CORPUS_DIR,
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
from albert.training.schedules import Curriculum
from albert.training.settings import DistillationSettings, HeldOutSettings, PretrainSettings, read_recipe
from albert.training.step import Objective
from albert.training.timing import freeze_steps, parse_duration

# What may change when a run is resumed. The number of steps is ignored.
_FREE = FREE_KEYS | {"num_steps", "num_workers"}
# The keys of the model that a warm start may change: no weight has their shape.
_FREE_MODEL_KEYS = frozenset(
    {"num_hidden_layers", "hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout_prob",
     "initializer_range"}
)  # fmt: skip
# The keys that are always those of the folder.
_FOLDER_KEYS = frozenset({"vocab_size", "pad_token_id", "has_embedding_map"})


@dataclass(frozen=True)
class PretrainResult:
    """The result of `pretrain`; `model_dir` is None if the run was interrupted."""

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
        recipe: Name of a recipe, such as "nano", or path of a YAML file.
        data: Corpus written by `albert corpus prepare`.
        out: Run folder; `albert.load(out)` opens its model.
        overrides: Settings to change (`PretrainSettings`), as in "num_steps=100".
        batch_size: Batch size; rescales the learning rate, the warm-up and the number of steps.
        budget: Time such as "90m" or "2h", which sets the number of steps.
        resume: Continue the run in `out` exactly where it stopped; start a new one if there is none.
        reporter: Receives progress and messages; by default, messages are printed to stderr.

    Returns:
        The run folder, the settings, how the run ended, and the model folder if it finished.

    Raises:
        InputError: If `out` holds a different run, the corpus is smaller than a batch or was tokenized with
            another vocabulary, or a run is resumed with changed settings or data.

    >>> done = albert.pretrain("nano", data="corpus", out="run", overrides=["num_steps=2"])  # a trial
    >>> print(done.outcome.progress.figures["mlm_loss"])
    >>> model = albert.load("run")
    """
    settings = read_recipe(recipe, overrides=overrides, batch_size=batch_size)
    return _train(settings, data=data, run_dir=Path(out), budget=budget, resume=resume, reporter=reporter)


def distill(
    recipe: str | Path,
    *,
    teacher: str | Path,
    data: str | Path,
    out: str | Path,
    vocab: str | Path | None = None,
    overrides: Iterable[str] = (),
    batch_size: int | None = None,
    budget: str | None = None,
    resume: bool = False,
    reporter: Reporter | None = None,
) -> PretrainResult:
    """Train a student to follow a trained teacher.

    Args:
        recipe: Name of a recipe, such as "mini", or path of a YAML file.
        teacher: Folder or name of the teacher: an ALBERT, a BERT, or a model of sentence-transformers.
        data: Prepared corpus, or a file or folder of text, which is prepared in OUT/corpus.
        out: Run folder; `albert.load(out)` opens its model.
        vocab: Vocabulary of the student if `data` is text; by default the teacher's.
        overrides: Settings to change (`PretrainSettings`), as in "distillation.mlm_weight=0.2".
        batch_size: Batch size; rescales the learning rate, the warm-up and the number of steps.
        budget: Time such as "90m" or "2h", which sets the number of steps.
        resume: Continue the run in `out` exactly where it stopped; start a new one if there is none.
        reporter: Receives messages and progress.

    Returns:
        The run folder, the settings, how the run ended, and the model folder if it finished.

    Raises:
        InputError: As `pretrain`, and if the teacher cannot be opened, or has another vocabulary while its
            tokens are compared with the student's.

    >>> small = ["num_steps=2", "examples.max_length=32", "batch_size=32"]  # a trial
    >>> done = albert.distill("mini", teacher="run", data="corpus", out="small", overrides=small)
    >>> vectors = albert.load("small").embed(["a text", "another"])
    """
    source = resolve_source(teacher).resolve()
    settings = read_recipe(recipe, overrides=overrides, batch_size=batch_size, job="distill")
    distillation = (settings.distillation or DistillationSettings()).model_copy(
        update={"teacher": str(source)}
    )
    settings = settings.model_copy(update={"distillation": distillation})
    if not is_corpus(data):
        prepared = Path(out) / CORPUS_DIR
        known = find_vocabulary_path(str(vocab)) if vocab is not None else source
        if is_first_process():
            prepare_corpus([data], vocab=known, out=prepared, reporter=reporter)
        data = prepared
    elif vocab is not None:
        raise InputError(f"{data}: is a prepared corpus, which has its vocabulary; omit --vocab")
    return _train(settings, data=data, run_dir=Path(out), budget=budget, resume=resume, reporter=reporter)


def _train(
    settings: PretrainSettings,
    *,
    data: str | Path,
    run_dir: Path,
    budget: str | None,
    resume: bool,
    reporter: Reporter | None,
) -> PretrainResult:
    start = time.monotonic()
    build_autocast(settings.runtime)  # rejects an unsupported precision
    with open_distributed(settings.strategy, settings.runtime.device) as context, ExitStack() as stack:
        reporter = (reporter or StderrReporter()) if context.is_main else NullReporter()
        run_on_main(context, lambda: stack.enter_context(claim_run(run_dir, resume=resume)))
        objective, share = settings.examples.objective, settings.data_share
        opened = open_data(data, settings.held_out, objective=objective, share=share, reporter=reporter)
        reject_different_copies(opened, context)
        if settings.distillation is not None:
            opened = replace(opened, teacher=load_teacher(settings.distillation, opened.tokenizer))
        # Only the first process looks: on a network file system the others would cache a missing file.
        if context.gather(has_run(run_dir) if context.is_main else None)[0]:
            run_on_main(context, lambda: _check_run(run_dir, settings, opened, budget, reporter))
        else:
            _start_run(run_dir, settings, opened, budget, start=start, reporter=reporter, context=context)
        # Read by the first process, which wrote it: on a network file system others may not see it yet.
        started, metadata = context.gather(read_pretrain_run(run_dir) if context.is_main else None)[0]
        # The settings of the run, with the current ones that change no weight.
        free = {key: getattr(settings, key) for key in _FREE if key != "num_steps"}
        settings = _move_held_out(started, settings).model_copy(update=free)
        newest = load_newest(run_dir, reporter=reporter, context=context)
        model = build_pretrain_model(settings, opened, is_resumed=newest is not None)
        job = PretrainJob(model, settings, opened, context)
        outcome = run_job(job, run_dir=run_dir, newest=newest, reporter=reporter, context=context)
        if outcome.is_finished:
            weights, progress = fetch_weights(model, context), outcome.progress
            card = _format_card(model, settings, metadata, progress)
            run_on_main(context, lambda: _write_models(run_dir, weights, job, card, progress, reporter))
        model_dir = run_dir / MODEL_DIR if outcome.is_finished else None
        return PretrainResult(run_dir, settings, outcome, model_dir, context.is_main)


def reject_different_copies(data: "PretrainData", context: DistributedContext) -> None:
    """Raise an InputError if the machines have different copies of the corpus on their disks."""
    mine = [identify_corpus(corpus) for corpus in (data.corpus, data.held_out)]
    process = f"process {context.rank} of {context.size}"
    failure = f"{data.corpus.name}: differs between the first process and {process}; copy it again"
    raise_together(context, failure if mine != context.gather(mine)[0] else None)


def _start_run(
    run_dir: Path,
    settings: PretrainSettings,
    data: "PretrainData",
    budget: str | None,
    *,
    start: float,
    reporter: Reporter,
    context: DistributedContext,
) -> None:
    """Choose the number of steps, check everything, then write settings and metadata."""
    settings = resolve_model(_resolve_path(settings), data.tokenizer, teacher=data.teacher)
    recipe_steps, seconds = settings.num_steps, None if budget is None else parse_duration(budget)
    if seconds is not None:
        timed = PretrainJob(build_pretrain_model(settings, data), settings, data, context)
        settings = freeze_steps(timed, run_dir, seconds=seconds, start=start, reporter=reporter)

    def check_and_write() -> None:
        job = PretrainJob(build_pretrain_model(settings, data, is_resumed=True), settings, data)
        dropped, objective = job.check(), settings.examples.objective
        if dropped > 0.1:
            reporter.say(
                f"Dropped {dropped:.0%} of the examples: objective {objective} needs two sentences each"
            )
        source, limit = job.build_held_out(objective), settings.held_out.num_examples
        num_held_out, unigram_loss = measure_held_out(data.train, source, num_examples=limit)
        metadata = PretrainMetadata(
            data=data.corpus.location,
            corpus=identify_corpus(data.corpus),
            held_out=identify_corpus(data.held_out),
            num_tokens=data.train.num_tokens,
            vocabulary=data.tokenizer.fingerprint,
            num_held_out=num_held_out,
            unigram_loss=unigram_loss,
            num_threads=torch.get_num_threads(),
            budget_seconds=seconds,
            recipe_steps=recipe_steps,
            teacher=None if data.teacher is None else data.teacher.fingerprint,
        )
        write_run(run_dir, settings, metadata)

    run_on_main(context, check_and_write)


def _check_run(
    run_dir: Path, given: PretrainSettings, data: "PretrainData", budget: str | None, reporter: Reporter
) -> None:
    """Raise an InputError if the settings or the corpus differ from those that the run was started with."""
    settings, metadata = read_pretrain_run(run_dir)
    resolved = _resolve_like(settings, given, metadata, data)
    model_dir = run_dir / MODEL_DIR
    hint = f"start a new run {f'with init_from={model_dir}' if model_dir.exists() else 'in another --out'}"
    reject_changes(run_dir, settings, given=resolved, free=_FREE, hint=hint)
    for corpus, known in ((data.corpus, metadata.corpus), (data.held_out, metadata.held_out)):
        if identify_corpus(corpus) != known:
            raise InputError(
                f"{corpus.name}: is not the corpus that {run_dir} was started with; give {metadata.data}"
            )
    if data.teacher is not None and data.teacher.fingerprint != metadata.teacher:
        first = settings.distillation and settings.distillation.teacher
        raise InputError(f"{run_dir}: was started with another teacher; give {first}")
    if budget is not None or (metadata.budget_seconds is None and given.num_steps != settings.num_steps):
        reporter.say(f"Keeping the {settings.num_steps:,} steps that the run was started with")


def _resolve_like(
    settings: PretrainSettings, given: PretrainSettings, metadata: PretrainMetadata, data: "PretrainData"
) -> PretrainSettings:
    """Resolve the given settings as those of the run were resolved."""
    given = _move_held_out(given, settings)
    if given.distillation is not None and settings.distillation is not None:  # the content is compared
        moved = given.distillation.model_copy(update={"teacher": settings.distillation.teacher})
        given = given.model_copy(update={"distillation": moved})
    if metadata.budget_seconds is not None:
        # Warm-up is a share of the steps that the recipe had then.
        num_steps = metadata.recipe_steps or given.num_steps
        given = given.model_copy(update={"num_steps": num_steps}).with_warmup_share()
    if given.init_from is None:
        return resolve_model(given, data.tokenizer, teacher=data.teacher)
    # The folder may be gone by now: the run has its own weights.
    is_same = str(Path(given.init_from).resolve()) == settings.init_from
    given = given.model_copy(update={"init_from": settings.init_from}) if is_same else _resolve_path(given)
    assert settings.model is not None, "the model of a started run is resolved"
    if given.model is None:
        return given.model_copy(update={"model": settings.model})
    changes = given.model.model_dump(include=given.model.model_fields_set - _FOLDER_KEYS)
    return given.model_copy(update={"model": settings.model.model_copy(update=changes)})


def _resolve_path(settings: PretrainSettings) -> PretrainSettings:
    """Make `init_from` absolute, if it is a path."""
    source = settings.init_from
    if source is None or not Path(source).exists():
        return settings
    return settings.model_copy(update={"init_from": str(Path(source).resolve())})


def _move_held_out(settings: PretrainSettings, other: PretrainSettings) -> PretrainSettings:
    """Take the path of the held-out corpus from other settings: only its content must stay the same."""
    if settings.held_out.data is None or other.held_out.data is None:
        return settings
    moved = settings.held_out.model_copy(update={"data": other.held_out.data})
    return settings.model_copy(update={"held_out": moved})


@dataclass(frozen=True)
class PretrainData:
    """The full corpus, the part to train on, the held-out part, the tokenizer, and perhaps a teacher."""

    corpus: Corpus
    train: Corpus
    held_out: Corpus
    tokenizer: Tokenizer
    teacher: DistillationTeacher | None = None


def open_data(
    path: PathOrUrl,
    settings: HeldOutSettings,
    *,
    objective: str = "sop",
    share: float = 1.0,
    reporter: Reporter | None = None,
) -> PretrainData:
    """Open a prepared corpus and hold out another one or its last documents; keep `share` of the rest."""
    corpus = open_corpus(path, reporter=reporter)
    tokenizer = load_tokenizer(corpus.folder / VOCAB_DIR)
    reject_other_vocabulary(corpus.manifest, corpus.name, tokenizer.fingerprint)
    if settings.data is not None:
        train = corpus
        held_out = open_corpus(settings.data, fingerprint=tokenizer.fingerprint, reporter=reporter)
    else:
        # Next sentence prediction draws random sentences from another document.
        minimum = max(settings.min_documents, 2 if objective == "nsp" else 1)
        split = hold_out(corpus, share=settings.share, max_tokens=settings.max_tokens, min_documents=minimum)
        train, held_out = split.train, split.held_out
    if share != 1.0:
        train = keep_beginning(corpus, train, share=share)
    return PretrainData(corpus, train, held_out, tokenizer)


def resolve_model(
    settings: PretrainSettings, tokenizer: Tokenizer, *, teacher: DistillationTeacher | None = None
) -> PretrainSettings:
    """Complete the model's config with the vocabulary of the corpus, or with the config of `init_from`.

    A student takes from its teacher what the recipe leaves open.
    """
    model = settings.model
    if teacher is not None and settings.init_from is None:
        model = complete_student(model, teacher.model.config)
    if settings.init_from is not None:
        model = _resolve_warm_start(settings.init_from, model, tokenizer)
    elif model is None:
        raise InputError("the recipe has no model; set model.preset, as in model.preset=nano, or init_from")
    else:
        changes = {"vocab_size": tokenizer.vocab_size, "pad_token_id": tokenizer.pad_id}
        model = model.model_copy(update=changes)
    # Built again to validate all combinations.
    values = {**settings.model_dump(mode="json"), "model": model.model_dump(mode="json")}
    return build_settings(PretrainSettings, values=values)


def _resolve_warm_start(source: str, given: ModelConfig | None, tokenizer: Tokenizer) -> ModelConfig:
    path = resolve_source(source)
    if load_vocabulary(path).fingerprint != tokenizer.fingerprint:
        raise InputError(
            f"{source}: its vocabulary differs from the corpus's; prepare the corpus with --vocab {source}"
        )
    config = load_model(path, heads={MLM: None}).config
    if given is None:
        return config
    named = given.model_dump(include=given.model_fields_set)
    for key, value in named.items():
        if key not in _FREE_MODEL_KEYS | _FOLDER_KEYS and value != getattr(config, key):
            raise InputError(
                f"{source}: {key} is {getattr(config, key)}, but the recipe sets {value}; set model=null to "
                "use the folder's config, or remove init_from to train from scratch"
            )
    changes = {key: value for key, value in named.items() if key in _FREE_MODEL_KEYS}
    depth = changes.get("num_hidden_layers", config.num_hidden_layers)
    if depth != config.num_hidden_layers and not config.is_fully_shared:
        raise InputError(
            f"{source}: has {config.num_hidden_layers} layers, but the recipe sets {depth}; remove "
            "num_hidden_layers: only a model that shares all layers can change its depth"
        )
    return config.model_copy(update=changes)


def build_pretrain_model(
    settings: PretrainSettings, data: PretrainData | None = None, *, is_resumed: bool = False
) -> AlbertModel:
    """Build the model on its device, with the weights of the seed, of `init_from` or from a teacher."""
    assert settings.model is not None, "call resolve_model first"
    pair_head, distillation = settings.examples.pair_objective, settings.distillation
    heads: dict[str, int | None] = {**list_heads(pair_head=pair_head)}
    teacher = None if data is None else data.teacher
    if teacher is not None and distillation is not None:
        heads = list_student_heads(distillation, settings.model, teacher.model.config, pair_head=pair_head)
    checkpointing = settings.gradient_checkpointing
    model = build_model(settings.model, heads=heads, seed=settings.seed, gradient_checkpointing=checkpointing)
    settings.initialization.apply(model)
    if settings.init_from is not None and not is_resumed:
        pretrained = load_model(settings.init_from, heads=heads, seed=settings.seed).model
        model.load_state_dict(pretrained.state_dict())
    elif data is not None and teacher is not None and distillation is not None and not is_resumed:
        start_student(model, teacher, data.train, distillation)
    model.to(select_device(settings.runtime.device))
    if settings.is_compiled:
        model.encoder.compile(dynamic=True)
    return model


@dataclass(frozen=True)
class PretrainJob(Job[PretrainingBatch]):
    """The pretraining job: masked language modeling and, unless the objective is none, SOP or NSP."""

    model: AlbertModel
    settings: PretrainSettings
    data: PretrainData
    context: DistributedContext = field(default_factory=DistributedContext)
    name: str = "pretrain"

    @property
    def num_steps(self) -> int:
        return self.settings.num_steps

    @property
    def pair_head(self) -> str | None:
        return self.settings.examples.pair_objective

    @cached_property
    def curriculum(self) -> Curriculum:
        return self.settings.build_curriculum(self.model.config)

    @cached_property
    def objective(self) -> Objective[PretrainingBatch]:
        table = build_token_table(self.data.tokenizer)
        if self.teacher_losses is not None:
            return Objective(
                names=tuple(self.teacher_losses.weights),
                count=self.teacher_losses.count,
                placeholder=cache(lambda: build_placeholder(table, has_labels=self.pair_head is not None)),
                weights=self.teacher_losses.weights,
            )
        return Objective(
            names=tuple(list_heads(pair_head=self.pair_head)),
            count=lambda batch: count_terms(batch, pair_head=self.pair_head),
            placeholder=cache(lambda: build_placeholder(table, has_labels=self.pair_head is not None)),
        )

    def check(self) -> float:
        """Check the losses and that the corpus fills a batch; return the share of dropped examples."""
        self.build_network()
        for shape, _ in self.curriculum.list_shapes():
            num_examples = self._build_source(shape.length).num_examples
            if num_examples < shape.batch_size:
                largest = max(1, num_examples * shape.length // self.settings.examples.max_length)
                raise InputError(
                    f"{self.data.corpus.name}: has {num_examples} examples of {shape.length} tokens, fewer "
                    f"than one batch of {shape.batch_size}; set batch_size={largest} or less, or add text"
                )
        first = self.curriculum.find(0)
        batches = self._build_source(first.length).build_step(0, batch_size=first.batch_size)
        return sum(batch.num_dropped for batch in batches) / first.batch_size

    @cached_property
    def teacher_losses(self) -> DistillationLosses | None:
        teacher, settings = self.data.teacher, self.settings.distillation
        if teacher is None or settings is None:
            return None
        return DistillationLosses(self.model, pair_head=self.pair_head, teacher=teacher, settings=settings)

    def build_network(self) -> PretrainLosses:
        return self.teacher_losses or PretrainLosses(self.model, pair_head=self.pair_head)

    def build_optimizer(self) -> torch.optim.Optimizer:
        optimizer = super().build_optimizer()
        if self.settings.num_matching_heads:
            WordMatching(self.model.encoder, num_heads=self.settings.num_matching_heads).attach(optimizer)
        return optimizer

    def iter_batches(self, first_step: int) -> Generator[list[PretrainingBatch], None, None]:
        step = first_step
        while step < self.num_steps:
            shape = self.curriculum.find(step)
            end = self.curriculum.find_end(step)
            while end < self.num_steps and self.curriculum.find(end).stage == shape.stage:
                end = self.curriculum.find_end(end)
            yield from iter_steps(
                self._build_step_source(shape.length),
                batch_size=shape.batch_size,
                first_step=step - shape.first_step,
                num_steps=end - step,
                num_workers=self.settings.num_workers,
                max_tokens=self.settings.micro_batch_tokens,
                rank=self.context.rank,
                world_size=self.context.size,
            )
            step = end

    def _build_source(self, length: int) -> ExampleSource:
        examples = self.settings.examples.model_copy(update={"max_length": length})
        return build_source(self.data.train, self.data.tokenizer, settings=examples, seed=self.settings.seed)

    def _build_step_source(self, length: int) -> ExampleSource | GroupedSource:
        source, settings = self._build_source(length), self.settings.distillation
        return source if settings is None else group_examples(source, settings)

    def find_options(self, step: int) -> dict[str, Any]:
        return {"depth": self.curriculum.find(step).depth}

    def is_new_stage(self, step: int) -> bool:
        return step > 0 and self.curriculum.find_end(step - 1) == step

    def find_cost(self, step: int) -> float:
        # All steps have about as many tokens, but the last layer is computed for few of them, and attention
        # costs more on longer sequences (rates measured at nano, within 20%).
        return sum(
            max(0, min(steps.stop, step) - steps.start) * (shape.depth - 0.35) * (1.0 + shape.length / 512)
            for shape, steps in self.curriculum.list_shapes()
        )

    def describe(self, step: int) -> dict[str, float]:
        shape = self.curriculum.find(step)
        return {"depth": shape.depth, "length": shape.length, "batch_size": shape.batch_size}

    def evaluate(self, step: int) -> dict[str, float]:
        depth = self.curriculum.find(max(step, 1) - 1).depth  # the one trained last
        if self.teacher_losses is not None:
            return self.evaluate_part(depth=depth, num_examples=self.settings.held_out.num_examples)
        scores = self.evaluate_objective(self.settings.examples.objective, depth=depth)
        figures = {f"{MLM}_loss": scores.mlm_loss.mean, f"{MLM}_accuracy": scores.mlm_accuracy.mean}
        if scores.pair_accuracy is not None:
            figures[f"{self.pair_head}_accuracy"] = scores.pair_accuracy.mean
        other = {"sop": "nsp", "nsp": "sop"}.get(self.pair_head or "")
        has_both = self.settings.held_out.evaluates_both or step == self.num_steps
        if other is not None and has_both and (other == "sop" or self.data.held_out.num_documents > 1):
            pairs = self.evaluate_objective(other, depth=depth).pair_accuracy
            figures |= {} if pairs is None else {f"{other}_accuracy": pairs.mean}
        return figures

    def evaluate_part(self, *, depth: int, num_examples: int) -> dict[str, float]:
        """Evaluate the training objective on the first held-out examples."""
        objective, settings = self.settings.examples.objective, self.settings.distillation
        if self.teacher_losses is None or settings is None:
            scores = self.evaluate_objective(objective, depth=depth, num_examples=num_examples)
            return {f"{MLM}_loss": scores.mlm_loss.mean}
        source = group_examples(self.build_held_out(objective), settings)
        return evaluate_distillation(
            self.teacher_losses, source, num_examples=num_examples, context=self.context
        )

    def evaluate_objective(self, objective: str, *, depth: int, num_examples: int = 0) -> PassScores:
        source, limit = self.build_held_out(objective), self.settings.micro_batch_tokens
        number = num_examples or self.settings.held_out.num_examples
        return evaluate_pass(
            self.model, source, num_examples=number, max_tokens=limit, depth=depth, context=self.context
        )

    def build_held_out(self, objective: str) -> ExampleSource:
        held_out, tokenizer = self.data.held_out, self.data.tokenizer
        return build_held_out_source(held_out, tokenizer, self.settings.examples, objective=objective)

    def score(self, figures: dict[str, float]) -> float:
        if self.teacher_losses is None:
            return figures[f"{MLM}_loss"]
        return sum(weight * figures[f"{name}_loss"] for name, weight in self.teacher_losses.weights.items())


def _write_models(
    run_dir: Path,
    last: dict[str, Tensor],
    job: PretrainJob,
    card: str,
    progress: Progress,
    reporter: Reporter,
) -> None:
    """Write the model of the last step, and that of the best step if it is another one."""
    on_cpu = {"runtime": RuntimeSettings(device="cpu"), "is_compiled": False}
    model = build_pretrain_model(job.settings.model_copy(update=on_cpu), job.data, is_resumed=True).eval()
    if TEACHER_MAP in model.heads:
        del model.heads[TEACHER_MAP]
    weights: dict[str, dict[str, Tensor] | None] = {MODEL_DIR: last}
    if progress.best_step not in (None, progress.step):
        weights[BEST_DIR] = load_best(run_dir, progress.best_step, names=last, reporter=reporter)
    extras = {}
    if job.teacher_losses is not None:  # its text vectors are trained: sentence-transformers opens it, too
        extras = format_sentence_files(model.config, max_length=model.config.max_position_embeddings)
    for name, content in weights.items():
        if content is not None:
            kept = {key: tensor for key, tensor in content.items() if f".{TEACHER_MAP}." not in key}
            model.load_state_dict(kept)
            with writing_to(run_dir / name, hint=STEPS_ARE_SAVED):
                save_model(run_dir / name, model, tokenizer=job.data.tokenizer, card=card, extras=extras)


def _format_card(
    model: AlbertModel, settings: PretrainSettings, metadata: PretrainMetadata, progress: Progress
) -> str:
    optimizer = settings.optimizer
    rows = {
        "steps": f"{progress.step:,} of {settings.batch_size} × {settings.examples.max_length} tokens",
        "tokens seen": f"{progress.num_tokens:,}, of a corpus of {metadata.num_tokens:,}",
        "objectives": f"masked language modeling, sentence objective {settings.examples.objective}",
        "optimizer": f"{optimizer.name}, {settings.schedule.name}, peak {optimizer.learning_rate:.3g}",
        "time": f"{format_seconds(progress.seconds)} on {metadata.num_threads} threads",
        "versions": ", ".join(f"{name} {version}" for name, version in metadata.versions.items()),
    }
    scores = {name.replace("_", " "): f"{value:.4f}" for name, value in progress.figures.items()}
    return f"""{format_card(model).rstrip()}

## Training

{format_rows(rows)}

On held-out documents, where the unigram baseline has a loss of {metadata.unigram_loss:.4f}:

{format_rows(scores)}
"""
