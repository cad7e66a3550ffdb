"""What stands on the encoder: hidden states or pooled vectors come in, logits go out.

Shapes: T tokens, B sequences, M masked places, D hidden width, E embedding width, V vocabulary, K labels,
C choices.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from albert.errors import InputError
from albert.model.activations import ACTIVATIONS
from albert.model.config import ModelConfig


class WordHead(nn.Module):
    """Masked-word prediction. It sees only the gathered places, so logits exist for no other token."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.embedding_size)
        self.norm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.activation = ACTIVATIONS[config.hidden_act]

    def forward(self, x_MD: Tensor, words_VE: Tensor) -> Tensor:
        """Logits over the vocabulary; `words_VE` is the embedding's own word table."""
        x_ME = self.norm(self.activation(self.dense(x_MD)))
        return F.linear(x_ME, words_VE, self.bias)


def _apply_exactly(linear: nn.Linear, x_BD: Tensor) -> Tensor:
    """In the precision of its weights, also where all else runs in bf16, whose eight bits would make ties.

    It is next to no work: a few outputs.
    """
    with torch.autocast(x_BD.device.type, enabled=False):
        logits_BK: Tensor = linear(x_BD.to(linear.weight.dtype))
    return logits_BK


class PairHead(nn.Module):
    """Sentence order (0 in order, 1 swapped) or next sentence (0 next, 1 random); no dropout."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.linear = nn.Linear(config.hidden_size, 2)

    def forward(self, pooled_BD: Tensor) -> Tensor:
        """Logits [B, 2]."""
        return _apply_exactly(self.linear, pooled_BD)


class ClassificationHead(nn.Module):
    """Labels of whole sequences, or a number where K = 1; of single tokens where it is given those."""

    def __init__(self, config: ModelConfig, num_labels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(config.hidden_size, num_labels)
        self.dropout = config.classifier_dropout_prob

    def forward(self, x_BD: Tensor) -> Tensor:
        """Logits [B, K] of pooled vectors, or [T, K] of hidden states."""
        return _apply_exactly(self.linear, F.dropout(x_BD, self.dropout, self.training))


class ExitHeads(nn.ModuleList):
    """A classifier after every layer but the last, so that easy sequences need not run them all.

    After the last layer stands the ordinary classifier: at full depth the model is one without exits.
    """

    def __init__(self, config: ModelConfig, num_labels: int) -> None:
        if config.num_hidden_layers < 2:
            raise InputError("num_hidden_layers is 1: exits lie before the last layer, so take 2 or more")
        super().__init__(ClassificationHead(config, num_labels) for _ in range(config.num_hidden_layers - 1))


class ChoiceHead(ClassificationHead):
    """One score for each of C neighbouring sequences, which compete with each other."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, num_labels=1)


class SpanHead(nn.Module):
    """SQuAD 1.1: where an answer starts and where it ends, each a logit for every token."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.linear = nn.Linear(config.hidden_size, 2)

    def forward(self, x_TD: Tensor) -> tuple[Tensor, Tensor]:
        """Start logits [T] and end logits [T]."""
        start_T, end_T = self.linear(x_TD).unbind(-1)
        return start_T, end_T
