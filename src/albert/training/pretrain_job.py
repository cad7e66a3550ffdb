"""Pretraining as a job of the loop: the data, the model, batches, losses and evaluations."""

import math
from collections.abc import Generator
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import torch

from albert.data.corpus import Corpus, hold_out, keep_beginning, open_corpus
from albert.data.manifest import VOCAB_DIR, reject_other_vocabulary
from albert.data.paths import PathOrUrl
from albert.errors import InputError
from albert.examples.batches import PretrainingBatch, build_placeholder
from albert.examples.loader import iter_steps
from albert.examples.source import ExampleSource, build_piece_table, build_source
from albert.model.albert_model import AlbertModel, build_model
from albert.model.config import ModelConfig
from albert.model.initialization import WordMatching
from albert.model.runtime import select_device
from albert.pretrained.folder import load_model, load_vocabulary
from albert.pretrained.hub import resolve_source
from albert.progress import Reporter
from albert.settings import build_settings
from albert.text.folder import load_tokenizer
from albert.text.tokenizer import Tokenizer
from albert.training.curriculum import Curriculum
from albert.training.evaluation import PassScores, build_held_out_source, evaluate_pass
from albert.training.losses import WORDS, PretrainLosses, count_terms, list_heads
from albert.training.optimizers import build_optimizer
from albert.training.settings import HeldOutSettings, PretrainSettings
from albert.training.step import Objective
from albert.training.world import DistributedContext

# Steps and examples in a row without a valid example; some may occur with very small batches.
_MAX_EMPTY_STEPS, _MAX_EMPTY_EXAMPLES = 20, 500
# The keys of the model that a warm start may change: no weight has their shape.
_FREE_KEYS = frozenset(
    {"num_hidden_layers", "hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout_prob",
     "initializer_range"}
)  # fmt: skip
# The keys that are always those of the folder.
_FOLDER_KEYS = frozenset({"vocab_size", "pad_token_id", "has_embedding_map"})


@dataclass(frozen=True)
class PretrainData:
    """The whole corpus, the part to train on, the held-out part, and the tokenizer."""

    whole: Corpus
    train: Corpus
    held_out: Corpus
    tokenizer: Tokenizer


def open_data(
    place: PathOrUrl,
    settings: HeldOutSettings,
    *,
    objective: str = "sop",
    share: float = 1.0,
    reporter: Reporter | None = None,
) -> PretrainData:
    """Open a prepared corpus and its held-out corpus, or hold out its last documents.

    The first `share` of the rest is trained on. `nsp` draws random sentences from another document, so it
    needs two held-out documents.
    """
    corpus = open_corpus(place, reporter=reporter)
    tokenizer = load_tokenizer(corpus.folder / VOCAB_DIR)
    reject_other_vocabulary(corpus.manifest, corpus.name, tokenizer.fingerprint)
    if settings.data is not None:
        train = corpus
        held_out = open_corpus(settings.data, fingerprint=tokenizer.fingerprint, reporter=reporter)
    else:
        min_documents = max(settings.min_documents, 2 if objective == "nsp" else 1)
        split = hold_out(
            corpus, share=settings.share, max_pieces=settings.max_pieces, min_documents=min_documents
        )
        train, held_out = split.train, split.held_out
    if share != 1.0:
        train = keep_beginning(corpus, train, share=share)
    return PretrainData(corpus, train, held_out, tokenizer)


def resolve_model(settings: PretrainSettings, tokenizer: Tokenizer) -> PretrainSettings:
    """Complete the model's config: the vocabulary is that of the corpus.

    With `init_from` the config is that of the folder, except for the keys that `model` names.
    """
    model = settings.model
    if settings.init_from is not None:
        model = _resolve_warm_start(settings.init_from, model, tokenizer)
    elif model is None:
        raise InputError("a recipe needs a model, as in model.preset=nano, or init_from=FOLDER")
    else:
        model = model.model_copy(
            update={"vocab_size": tokenizer.vocab_size, "pad_token_id": tokenizer.pad_id}
        )
    # Built again, so that all combinations are validated.
    values = {**settings.model_dump(mode="json"), "model": model.model_dump(mode="json")}
    return build_settings(PretrainSettings, values=values)


def _resolve_warm_start(source: str, asked: ModelConfig | None, tokenizer: Tokenizer) -> ModelConfig:
    path = resolve_source(source)
    if load_vocabulary(path).fingerprint != tokenizer.fingerprint:
        raise InputError(
            f"{source}: has another vocabulary than the corpus; prepare the corpus with --vocab {source}"
        )
    found = load_model(path, heads={"mlm": None}).config
    if asked is None:
        return found
    named = asked.model_dump(include=asked.model_fields_set)
    for key, value in named.items():
        if key not in _FREE_KEYS | _FOLDER_KEYS and value != getattr(found, key):
            raise InputError(
                f"{source}: has {key} {getattr(found, key)} and the recipe {value}; a warm start keeps the "
                "shape: set model=null to take the folder's, or train from the beginning without init_from"
            )
    changes = {key: value for key, value in named.items() if key in _FREE_KEYS}
    depth = changes.get("num_hidden_layers", found.num_hidden_layers)
    if depth != found.num_hidden_layers and not found.is_fully_shared:
        raise InputError(
            f"{source}: has {found.num_hidden_layers} layers of their own and cannot start a model of "
            f"{depth}; only one shared block can be looped more or less often"
        )
    return found.model_copy(update=changes)


def change_shape(config: ModelConfig, asked: ModelConfig | None) -> ModelConfig:
    """Apply the keys that `asked` names to the config of a run."""
    if asked is None:
        return config
    return config.model_copy(update=asked.model_dump(include=asked.model_fields_set - _FOLDER_KEYS))


def build_pretrain_model(settings: PretrainSettings, *, is_resumed: bool = False) -> AlbertModel:
    """Build the model with the heads of its objectives, on its device, compiled if asked for.

    The weights are initialized from the seed, or those of `init_from`, unless a checkpoint is loaded
    afterwards.
    """
    assert settings.model is not None, "resolve_model comes first"
    heads = list_heads(pair_head=settings.examples.pair_objective)
    checkpointing = settings.gradient_checkpointing
    model = build_model(settings.model, heads=heads, seed=settings.seed, gradient_checkpointing=checkpointing)
    settings.fresh_start.apply(model)
    if settings.init_from is not None and not is_resumed:
        start = load_model(settings.init_from, heads=heads, seed=settings.seed).model
        model.load_state_dict(start.state_dict())
    model.to(select_device(settings.runtime.device))
    if settings.is_compiled:
        model.encoder.compile(dynamic=True)
    return model


@dataclass(frozen=True)
class PretrainJob:
    """Masked language modeling and, unless the objective is none, sentence order or next sentence."""

    model: AlbertModel
    settings: PretrainSettings
    data: PretrainData
    world: DistributedContext = field(default_factory=DistributedContext)
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
        table = build_piece_table(self.data.tokenizer)
        return Objective(
            names=tuple(list_heads(pair_head=self.pair_head)),
            count=lambda batch: count_terms(batch, pair_head=self.pair_head),
            placeholder=cache(lambda: build_placeholder(table, has_labels=self.pair_head is not None)),
        )

    def build_network(self) -> PretrainLosses:
        return PretrainLosses(self.model, pair_head=self.pair_head)

    def build_optimizer(self) -> torch.optim.Optimizer:
        """Build the optimizer of the recipe; it keeps the matching heads as they are."""
        optimizer = build_optimizer(self.model, self.settings.optimizer)
        if self.settings.num_matching_heads:
            matching = WordMatching(self.model.encoder, num_heads=self.settings.num_matching_heads)
            matching.hold(optimizer)
        return optimizer

    def find_options(self, step: int) -> dict[str, Any]:
        return {"depth": self.curriculum.find(step).depth}

    def build_source(self, length: int) -> ExampleSource:
        settings = self.settings
        examples = settings.examples.model_copy(update={"max_length": length})
        return build_source(self.data.train, self.data.tokenizer, settings=examples, seed=settings.seed)

    def iter_batches(self, first_step: int) -> Generator[list[PretrainingBatch], None, None]:
        """Yield the micro-batches of each step, made ahead by other processes."""
        step, rank, size = first_step, self.world.rank, self.world.size
        while step < self.num_steps:
            shape = self.curriculum.find(step)
            end = self.curriculum.find_end(step)
            while end < self.num_steps and self.curriculum.find(end).stage == shape.stage:
                end = self.curriculum.find_end(end)
            batches = iter_steps(
                self.build_source(shape.length),
                batch_size=shape.batch_size,
                first_step=step - shape.first_step,
                num_steps=end - step,
                num_workers=self.settings.num_workers,
                max_tokens=self.settings.micro_batch_tokens,
                rank=rank,
                world_size=size,
            )
            max_empty = max(_MAX_EMPTY_STEPS, math.ceil(_MAX_EMPTY_EXAMPLES * size / shape.batch_size))
            # With more processes than sequences in a step, some processes have none of any step.
            has_share = rank * shape.batch_size // size < (rank + 1) * shape.batch_size // size
            num_empty = 0
            for found in batches:
                num_empty = 0 if found or not has_share else num_empty + 1
                if num_empty == max_empty:
                    raise InputError(
                        f"{self.data.whole.name}: {max_empty} steps in a row had no example of two "
                        f"sentences, which the objective {self.settings.examples.objective} needs; use "
                        "examples.objective=none, or longer documents"
                    )
                yield found
            step = end

    def count_tokens(self, batch: PretrainingBatch) -> int:
        return len(batch.ids_T)

    def is_new_stage(self, step: int) -> bool:
        return step > 0 and self.curriculum.find_end(step - 1) == step

    def find_cost(self, step: int) -> float:
        """Estimate the work before a step.

        All steps have about as many tokens, but the last layer is computed for few of them, and attention
        costs more on longer sequences (rates measured at nano, within 20%).
        """
        return sum(
            max(0, min(steps.stop, step) - steps.start) * (shape.depth - 0.35) * (1.0 + shape.length / 512)
            for shape, steps in self.curriculum.list_shapes()
        )

    def describe(self, step: int) -> dict[str, float]:
        shape = self.curriculum.find(step)
        return {"depth": shape.depth, "length": shape.length, "batch_size": shape.batch_size}

    def build_held_out(self, objective: str) -> ExampleSource:
        """The held-out examples with a sentence objective."""
        return build_held_out_source(
            self.data.held_out, self.data.tokenizer, self.settings.examples, objective=objective
        )

    def evaluate(self, step: int) -> dict[str, float]:
        """Evaluate on held-out documents at full length, with the depth that was trained last."""
        depth = self.curriculum.find(max(step, 1) - 1).depth
        found = self.ask(self.settings.examples.objective, depth=depth)
        figures = {f"{WORDS}_loss": found.word_loss.mean, f"{WORDS}_accuracy": found.word_accuracy.mean}
        if found.pair_accuracy is not None:
            figures[f"{self.pair_head}_accuracy"] = found.pair_accuracy.mean
        other = {"sop": "nsp", "nsp": "sop"}.get(self.pair_head or "")
        asks = self.settings.held_out.asks_both or step == self.num_steps
        if other is not None and asks and (other == "sop" or self.data.held_out.num_documents > 1):
            pairs = self.ask(other, depth=depth).pair_accuracy
            figures |= {} if pairs is None else {f"{other}_accuracy": pairs.mean}
        return figures

    def ask(self, objective: str, *, depth: int, num_examples: int | None = None) -> PassScores:
        """Evaluate held-out examples with a sentence objective."""
        return evaluate_pass(
            self.model,
            self.build_held_out(objective),
            num_examples=num_examples or self.settings.held_out.num_examples,
            max_tokens=self.settings.micro_batch_tokens,
            depth=depth,
            world=self.world,
        )

    def score(self, figures: dict[str, float]) -> float:
        return figures[f"{WORDS}_loss"]

    def check(self) -> float:
        """Check that the corpus fills one batch; return the share of examples that are dropped."""
        for shape, _ in self.curriculum.list_shapes():
            found = self.build_source(shape.length).num_examples
            if found < shape.batch_size:
                most = max(1, found * shape.length // self.settings.examples.max_length)
                raise InputError(
                    f"{self.data.whole.name}: {found} examples of {shape.length} pieces are less than one "
                    f"batch of {shape.batch_size}; use a batch_size of at most {most}, or more text"
                )
        first = self.curriculum.find(0)
        batches = self.build_source(first.length).build_step(0, batch_size=first.batch_size)
        return sum(batch.num_dropped for batch in batches) / first.batch_size
