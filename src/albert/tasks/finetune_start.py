"""What a fine-tuning run begins with: examples and a recipe come in; its facts and its job go out."""

from typing import Any

from albert.errors import InputError
from albert.reporting import Reporter
from albert.tasks.assignment import Assignment
from albert.tasks.encoding.windows import MAX_QUESTION
from albert.tasks.examples import TextExample, identify_examples
from albert.tasks.finetune_job import FinetuneJob
from albert.tasks.finetune_settings import FinetuneSettings
from albert.tasks.kinds.embedding import EmbeddingKind, check_dropout
from albert.tasks.kinds.kind import Kind
from albert.tasks.kinds.spans import SpanKind
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
        raise InputError(_explain_nothing(assignment, kind))
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
        if isinstance(kind, SpanKind):
            reporter.say(_describe_cut_questions(num_cut, len(assignment.train), kind, limit=limit))
        else:
            reporter.say(_describe_cut(num_cut, len(train), settings.max_length, limit=limit))
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


def _explain_nothing(assignment: Assignment, kind: Kind[Any, Any, Any, Any, Any]) -> str:
    """Why there is nothing to learn from, and what to do about it."""
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


def _describe_cut(num_cut: int, number: int, max_length: int, *, limit: int) -> str:
    told = f"{num_cut:,} of {number:,} sequences are cut to {min(max_length, limit)} pieces"
    return f"{told}; max_length={limit} keeps more" if max_length < limit else told


def _describe_cut_questions(num_cut: int, number: int, kind: SpanKind, *, limit: int) -> str:
    """A question may fill half of its window, and no more than the usual `max_question`."""
    told = f"{num_cut:,} of {number:,} questions are cut to {kind.max_question} pieces (max_question)"
    wide = min(limit, 2 * MAX_QUESTION)
    return f"{told}; max_length={wide} keeps more" if kind.max_length < wide else f"{told}; shorten them"
