"""Distillation: a trained teacher's hidden states, attention relations and text vectors as targets.

The losses are sums with their counts, as those of pretraining, with which they are trained together. A
teacher of another vocabulary reads the decoded text; then only text vectors can be compared, not tokens.

Shapes: T tokens, U of them without a mask, B sequences, D hidden width of the teacher, R relation heads.
"""

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from albert.data.corpus import Corpus
from albert.errors import InputError
from albert.examples.batches import ExampleSource, GroupedSource, PretrainingBatch, remove_masks
from albert.model.albert_model import AlbertModel, build_model
from albert.model.blocks import AttentionBlock
from albert.model.config import ModelConfig
from albert.model.heads import pool_mean
from albert.model.tokens import Tokens
from albert.pretrained.folder import load_model, load_vocabulary
from albert.pretrained.from_teacher import Teacher, check_shapes, init_from_teacher, transplant_words
from albert.pretrained.hub import resolve_source
from albert.pretrained.sentence_transformers import read_pooling
from albert.settings import apply_overrides, build_settings
from albert.text.tokenizer import Encoding, Tokenizer
from albert.training.distributed import DistributedContext
from albert.training.losses import MLM, PretrainLosses, build_tokens, count_tokens
from albert.training.settings import DistillationSettings

_SAMPLE_LENGTH, _NUM_SAMPLES = 62, 256
_SHAPE_KEYS = (
    "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act",
    "max_position_embeddings", "type_vocab_size", "layer_norm_eps",
)  # fmt: skip
TEACHER_LOSSES = ("hidden", "relation", "embedding", "similarity", "exit")
HIDDEN, RELATION, EMBEDDING, SIMILARITY, EXIT = TEACHER_LOSSES
EXITS = "vector_exits"  # the head that maps vectors of fewer layers to those of all
TEACHER_MAP = "teacher_map"  # the head that maps the student's states to the teacher's width
_POOLINGS = ("mean", "cls")


@dataclass(frozen=True)
class DistillationTeacher:
    """A frozen model, its tokenizer and its pooling, and the tokenizer of the student."""

    model: AlbertModel
    tokenizer: Tokenizer
    student_tokenizer: Tokenizer
    pooling: str

    @property
    def has_same_vocabulary(self) -> bool:
        return self.tokenizer.fingerprint == self.student_tokenizer.fingerprint

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the weights and the vocabulary."""
        digest = hashlib.sha256(self.tokenizer.fingerprint.encode())
        for name, tensor in sorted(self.model.encoder.state_dict().items()):
            digest.update(name.encode())
            digest.update(tensor.cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    @cached_property
    def for_student(self) -> Teacher:
        """The teacher with word vectors for the student's vocabulary."""
        return transplant_words(self.model, self.tokenizer, self.student_tokenizer)

    def build_tokens(self, batch: PretrainingBatch) -> Tokens:
        """Return the unmasked texts of a batch as the teacher's tokens."""
        plain = build_tokens(remove_masks(batch), self.model.device)
        if self.has_same_vocabulary:
            return plain
        limit, sequences = self.model.config.max_position_embeddings, []
        rows = zip(plain.ids_T.split(plain.lengths), plain.segments_T.split(plain.lengths), strict=True)
        for ids_L, segments_L in rows:
            parts = [ids_L[segments_L == segment].tolist() for segment in range(int(segments_L.max()) + 1)]
            texts = [self.student_tokenizer.decode(part) for part in parts]
            encoded = [Encoding(tuple(ids), ()) for ids in self.tokenizer.encode_ids(texts)]
            sequence = self.tokenizer.build_sequence(*encoded)
            sequences.append((sequence.ids[:limit], sequence.segments[:limit]))
        ids, segments = zip(*sequences, strict=True)
        return Tokens.from_lists(ids, segments, device=self.model.device)

    def pool(self, last_TD: Tensor, tokens: Tokens) -> Tensor:
        """Pool a vector of length 1 for each sequence."""
        vectors_BD = last_TD[tokens.first_B] if self.pooling == "cls" else pool_mean(last_TD, tokens)
        return F.normalize(vectors_BD, dim=1)


def load_teacher(settings: DistillationSettings, student: Tokenizer) -> DistillationTeacher:
    """Load a teacher: any model folder, those of sentence-transformers with their pooling.

    Raises:
        InputError: If it has another vocabulary and losses on tokens are asked for, or an unknown pooling.
    """
    if settings.teacher is None:
        raise InputError("distillation.teacher is missing; give the folder or the name of a trained model")
    source, path = settings.teacher, resolve_source(settings.teacher)
    model = load_model(path).model.requires_grad_(False)
    tokenizer = load_vocabulary(path)
    pooling = (read_pooling(path) if path.is_dir() else None) or "mean"
    if pooling not in _POOLINGS:
        raise InputError(f"{source}: has the pooling {pooling}; a teacher needs {' or '.join(_POOLINGS)}")
    teacher = DistillationTeacher(model, tokenizer, student, pooling)
    if not teacher.has_same_vocabulary and (settings.hidden_weight or settings.relation_weight):
        raise InputError(
            f"{source}: has another vocabulary than the corpus; prepare the corpus with --vocab {source}, or "
            "set distillation.hidden_weight=0 and distillation.relation_weight=0 to compare whole texts only"
        )
    return teacher


def list_student_heads(
    settings: DistillationSettings, student: ModelConfig, teacher: ModelConfig, *, pair_head: str | None
) -> dict[str, int | None]:
    """List the heads that a student is distilled with; one maps its states to the teacher's width."""
    weights = rename_weights(settings, pair_head=pair_head)
    heads: dict[str, int | None] = {name: None for name in (MLM, pair_head) if name in weights and name}
    width = teacher.hidden_size
    heads |= {EXITS: None} if settings.exit_depths else {}
    return heads | ({} if width == student.hidden_size else {TEACHER_MAP: width})


def complete_student(model: ModelConfig | None, teacher: ModelConfig) -> ModelConfig:
    """Take the shape that a recipe leaves open from the teacher."""
    given = {} if model is None else model.model_dump(include=model.model_fields_set)
    shape = {key: getattr(teacher, key) for key in _SHAPE_KEYS}
    return build_settings(ModelConfig, values={**shape, **given}, source="model of the recipe")


def start_student(
    model: AlbertModel, teacher: DistillationTeacher, corpus: Corpus, settings: DistillationSettings
) -> None:
    """Initialize a student from the teacher, with word counts and a sample of the corpus."""
    counts = count_tokens(corpus)
    if settings.init != "none":
        part = corpus.parts[0]
        ids = part.tokens[: _SAMPLE_LENGTH * _NUM_SAMPLES]
        tokenizer = teacher.student_tokenizer
        rows = [
            [tokenizer.cls_id, *ids[start : start + _SAMPLE_LENGTH].tolist(), tokenizer.sep_id]
            for start in range(0, len(ids), _SAMPLE_LENGTH)
        ]
        sample = Tokens.from_lists(rows, device=teacher.model.device)
        init_from_teacher(model, teacher.for_student, counts=counts, sample=sample, layers=settings.init)
    if MLM in model.heads:
        frequency_V = torch.from_numpy(counts).float() + 1.0
        with torch.no_grad():
            model.head(MLM).get_parameter("bias").copy_((frequency_V / frequency_V.mean()).log())


def group_examples(source: ExampleSource, settings: DistillationSettings) -> GroupedSource:
    """Build the groups of single texts and pairs that the settings ask for."""
    return GroupedSource(
        source,
        settings.group_size,
        settings.single_share,
        is_masked=bool(settings.mlm_weight),
        replaced_share=settings.replaced_share,
    )


def shrink_model(path: Path, corpus: Corpus, overrides: Iterable[str]) -> AlbertModel:
    """Build a smaller model from a trained one, as distillation starts it; `overrides` change the config."""
    model, tokenizer = load_model(path).model, load_vocabulary(path)
    changes = apply_overrides({}, overrides)
    values = {**model.config.model_dump(), "has_embedding_map": None, **changes}
    config = build_settings(ModelConfig, values=values, source="--shrink")
    teacher = DistillationTeacher(model.requires_grad_(False), tokenizer, tokenizer, "mean")
    has_pooler = model.pooler is not None and config.hidden_size == model.config.hidden_size
    student = build_model(config, heads={}, has_pooler=has_pooler)
    start_student(student, teacher, corpus, DistillationSettings())
    return student


def match_layers(
    settings: DistillationSettings, *, student: int, teacher: int
) -> tuple[tuple[int, int], ...]:
    """Match layers of the student with those of the teacher at the same share of the depth; 0: embeddings."""
    if settings.layers is None:
        return tuple((i, i * teacher // student) for i in range(student + 1) if i * teacher % student == 0)
    for ours, theirs in settings.layers:
        if not (0 <= ours <= student and 0 <= theirs <= teacher):
            raise InputError(
                f"distillation.layers has [{ours}, {theirs}]; the student has layers 0 to {student}, the "
                f"teacher 0 to {teacher}"
            )
    return settings.layers


def rename_weights(settings: DistillationSettings, *, pair_head: str | None) -> dict[str, float]:
    """Return the weights of the losses by name; that of the sentence head has the head's name."""
    weights = settings.weights
    pair_weight = weights.pop("pair", 0.0)
    return weights | ({pair_head: pair_weight} if pair_head is not None and pair_weight else {})


class DistillationLosses(PretrainLosses):
    """The losses of pretraining, as far as they have weights, and those against a teacher.

    - hidden: squared distance of matched hidden states, in units of the teacher's variance, at tokens that
      are not masked, and not at [CLS] where it predicts the order of segments.
    - relation: divergence of the softmax of query-query, key-key and value-value products of the last layer
      (MiniLMv2).
    - embedding: 1 − cosine of the pooled texts.
    - similarity: squared difference of all cosines in the group.
    - exit: embedding and similarity at each of `exit_depths`, so that fewer layers serve as well.
    """

    def __init__(
        self,
        model: AlbertModel,
        *,
        pair_head: str | None,
        teacher: DistillationTeacher,
        settings: DistillationSettings,
    ) -> None:
        super().__init__(model, pair_head=pair_head)
        self._teacher = [teacher]  # in a list: it is no part of the module, which is saved and sharded
        self.settings = settings
        self.weights = rename_weights(settings, pair_head=pair_head)
        if settings.init != "none":
            check_shapes(model.config, teacher.model.config)
        number, exits = model.config.num_hidden_layers, settings.exit_depths
        if max(exits, default=0) > number and not model.config.is_fully_shared:
            raise InputError(
                f"distillation.exit_depths has {max(exits)}, but the student has {number} layers; set "
                f"distillation.exit_depths={[depth for depth in exits if depth <= number]}"
            )
        self.layers = match_layers(
            settings,
            student=model.config.num_hidden_layers,
            teacher=teacher.model.config.num_hidden_layers,
        )

    @property
    def teacher(self) -> DistillationTeacher:
        return self._teacher[0]

    def count(self, batch: PretrainingBatch) -> dict[str, int]:
        """Count what each loss is summed over, before the model has run."""
        num_sequences = len(batch.lengths)
        num_plain = len(batch.ids_T) - len(batch.masked_M) - num_sequences * self._has_pairs(batch)
        counts = {
            MLM: len(batch.masked_M),
            HIDDEN: num_plain * len(self.layers),
            RELATION: 3 * self.settings.num_relation_heads * len(batch.ids_T),
            EMBEDDING: num_sequences,
            SIMILARITY: num_sequences**2,
            EXIT: num_sequences * len(self.settings.exit_depths),
        }
        if self.pair_head is not None:
            counts[self.pair_head] = num_sequences if batch.has_labels else 0
        return {name: count for name, count in counts.items() if name in self.weights}

    def forward(
        self, batch: PretrainingBatch, *, depth: int | None = None
    ) -> dict[str, tuple[Tensor, Tensor]]:
        teacher, settings = self.teacher, self.settings
        with torch.no_grad():
            theirs = teacher.build_tokens(batch)
            target = teacher.model(theirs, with_hidden_states=True).hidden_states
            target_BD = teacher.pool(target[-1], theirs)
        ours = build_tokens(batch, self.model.device)
        full = depth or self.model.config.num_hidden_layers
        states = self.model(
            ours, depth=max((full, *settings.exit_depths)), with_hidden_states=True
        ).hidden_states
        last_TD = states[full]
        terms: dict[str, tuple[Tensor, Tensor]] = {}
        masked_M = torch.from_numpy(batch.masked_M).to(last_TD.device)
        if MLM in self.weights:
            terms = self.compute_terms(batch, last_TD[masked_M], last_TD[ours.first_B])
        if HIDDEN in self.weights:
            plain_T = torch.ones(len(last_TD), dtype=torch.bool, device=last_TD.device)
            plain_T[masked_M] = False
            if self._has_pairs(batch):
                plain_T[ours.first_B] = False
            matched = [(i, k) for i, k in self.layers if i <= full]
            total = torch.stack(
                [compare_states(self._map(states[i]), target[k], plain_T) for i, k in matched]
            ).sum()
            terms[HIDDEN] = _without_accuracy(total * (len(self.layers) / len(matched)))
        if RELATION in self.weights:
            total = self._compare_relations(states[full - 1], target[-2], ours, full)
            terms[RELATION] = _without_accuracy(total)
        vectors_BD = self._pool(last_TD, ours)
        if EMBEDDING in self.weights:
            terms[EMBEDDING] = _without_accuracy(_compare_vectors(vectors_BD, target_BD))
        if SIMILARITY in self.weights:
            terms[SIMILARITY] = _without_accuracy(_compare_similarities(vectors_BD, target_BD))
        if EXIT in self.weights:
            exits = [self._pool(states[number], ours, depth=number) for number in settings.exit_depths]
            ratio = self.weights.get(SIMILARITY, 0.0) / self.weights.get(EMBEDDING, 1.0) / len(target_BD)
            total = torch.stack(
                [
                    _compare_vectors(exit_BD, target_BD) + ratio * _compare_similarities(exit_BD, target_BD)
                    for exit_BD in exits
                ]
            ).sum()
            terms[EXIT] = _without_accuracy(total)
        return {name: term for name, term in terms.items() if name in self.weights}

    def _has_pairs(self, batch: PretrainingBatch) -> bool:
        """Return whether [CLS] predicts the order of segments, which the teacher's does not know."""
        return batch.has_labels and self.pair_head in self.weights

    def _map(self, x_TD: Tensor) -> Tensor:
        if TEACHER_MAP not in self.model.heads:
            return x_TD
        mapped_TD: Tensor = self.model.head(TEACHER_MAP)(x_TD)
        return mapped_TD

    def _pool(self, x_TD: Tensor, tokens: Tokens, *, depth: int | None = None) -> Tensor:
        return F.normalize(self._map(self.model.pool_mean(x_TD, tokens, depth=depth)), dim=1)

    def _compare_relations(self, x_TD: Tensor, target_TD: Tensor, tokens: Tokens, depth: int) -> Tensor:
        """Sum the divergences over sequences, relation heads and tokens; both sides read the last layer."""
        encoder, teacher = self.model.encoder, self.teacher.model.encoder
        ours = encoder.attention[encoder.select_layers(depth)[-1][-1].attention]
        theirs = teacher.attention[teacher.table[-1][-1].attention]
        total = x_TD.new_zeros(())
        for x_TR, target_TR in zip(_map_heads(ours, x_TD), _map_heads(theirs, target_TD), strict=True):
            for x_L, target_L in zip(
                x_TR.split(tokens.lengths), target_TR.split(tokens.lengths), strict=True
            ):
                log_ours = self._relate(x_L).log_softmax(-1)
                log_theirs = self._relate(target_L).log_softmax(-1)
                total = total + F.kl_div(log_ours, log_theirs, reduction="sum", log_target=True)
        return total

    def _relate(self, x_LD: Tensor) -> Tensor:
        x_RLH = x_LD.view(len(x_LD), self.settings.num_relation_heads, -1).transpose(0, 1)
        return x_RLH @ x_RLH.transpose(1, 2) / math.sqrt(x_RLH.shape[-1])


def _map_heads(block: nn.Module, x_TD: Tensor) -> list[Tensor]:
    assert isinstance(block, AttentionBlock)
    return [part(x_TD) for part in (block.query, block.key, block.value)]


def compare_states(x_TD: Tensor, target_TD: Tensor, plain_T: Tensor | slice = slice(None)) -> Tensor:
    """Sum the squared distances at the tokens `plain_T`, in units of the teacher's variance."""
    variance = (target_TD - target_TD.mean(0)).square().sum() / len(target_TD)
    return (x_TD[plain_T] - target_TD[plain_T]).square().sum() / variance


def _compare_vectors(x_BD: Tensor, target_BD: Tensor) -> Tensor:
    return (1.0 - (x_BD * target_BD).sum(1)).sum()


def _compare_similarities(x_BD: Tensor, target_BD: Tensor) -> Tensor:
    return (x_BD @ x_BD.T - target_BD @ target_BD.T).square().sum()


def _without_accuracy(total: Tensor) -> tuple[Tensor, Tensor]:
    return total, total.new_full((), math.nan)


@torch.inference_mode()
def evaluate_distillation(
    losses: DistillationLosses, source: GroupedSource, *, num_examples: int, context: DistributedContext
) -> dict[str, float]:
    """Compute the mean losses against the teacher on the first examples of a held-out source."""
    total = min(num_examples, source.num_examples) // source.group_size * source.group_size
    sums = {name: np.zeros(3) for name in losses.weights}  # loss, correct predictions, count
    batches = source.build_step(0, batch_size=max(total, source.group_size))
    for batch in batches[context.rank :: context.size]:
        counts = losses.count(batch)
        for name, (value, num_correct) in losses(batch).items():
            sums[name] += (float(value), float(num_correct), counts[name])
    rows = context.gather_floats(np.concatenate(list(sums.values())).tolist())
    table = np.array(rows).sum(0).reshape(-1, 3)
    means = table[:, :2] / np.maximum(table[:, 2:], 1)
    figures = {f"{name}_loss": float(mean) for name, mean in zip(sums, means[:, 0], strict=True)}
    accuracies = {f"{name}_accuracy": float(mean) for name, mean in zip(sums, means[:, 1], strict=True)}
    return figures | {name: value for name, value in accuracies.items() if math.isfinite(value)}
