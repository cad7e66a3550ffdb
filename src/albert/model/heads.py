"""The heads: logits from hidden states or pooled vectors.

Shapes: T tokens, B sequences, L longest sequence, M masked positions, D hidden width, E embedding width,
V vocabulary, K labels, C choices, S starts in the beam, Z ends of each.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from albert.errors import InputError
from albert.model.blocks import ACTIVATIONS
from albert.model.config import ModelConfig
from albert.model.tokens import Tokens


class MaskedLMHead(nn.Module):
    """Predict masked tokens. Only masked positions are given to it, so that no other logits are computed."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.embedding_size)
        self.norm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.activation = ACTIVATIONS[config.hidden_act]

    def forward(self, x_MD: Tensor, words_VE: Tensor) -> Tensor:
        x_ME = self.norm(self.activation(self.dense(x_MD)))
        return F.linear(x_ME, words_VE, self.bias)


class ClassificationHead(nn.Module):
    """Classify pooled sequences or tokens; with K = 1 predict a number. `dropout` defaults to the config's.

    Sentence-order prediction (paper, section 3.1) has two labels, 0 in order and 1 swapped, and no dropout.
    BERT's next-sentence prediction likewise has 0 next and 1 random. Multiple choice predicts a score.
    `num_vectors` of width D are concatenated in the input.
    """

    def __init__(
        self, config: ModelConfig, num_labels: int, *, dropout: float | None = None, num_vectors: int = 1
    ) -> None:
        super().__init__()
        self.linear = nn.Linear(num_vectors * config.hidden_size, num_labels)
        self.dropout = config.classifier_dropout_prob if dropout is None else dropout

    def forward(self, x_BD: Tensor) -> Tensor:
        x_BD = F.dropout(x_BD, self.dropout, self.training)
        # In the precision of the weights even under autocast: bf16 would cause ties.
        with torch.autocast(x_BD.device.type, enabled=False):
            logits_BK: Tensor = self.linear(x_BD.to(self.linear.weight.dtype))
        return logits_BK


class ExitHeads(nn.ModuleList):
    """Early-exit classifiers after every layer but the last, which has the classification head."""

    def __init__(self, config: ModelConfig, num_labels: int) -> None:
        if config.num_hidden_layers < 2:
            raise InputError("early exits need num_hidden_layers of at least 2, not 1")
        super().__init__(ClassificationHead(config, num_labels) for _ in range(config.num_hidden_layers - 1))


class VectorExit(nn.Module):
    """Map a text vector of fewer layers to that of all layers: v + up(down(v)), of low rank."""

    def __init__(self, width: int, rank: int) -> None:
        super().__init__()
        self.down = nn.Linear(width, rank, bias=False)
        self.up = nn.Linear(rank, width)

    def forward(self, x_BD: Tensor) -> Tensor:
        mapped_BD: Tensor = self.up(self.down(x_BD))
        return x_BD + mapped_BD


class VectorExits(nn.ModuleList):
    """Maps of the mean of the tokens after every layer but the last, trained in distillation.

    Without them, a layer would have to be the input of the next one and a text vector at the same time.
    """

    RANK = 32

    def __init__(self, config: ModelConfig) -> None:
        rank = min(self.RANK, config.hidden_size)
        super().__init__(VectorExit(config.hidden_size, rank) for _ in range(config.num_hidden_layers - 1))


class SpanHead(nn.Module):
    """Predict a start logit and an end logit for every token, as for SQuAD 1.1."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.linear = nn.Linear(config.hidden_size, 2)

    def forward(self, x_TD: Tensor) -> tuple[Tensor, Tensor]:
        start_T, end_T = self.linear(x_TD).unbind(-1)
        return start_T, end_T


@dataclass(frozen=True)
class SpanLogits:
    """Logits for training: start and end for every token (−inf where not allowed), and unanswerability."""

    start_T: Tensor
    end_T: Tensor
    unanswerable_B: Tensor


@dataclass(frozen=True)
class SpanBeam:
    """The best spans: indices count from the start of each sequence; −inf marks an empty slot."""

    start_indices_BS: Tensor
    start_log_probs_BS: Tensor
    end_indices_BSZ: Tensor
    end_log_probs_BSZ: Tensor
    unanswerable_B: Tensor


class BeamSpanHead(nn.Module):
    """Predict the end given a start, the true one in training and else the best few, as for SQuAD 2.0."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.start = nn.Linear(width, 1)
        self.end_dense = nn.Linear(2 * width, width)
        self.end_norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.end = nn.Linear(width, 1)
        self.answer_dense = nn.Linear(2 * width, width)
        self.answer = nn.Linear(width, 1, bias=False)
        self.dropout = config.classifier_dropout_prob

    def forward(
        self, x_TD: Tensor, tokens: Tokens, *, allowed_T: Tensor, true_starts_B: Tensor | None
    ) -> SpanLogits:
        """Compute logits; `allowed_T` marks the passage, `true_starts_B` are relative to each sequence.

        Without true starts, the ends are those of the most probable starts.
        """
        start_T = self._start_logits(x_TD, allowed_T)
        if true_starts_B is None:
            true_starts_B = torch.stack([logits_L.argmax() for logits_L in start_T.split(tokens.lengths)])
        return SpanLogits(
            start_T=start_T,
            end_T=self._end_logits(x_TD, tokens, allowed_T, true_starts_B),
            unanswerable_B=self._unanswerable(x_TD, tokens, start_T),
        )

    @torch.no_grad()
    def search(
        self, x_TD: Tensor, tokens: Tokens, *, allowed_T: Tensor, num_starts: int = 5, num_ends: int = 5
    ) -> SpanBeam:
        """Find the best `num_starts` starts of each sequence and the best `num_ends` ends of each start."""
        start_T = self._start_logits(x_TD, allowed_T)
        start_log_probs, start_indices = _best(start_T, tokens, num_starts)
        ends = [
            _best(self._end_logits(x_TD, tokens, allowed_T, start_indices[:, s]), tokens, num_ends)
            for s in range(num_starts)
        ]
        return SpanBeam(
            start_indices_BS=start_indices,
            start_log_probs_BS=start_log_probs,
            end_indices_BSZ=torch.stack([indices for _, indices in ends], dim=1),
            end_log_probs_BSZ=torch.stack([log_probs for log_probs, _ in ends], dim=1),
            unanswerable_B=self._unanswerable(x_TD, tokens, start_T),
        )

    def _start_logits(self, x_TD: Tensor, allowed_T: Tensor) -> Tensor:
        logits_T: Tensor = self.start(x_TD).squeeze(-1)
        return logits_T.masked_fill(~allowed_T, -torch.inf)

    def _end_logits(self, x_TD: Tensor, tokens: Tokens, allowed_T: Tensor, starts_B: Tensor) -> Tensor:
        start_BD = x_TD[tokens.first_B + starts_B]
        # [h; h_start]·W = h·W_left + h_start·W_right, of which the second term is constant in a sequence.
        left, right = self.end_dense.weight.chunk(2, dim=1)
        from_start_BD = F.linear(start_BD, right, self.end_dense.bias)
        y_TD = F.linear(x_TD, left) + _spread(from_start_BD, tokens)
        logits_T: Tensor = self.end(self.end_norm(torch.tanh(y_TD))).squeeze(-1)
        return logits_T.masked_fill(~allowed_T, -torch.inf)

    def _unanswerable(self, x_TD: Tensor, tokens: Tokens, start_T: Tensor) -> Tensor:
        sequences = zip(start_T.split(tokens.lengths), x_TD.split(tokens.lengths), strict=True)
        # A window without allowed tokens has no expected start: its weights are zero, not NaN.
        likely_start_BD = torch.stack([_softmax_or_zero(logits) @ x for logits, x in sequences])
        summary = torch.cat([likely_start_BD, x_TD[tokens.first_B]], dim=-1)
        y_BD = F.dropout(torch.tanh(self.answer_dense(summary)), self.dropout, self.training)
        logits_B: Tensor = self.answer(y_BD).squeeze(-1)
        return logits_B


def pool_mean(x_TD: Tensor, tokens: Tokens) -> Tensor:
    """Average all tokens of each sequence; returns [B, D]."""
    return _average(x_TD, _number_sequences(tokens), num_groups=len(tokens.lengths))


def pool_segments(x_TD: Tensor, tokens: Tokens) -> Tensor:
    """Compare the two texts of each sequence; returns [B, 3·D].

    The features are m, |u - v| and u·v, where m is the mean of all tokens and u and v are the means of the
    texts, without [CLS] and [SEP]. If a text is missing or empty, |u - v| and u·v are 0.
    """
    num_sequences = len(tokens.lengths)
    segment_T = 2 * _number_sequences(tokens) + tokens.segments_T
    is_text_T = F.pad(segment_T, (0, 1), value=-1).diff() == 0  # the last token of a segment is [SEP]
    is_text_T[tokens.first_B] = False
    group_T = segment_T.where(is_text_T, 2 * num_sequences)
    uv_B2D = _average(x_TD, group_T, num_groups=2 * num_sequences + 1)[:-1].unflatten(0, (-1, 2))
    counts_B2 = group_T.bincount(minlength=2 * num_sequences + 1)[:-1].unflatten(0, (-1, 2))
    u_BD, v_BD = (uv_B2D * counts_B2.all(1)[:, None, None]).unbind(1)
    return torch.cat([pool_mean(x_TD, tokens), (u_BD - v_BD).abs(), u_BD * v_BD], dim=1)


def _number_sequences(tokens: Tokens) -> Tensor:
    return _spread(torch.arange(len(tokens.lengths), device=tokens.ids_T.device), tokens)


def _average(x_TD: Tensor, group_T: Tensor, *, num_groups: int) -> Tensor:
    """Average the tokens of each group in float32; an empty group has zeros."""
    sums_GD = x_TD.new_zeros(num_groups, x_TD.shape[1], dtype=torch.float32)
    counts_G = group_T.bincount(minlength=num_groups).clamp(min=1)
    return sums_GD.index_add(0, group_T, x_TD.float()) / counts_G.unsqueeze(1)


@dataclass(frozen=True)
class HeadType:
    """A type of head.

    `num_outputs` is None if the user chooses it; `counted` is a weight of that length. The input of a head
    with `pool` is pooled by that function, that of a head with `is_pooled` by the model's pooler.
    """

    build: Callable[[ModelConfig, int], nn.Module]
    num_outputs: int | None
    is_pooled: bool
    counted: str = "linear.weight"
    pool: Callable[[Tensor, Tokens], Tensor] | None = None


def _build_pair_head(config: ModelConfig, num_labels: int) -> nn.Module:
    return ClassificationHead(config, num_labels, dropout=0.0)


def _build_segment_head(config: ModelConfig, num_labels: int) -> nn.Module:
    return ClassificationHead(config, num_labels, num_vectors=3)


def _build_teacher_map(config: ModelConfig, width: int) -> nn.Module:
    return nn.Linear(config.hidden_size, width, bias=False)


HEADS: dict[str, HeadType] = {
    "mlm": HeadType(lambda config, _: MaskedLMHead(config), 1, is_pooled=False),
    "sop": HeadType(_build_pair_head, 2, is_pooled=True),
    "nsp": HeadType(_build_pair_head, 2, is_pooled=True),
    "classification": HeadType(ClassificationHead, None, is_pooled=True),
    "mean_classification": HeadType(ClassificationHead, None, is_pooled=False, pool=pool_mean),
    "segment_classification": HeadType(_build_segment_head, None, is_pooled=False, pool=pool_segments),
    "exits": HeadType(ExitHeads, None, is_pooled=True, counted="0.linear.weight"),
    "token_classification": HeadType(ClassificationHead, None, is_pooled=False),
    "span": HeadType(lambda config, _: SpanHead(config), 2, is_pooled=False),
    "beam_span": HeadType(lambda config, _: BeamSpanHead(config), 2, is_pooled=False),
    "choice": HeadType(ClassificationHead, 1, is_pooled=True),
    "vector_exits": HeadType(lambda config, _: VectorExits(config), 1, is_pooled=False),
    # Only while a student is distilled whose teacher has another width.
    "teacher_map": HeadType(_build_teacher_map, None, is_pooled=False, counted="weight"),
}
# Heads whose outputs have names.
LABELED_HEADS = ("classification", "mean_classification", "segment_classification", "token_classification")
# Heads by name, with the number of outputs if it is chosen: {"mlm": None, "classification": 3}.
Heads = Mapping[str, int | None]


def check_head(name: str) -> str:
    """Return the name of a head, or raise an InputError if it is unknown."""
    if name not in HEADS:
        raise InputError(f"unknown head {name!r}; choose from {', '.join(HEADS)}")
    return name


def _softmax_or_zero(logits_L: Tensor) -> Tensor:
    is_somewhere = torch.isfinite(logits_L).any()
    # Both branches are finite, because a NaN that is not selected would still reach the gradients.
    return torch.softmax(torch.where(is_somewhere, logits_L, 0.0), 0) * is_somewhere


def _spread(x_BD: Tensor, tokens: Tokens) -> Tensor:
    """Repeat the row of each sequence for all its tokens."""
    lengths_B = torch.tensor(tokens.lengths, device=x_BD.device)
    return x_BD.repeat_interleave(lengths_B, dim=0, output_size=sum(tokens.lengths))


def _best(logits_T: Tensor, tokens: Tokens, count: int) -> tuple[Tensor, Tensor]:
    """Return log-probabilities and indices of the `count` best tokens of each sequence."""
    rows = [
        torch.log_softmax(logits, 0).nan_to_num(nan=-torch.inf, neginf=-torch.inf)
        for logits in logits_T.split(tokens.lengths)
    ]
    padded_BL = pad_sequence(rows, batch_first=True, padding_value=-torch.inf)
    if padded_BL.shape[1] < count:
        padded_BL = F.pad(padded_BL, (0, count - padded_BL.shape[1]), value=-torch.inf)
    best = padded_BL.topk(count, dim=1)
    # Empty slots point to the first token, so that every index is inside its sequence.
    return best.values, best.indices.masked_fill(best.values == -torch.inf, 0)
