"""Start a student from a trained teacher: tables by factorization, blocks from the teacher's layers.

A student that starts this way has most of the teacher's sentence meaning before its first step:

- The word table is projected on its principal components, weighted by how frequent the words are. The map
  from E to H is then the least-squares solution for the teacher's own embeddings.
- A block is the mean of the layers that it stands for, or one of them.
- A narrower feed-forward block keeps the neurons that the others can replace least, and its output map is
  fitted again. Trained feed-forward blocks are very redundant: a third of MiniLM's neurons keeps 92 to 99%
  of the variance of their outputs (docs/log.md).
- Another vocabulary is transplanted: a new token starts as the mean of the teacher's tokens of its text.

Shapes: T tokens, V words, W width of the teacher's tables, E of the student's, D hidden width, F
feed-forward width, K kept neurons.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from albert.errors import InputError
from albert.model.albert_model import AlbertModel
from albert.model.blocks import FeedForwardBlock
from albert.model.config import ModelConfig, build_sharing_table
from albert.model.encoder import Embeddings
from albert.model.tokens import Tokens
from albert.text.tokenizer import Tokenizer

LayerChoice = Literal["mean", "first", "middle", "last"]
_RIDGE = 1e-6  # of the mean variance, so that systems of equations have a solution


@dataclass(frozen=True)
class Teacher:
    """A trained model, and its word vectors for the student's vocabulary."""

    model: AlbertModel
    words_VW: Tensor


def transplant_words(teacher: AlbertModel, tokenizer: Tokenizer, student: Tokenizer) -> Teacher:
    """Give each token of the student's vocabulary the mean of the teacher's tokens of its text."""
    table_VW = teacher.encoder.embeddings.word.weight.detach()
    if tokenizer.fingerprint == student.fingerprint:
        return Teacher(teacher, table_VW)
    special = dict(zip(_list_special(student), _list_special(tokenizer), strict=True))
    texts = [student.decode([number]).strip() for number in range(student.vocab_size)]
    rows = []
    for number, ids in enumerate(tokenizer.encode_ids(texts)):
        known = [i for i in ids if i != tokenizer.unk_id] or [tokenizer.unk_id]
        chosen = [special[number]] if number in special else known
        rows.append(table_VW[chosen].mean(0))
    return Teacher(teacher, torch.stack(rows))


def _list_special(tokenizer: Tokenizer) -> tuple[int, ...]:
    return tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id


@torch.no_grad()
def init_from_teacher(
    student: AlbertModel,
    teacher: Teacher,
    *,
    counts: NDArray[np.int64],
    sample: Tokens,
    layers: LayerChoice = "mean",
) -> None:
    """Initialize a student's encoder, and its pooler if it fits, from a teacher.

    Args:
        student: The model to initialize, of any sharing; its heads stay as they are.
        teacher: The teacher, with word vectors for the student's vocabulary.
        counts: How often each token of the vocabulary occurs in the training text.
        sample: Some thousand tokens of the training text, to which maps are fitted.
        layers: Which of the teacher's layers a block becomes: the mean of those it stands for, or one.

    Raises:
        InputError: If the student is wider than the teacher, or has other heads.
    """
    check_shapes(student.config, teacher.model.config)
    frequency_V = torch.from_numpy(counts[: len(teacher.words_VW)]).double() + 1.0
    states = _run_teacher(teacher, sample)
    _init_embeddings(student.encoder.embeddings, teacher, frequency_V, sample, states[0])
    if student.config.hidden_size == teacher.model.config.hidden_size:
        _init_blocks(student, teacher.model, states, sample, layers)
        pooler = teacher.model.pooler
        if student.pooler is not None and pooler is not None:
            student.pooler.load_state_dict(pooler.state_dict())


def check_shapes(student: ModelConfig, teacher: ModelConfig) -> None:
    """Raise an InputError if a student of this shape cannot start from the teacher."""
    width = teacher.embedding_size
    limits = {"embedding_size": width, "max_position_embeddings": teacher.max_position_embeddings}
    if student.hidden_size == teacher.hidden_size:
        limits["intermediate_size"] = teacher.intermediate_size
        if student.num_attention_heads != teacher.num_attention_heads:
            raise InputError(
                f"num_attention_heads is {student.num_attention_heads}, and the teacher has "
                f"{teacher.num_attention_heads}; a student that starts from its layers needs as many"
            )
    for key, limit in limits.items():
        if getattr(student, key) > limit:
            raise InputError(f"{key} is {getattr(student, key)}, more than the teacher's {limit}; lower it")


@dataclass(frozen=True)
class _LayerStates:
    """The teacher's hidden states of the sample: the input of a layer, and of its feed-forward block."""

    input_TD: Tensor
    middle_TD: Tensor


def _run_teacher(teacher: Teacher, sample: Tokens) -> list[_LayerStates]:
    """Run the teacher on a sample, in the order of the batch; the last entry is its output."""
    encoder, tables = teacher.model.encoder, teacher.model.encoder.embeddings
    x_TW = teacher.words_VW[sample.ids_T] + tables.position(sample.positions_T)
    x_TD = tables.norm(x_TW + tables.segment(sample.segments_T))
    x_TD = x_TD if tables.map is None else tables.map(x_TD)
    layout = encoder.lay_out(sample)
    x_TD = layout.sort(x_TD)
    states = []
    for layer in encoder.table:
        for block in layer:
            middle_TD = encoder.attention[block.attention](x_TD, layout)
            states.append(_LayerStates(layout.unsort(x_TD), layout.unsort(middle_TD)))
            x_TD = encoder.ffn[block.ffn](middle_TD)
    return [*states, _LayerStates(layout.unsort(x_TD), layout.unsort(x_TD))]


def _init_embeddings(
    tables: Embeddings, teacher: Teacher, frequency_V: Tensor, sample: Tokens, first: _LayerStates
) -> None:
    """Project the tables on the principal components of the frequent words; fit the map to the result."""
    source = teacher.model.encoder.embeddings
    word_VW = teacher.words_VW.double()
    mean_W = frequency_V @ word_VW / frequency_V.sum()
    project_WE = torch.eye(word_VW.shape[1], dtype=torch.float64)
    if tables.word.embedding_dim < len(project_WE):
        centered_VW = word_VW - mean_W
        covariance_WW = (centered_VW * frequency_V[:, None]).T @ centered_VW
        components_WE = torch.linalg.eigh(covariance_WW).eigenvectors[:, -tables.word.embedding_dim :]
        # Rotated at random: the norm subtracts the mean over E, which must not be a principal component.
        generator = torch.Generator().manual_seed(0)
        mixed_EE = torch.randn(*components_WE.shape[1:] * 2, generator=generator, dtype=torch.float64)
        project_WE = components_WE @ torch.linalg.qr(mixed_EE).Q
        word_VW = centered_VW
    else:
        tables.norm.load_state_dict(source.norm.state_dict())
    position_LW, segment_SW = source.position.weight.double(), source.segment.weight.double()
    if tables.word.embedding_dim < len(mean_W):
        position_LW, segment_SW = position_LW - position_LW.mean(0), segment_SW - segment_SW[0]
    tables.word.weight[: len(word_VW)] = (word_VW @ project_WE).float()
    tables.position.weight.copy_(position_LW[: len(tables.position.weight)] @ project_WE)
    tables.segment.weight.copy_(segment_SW[: len(tables.segment.weight)] @ project_WE)
    if tables.map is not None:
        x_TE = tables.word(sample.ids_T) + tables.position(sample.positions_T)
        x_TE = tables.norm(x_TE + tables.segment(sample.segments_T))
        target_TD = _fit_width(first.input_TD, tables.map.out_features)
        _set_linear(tables.map, _solve_least_squares(x_TE, target_TD))


def _fit_width(x_TD: Tensor, width: int) -> Tensor:
    """Project on as many principal components as the student is wide."""
    if x_TD.shape[1] == width:
        return x_TD
    components_DD: Tensor = torch.linalg.eigh(x_TD.T @ x_TD).eigenvectors
    return x_TD @ components_DD[:, -width:]


def _init_blocks(
    student: AlbertModel,
    teacher: AlbertModel,
    states: Sequence[_LayerStates],
    sample: Tokens,
    layers: LayerChoice,
) -> None:
    attention_of, ffn_of = _match_layers(student.config, teacher.config, layers)
    encoder, table = teacher.encoder, [block for layer in teacher.encoder.table for block in layer]
    for number, chosen in attention_of.items():
        blocks = [encoder.attention[table[index].attention] for index in chosen]
        student.encoder.attention[number].load_state_dict(_average(blocks))
    for number, chosen in ffn_of.items():
        merged = FeedForwardBlock(teacher.config)
        merged.load_state_dict(_average([encoder.ffn[table[index].ffn] for index in chosen]))
        inputs_TD = torch.cat([states[index].middle_TD[:: len(chosen)] for index in chosen])
        block = student.encoder.ffn[number]
        assert isinstance(block, FeedForwardBlock)
        _init_ffn(block, merged, inputs_TD)


def _match_layers(
    student: ModelConfig, teacher: ModelConfig, layers: LayerChoice
) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """Match each attention and each feed-forward block with the teacher's layers that it stands for."""
    steps = [block for layer in build_sharing_table(student) for block in layer]
    total = teacher.num_hidden_layers * teacher.inner_group_num
    attention_of: dict[int, list[int]] = {}
    ffn_of: dict[int, list[int]] = {}
    for index, block in enumerate(steps):
        first, last = index * total // len(steps), (index + 1) * total // len(steps)
        matched = list(range(first, max(last, first + 1)))
        attention_of.setdefault(block.attention, []).extend(matched)
        ffn_of.setdefault(block.ffn, []).extend(matched)

    def choose(found: list[int]) -> list[int]:
        listed = sorted(set(found))
        index = {"first": 0, "middle": len(listed) // 2, "last": -1}
        return listed if layers == "mean" else [listed[index[layers]]]

    return {k: choose(v) for k, v in attention_of.items()}, {k: choose(v) for k, v in ffn_of.items()}


def _average(blocks: Sequence[nn.Module]) -> dict[str, Tensor]:
    states = [block.state_dict() for block in blocks]
    return {name: torch.stack([state[name] for state in states]).mean(0) for name in states[0]}


def _init_ffn(block: FeedForwardBlock, source: FeedForwardBlock, inputs_TD: Tensor) -> None:
    """Keep the neurons that the others can replace least, and fit the output map to the full block's output.

    Removing neuron j and fitting the others again raises the squared error by ‖w‖² / (G⁻¹)ⱼⱼ, where w is its
    column of the output map and G the second moments of the activations (Optimal Brain Surgeon, Hassibi and
    Stork 1993). The bias is one more neuron, which is kept.
    """
    block.norm.load_state_dict(source.norm.state_dict())
    number = block.inner.out_features
    if number == source.inner.out_features:
        block.load_state_dict(source.state_dict())
        return
    active_TF = source.activation(source.inner(inputs_TD)).double()
    active_TF = torch.cat([active_TF, torch.ones(len(active_TF), 1, dtype=torch.float64)], dim=1)
    output_DF = torch.cat([source.output.weight, source.output.bias[:, None]], dim=1).double()
    moments_FF = active_TF.T @ active_TF / len(active_TF)
    moments_FF += _RIDGE * moments_FF.diagonal().mean() * torch.eye(len(moments_FF), dtype=torch.float64)
    inverse_FF, fitted_DF = torch.linalg.inv(moments_FF), output_DF.clone()
    is_kept = torch.ones(len(moments_FF), dtype=torch.bool)
    for _ in range(len(moments_FF) - 1 - number):
        cost_F = fitted_DF.square().sum(0) / inverse_FF.diagonal()
        cost_F[~is_kept], cost_F[-1] = torch.inf, torch.inf  # the last one is the bias
        j = int(cost_F.argmin())
        is_kept[j] = False
        # The others take over what the neuron did: its column of the output map becomes 0.
        row_F, column_F = inverse_FF[j] / inverse_FF[j, j], inverse_FF[:, j].clone()
        fitted_DF.addr_(fitted_DF[:, j].clone(), row_F, alpha=-1)
        inverse_FF.addr_(column_F, row_F, alpha=-1)
    is_kept[-1] = False
    kept_K = is_kept.nonzero().squeeze(1)
    block.inner.weight.copy_(source.inner.weight[kept_K])
    block.inner.bias.copy_(source.inner.bias[kept_K])
    block.output.weight.copy_(fitted_DF[:, kept_K])
    block.output.bias.copy_(fitted_DF[:, -1])


def _solve_least_squares(x_TE: Tensor, target_TD: Tensor) -> Tensor:
    """Solve for a map with bias, in the last row, that takes x to the target."""
    x_TE = torch.cat([x_TE, torch.ones(len(x_TE), 1)], dim=1).double()
    moments_EE = x_TE.T @ x_TE
    ridge_EE = _RIDGE * moments_EE.diagonal().mean() * torch.eye(len(moments_EE), dtype=torch.float64)
    solution_ED: Tensor = torch.linalg.solve(moments_EE + ridge_EE, x_TE.T @ target_TD.double())
    return solution_ED


def _set_linear(linear: nn.Linear, solution_ED: Tensor) -> None:
    linear.weight.copy_(solution_ED[:-1].T)
    linear.bias.copy_(solution_ED[-1])
