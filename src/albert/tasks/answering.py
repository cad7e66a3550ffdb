"""Answer the examples of a task with a fine-tuned model, in any number."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import torch

from albert.errors import InputError
from albert.inference.predictor import iter_batches
from albert.model.albert_model import AlbertModel
from albert.model.runtime import RuntimeSettings, autocast, select_device
from albert.pretrained.folder import check_vocabulary, load_model, load_vocabulary
from albert.pretrained.hub import resolve_source
from albert.tasks.examples import Example
from albert.tasks.kinds.kind import AnyKind, Kind
from albert.tasks.task_facts import TaskConfig, build_kind, read_facts
from albert.tasks.task_folder import adapt_facts, count_outputs, reject_other_labels
from albert.text.tokenizer import Tokenizer
from albert.training.distributed import DistributedContext

MAX_BATCH_TOKENS = 4096
_CHUNK = 2048  # examples that are encoded at a time
I = TypeVar("I")  # noqa: E741 - an item
R = TypeVar("R")  # an answer


@dataclass(frozen=True)
class Answerer:
    """A fine-tuned model, its vocabulary and its config; `cuts` counts what was truncated."""

    name: str
    model: AlbertModel
    tokenizer: Tokenizer
    facts: TaskConfig
    kind: AnyKind
    runtime: RuntimeSettings
    cuts: Counter[str] = field(default_factory=Counter, compare=False)

    def answer(self, examples: Sequence[Example], *, depth: int | None = None) -> list[Any]:
        """Answer each example, as the task type does."""
        items = self.kind.encode(examples, self.tokenizer)
        self.cuts["examples"] += sum(map(self.kind.is_cut, items))
        with autocast(select_device(self.runtime.device), self.runtime.precision):
            return ask_items(self.model, self.kind, items, max_tokens=MAX_BATCH_TOKENS, depth=depth)

    def describe_cuts(self) -> str | None:
        """Describe how many examples were truncated; None without any."""
        number = self.cuts["examples"]
        if not number:
            return None
        # Of a question with a context only the question is ever truncated.
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
        """Answer a stream of any size, in order."""
        stream = iter(examples)
        while chunk := list(islice(stream, _CHUNK)):
            yield from zip(chunk, self.answer(chunk, depth=depth), strict=True)

    def with_patience(self, patience: int) -> "Answerer":
        """Skip layers once so many in a row agree; for models with exits."""
        if patience < 1:
            raise InputError(f"patience is {patience}; at least 1")
        facts = self.facts.model_copy(update={"patience": patience})
        return replace(self, facts=facts, kind=build_kind(facts))


def load_answerer(
    source: str | Path, *, task: TaskConfig | None = None, runtime: RuntimeSettings | None = None
) -> Answerer:
    """Open a fine-tuned folder, or a run of fine-tuning.

    A folder without task.json, as other libraries write them, is taken to be for `task`, with the names of
    its labels where it has them. A folder for another task type, or without the head, is rejected.
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
        reject_other_labels(str(source), loaded, task)
        facts = adapt_facts(loaded, task)
    kind = build_kind(facts)
    check_heads(str(source), loaded.model, kind)
    tokenizer = load_vocabulary(path)
    check_vocabulary(loaded.config, tokenizer)
    return Answerer(str(source), loaded.model, tokenizer, facts, kind, runtime)


def check_heads(source: str, model: AlbertModel, kind: AnyKind) -> None:
    """Reject a model without the heads of its task, or with another number of outputs than labels."""
    for head, wanted in kind.heads.items():
        found = count_outputs(model, head)
        if wanted is not None and found is not None and found != wanted:
            raise InputError(
                f"{source}: answers with {found} outputs, and the task has {wanted} labels; give a model of "
                "this task"
            )


@torch.inference_mode()
def ask_items(
    model: AlbertModel,
    kind: Kind[Any, I, Any, Any, R],
    items: Sequence[I],
    *,
    max_tokens: int,
    depth: int | None = None,
    world: DistributedContext | None = None,
) -> list[R]:
    """Answer items in batches of similar length; each process takes its share, and all get all answers."""
    world = world or DistributedContext()
    mine: dict[int, Any] = {}
    lengths = [kind.measure(item) for item in items]
    for number, places in enumerate(iter_batches(lengths, max_tokens=max_tokens)):
        if number % world.size == world.rank:
            batch = kind.build_batch([items[place] for place in places])
            mine.update(zip(places, kind.predict(model, batch, depth=depth), strict=True))
    found = {place: output for share in world.gather(mine) for place, output in share.items()}
    return kind.conclude(items, [found[place] for place in range(len(items))])
