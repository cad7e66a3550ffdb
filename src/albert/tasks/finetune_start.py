"""What a fine-tuning run begins with: examples and a recipe come in; its facts and its job go out."""

from typing import Any

from albert.errors import InputError
from albert.reporting import Reporter
from albert.tasks.assignment import Assignment
from albert.tasks.examples import identify_examples
from albert.tasks.finetune_job import FinetuneJob
from albert.tasks.finetune_settings import FinetuneSettings
from albert.tasks.kinds.embedding import EmbeddingKind, check_dropout
from albert.tasks.kinds.kind import Kind
from albert.tasks.renaming import Renaming
from albert.tasks.task_facts import TaskFacts, build_kind
from albert.tasks.vocabulary_fit import check_known
from albert.tasks.weights import count_class_weights
from albert.text.tokenizer import Tokenizer
from albert.training.world import World


def complete_facts(
    assignment: Assignment, settings: FinetuneSettings, *, limit: int, reporter: Reporter
) -> TaskFacts:
    """What the data says of the task, with the lengths and weights of the recipe."""
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
            "similarity_temperature": settings.similarity_temperature,
            "min_similarity": settings.min_similarity,
            "learned_from": (
                identify_examples(assignment.train),
                identify_examples((*assignment.train, *assignment.dev)),
            ),
            "tuned_on": identify_examples(assignment.dev),
        }
    )
    build_kind(completed)  # refused now, if at all
    if length < settings.max_length:
        reporter.say(
            f"max_length is {length}, all the positions that the model has, not {settings.max_length}"
        )
    return completed


def build_job(
    assignment: Assignment,
    model: Any,
    kind: Kind[Any, Any, Any, Any, Any],
    settings: FinetuneSettings,
    tokenizer: Tokenizer,
    *,
    reporter: Reporter,
    world: World,
) -> FinetuneJob[Any, Any]:
    """The examples in pieces, and the job that learns from them; refused: nothing to learn from."""
    reporter.show("reading", f"{len(assignment.train):,} examples to learn from")
    items = kind.encode(assignment.train, tokenizer)
    train = [item for item in items if kind.teaches(item)]
    if not train:
        raise InputError(
            f"none of the {len(assignment.train):,} examples of {assignment.facts.task} has an answer that "
            "can be learned, in its place; check the columns of the answers"
        )
    if isinstance(kind, EmbeddingKind):
        check_dropout(train, model.config)
    if len(train) < len(items):
        number = f"{len(items) - len(train):,} of {len(items):,}"
        reporter.say(f"left out {number} sequences: nothing is to be learned from them")
    warning = check_known(kind, train, tokenizer)
    if warning is not None:
        reporter.say(warning)
    num_cut = sum(map(kind.is_cut, train))
    if num_cut:
        limit = model.config.max_position_embeddings
        told = f"{num_cut:,} of {len(train):,} sequences are cut to {min(settings.max_length, limit)} pieces"
        reporter.say(f"{told}; max_length={limit} keeps more" if settings.max_length < limit else told)
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
