"""A fine-tuned folder comes in; what answers the questions of its task, in any number, goes out."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from albert.errors import InputError
from albert.model.albert_model import AlbertModel
from albert.model.runtime import RuntimeSettings, autocast, select_device
from albert.pretrained.folder import check_vocabulary, load_model, load_vocabulary
from albert.pretrained.hub import resolve_source
from albert.tasks.asking import ask_items
from albert.tasks.examples import Example
from albert.tasks.foreign_folder import adapt_facts, count_outputs, refuse_other_labels
from albert.tasks.kinds.kind import Kind
from albert.tasks.task_facts import TaskFacts, build_kind, read_facts
from albert.text.tokenizer import Tokenizer

MAX_BATCH_TOKENS = 4096
_CHUNK = 2048  # examples that are in pieces at a time


@dataclass
class Cuts:
    """How many examples were longer than what the model reads, and lost their ends."""

    num_cut: int = 0


@dataclass(frozen=True)
class Answerer:
    """A model that was fine-tuned, its vocabulary, and what it was fine-tuned for.

    `cuts` counts what was too long, over all that was asked.
    """

    name: str
    model: AlbertModel
    tokenizer: Tokenizer
    facts: TaskFacts
    kind: Kind[Any, Any, Any, Any, Any]
    runtime: RuntimeSettings
    cuts: Cuts = field(default_factory=Cuts, compare=False)

    def answer(self, examples: Sequence[Example], *, depth: int | None = None) -> list[Any]:
        """One answer for each example, as the kind of the task gives it."""
        items = self.kind.encode(examples, self.tokenizer)
        self.cuts.num_cut += sum(map(self.kind.is_cut, items))
        with autocast(select_device(self.runtime.device), self.runtime.precision):
            return ask_items(self.model, self.kind, items, max_tokens=MAX_BATCH_TOKENS, depth=depth)

    def describe_cuts(self) -> str | None:
        """What to say of examples that were too long; None where none was."""
        number = self.cuts.num_cut
        if not number:
            return None
        # Of a question with a context only the question is ever cut.
        name, length = (
            ("question", f"{self.facts.max_question} pieces (max_question)")
            if self.facts.kind == "spans"
            else ("text", f"{self.facts.max_length} pieces")
        )
        was = f"{name} was" if number == 1 else f"{name}s were"
        return f"{number:,} {was} longer than the {length} that {self.name} reads, and cut"

    def iter_answers(
        self, examples: Iterable[Example], *, depth: int | None = None
    ) -> Iterator[tuple[Example, Any]]:
        """Each example with its answer, in their order, from a stream of any size."""
        stream = iter(examples)
        while chunk := list(islice(stream, _CHUNK)):
            yield from zip(chunk, self.answer(chunk, depth=depth), strict=True)

    def with_patience(self, patience: int) -> "Answerer":
        """The same, leaving out layers once so many in a row agree; refused: a model without exits."""
        if patience < 1:
            raise InputError(f"patience is {patience}; at least 1")
        facts = self.facts.model_copy(update={"patience": patience})
        return replace(self, facts=facts, kind=build_kind(facts))


def load_answerer(
    source: str | Path, *, task: TaskFacts | None = None, runtime: RuntimeSettings | None = None
) -> Answerer:
    """Open a fine-tuned folder, or a run of fine-tuning.

    A folder that does not say what it was fine-tuned for, as others write them, is taken to be for `task`,
    with the names of its labels where it has them. Refused: one without the head of its task, and one that
    was fine-tuned for another kind of task.
    """
    runtime = runtime or RuntimeSettings()
    path = resolve_source(source)
    facts = read_facts(path)
    if facts is not None and task is not None and facts.kind != task.kind:
        raise InputError(
            f"{source}: was fine-tuned for {facts.task} ({facts.kind}), and {task.task} is of {task.kind}; "
            "give a model of that kind"
        )
    if facts is None and task is None:
        raise InputError(
            f"{source}: does not say what it was fine-tuned for (no task.json); give a model that albert "
            "finetune wrote, or name the task"
        )
    loaded = load_model(path, device=select_device(runtime.device))
    if facts is None:
        assert task is not None
        refuse_other_labels(str(source), loaded, task)
        facts = adapt_facts(loaded, task)
    kind = build_kind(facts)
    check_heads(str(source), loaded.model, kind)
    tokenizer = load_vocabulary(path)
    check_vocabulary(loaded.config, tokenizer)
    return Answerer(str(source), loaded.model, tokenizer, facts, kind, runtime)


def check_heads(source: str, model: AlbertModel, kind: Kind[Any, Any, Any, Any, Any]) -> None:
    """Refuse a model without the heads of its task, or with another number of outputs than it has labels."""
    for head, wanted in kind.heads.items():
        found = count_outputs(model, head)
        if wanted is not None and found is not None and found != wanted:
            raise InputError(
                f"{source}: answers with {found} outputs, and the task has {wanted} labels; give a model of "
                "this task"
            )
