"""Initialize the weights of a new model: as published, or with two options for small models.

Sinusoidal positions and word-matching heads help small models leave the unigram plateau. To compare two
texts, a model must detect which words they share. A head whose queries and keys are the same projection of
the word embedding attends to all occurrences of its word, and its output shows whether one of them is in the
other segment. Small models do not learn such heads, and masked language modeling soon changes heads that are
only initialized this way (docs/log.md). So they are recomputed from the embeddings after every step.

Shapes: V words, L positions, S segments, E embedding width, D hidden width, H width of a head, R excluded
directions.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from albert.errors import InputError
from albert.model.blocks import AttentionBlock
from albert.model.encoder import Embeddings, Encoder

# The probability below −2 standard deviations of a normal distribution.
_TAIL = (1 + math.erf(-2 / math.sqrt(2))) / 2
# The logit of a word with itself, which gives it about half of the attention among a hundred others.
_OWN_WORD = 5.0
# The share of embedding directions that matching ignores: those that positions use most.
_POSITION_SHARE = 1 / 3
# The number of words by which the scale is measured.
_NUM_WORDS = 1000


@torch.no_grad()
def init_weights(module: nn.Module, *, std: float, generator: torch.Generator | None = None) -> None:
    """Draw weights from a truncated normal in the order of the modules; biases are 0, norms 1."""
    for part in module.modules():
        if isinstance(part, nn.LayerNorm):
            nn.init.ones_(part.weight)
        elif isinstance(part, nn.Linear | nn.Embedding):
            _draw_truncated_normal(part.weight, std, generator)
        bias = getattr(part, "bias", None)
        if isinstance(bias, Tensor):
            nn.init.zeros_(bias)


def _draw_truncated_normal(tensor: Tensor, std: float, generator: torch.Generator | None) -> None:
    """Draw by the inverse distribution function, 20 times faster than torch's rejection sampling."""
    tensor.uniform_(2 * _TAIL - 1, 1 - 2 * _TAIL, generator=generator)
    tensor.erfinv_().mul_(std * math.sqrt(2)).clamp_(-2 * std, 2 * std)


@torch.no_grad()
def init_sinusoidal(weight_LE: Tensor, *, std: float) -> None:
    """Initialize position embeddings as sinusoids, which are then trained like any others.

    A shift is the same linear map at every position, so that a model learns once to attend to neighbors, not
    for each position. This takes it off the plateau.
    """
    length, width = weight_LE.shape
    position_L1 = torch.arange(length, dtype=torch.float64)[:, None]
    rate_H = torch.exp(torch.arange(width // 2, dtype=torch.float64) * (-math.log(10_000.0) / (width / 2)))
    angle_LH = position_L1 * rate_H
    wave_LE = torch.cat([angle_LH.sin(), angle_LH.cos()], dim=1) * (std * math.sqrt(2.0))
    weight_LE[:, : wave_LE.shape[1]] = wave_LE.to(weight_LE)


class WordMatching:
    """Word-matching heads, the first of every block. Models of equal shape have the same directions."""

    def __init__(self, encoder: Encoder, *, num_heads: int) -> None:
        self.tables: Embeddings = encoder.embeddings
        self.blocks = [part for part in encoder.modules() if isinstance(part, AttentionBlock)]
        width, hidden_size = self.tables.word.weight.shape[1], self.blocks[0].query.weight.shape[0]
        total = self.blocks[0].num_heads
        if num_heads > total:
            raise InputError(f"num_matching_heads {num_heads} exceeds the model's {total} heads; lower it")
        if width > hidden_size:
            raise InputError(
                f"num_matching_heads is {num_heads}, but embedding_size {width} exceeds hidden_size "
                f"{hidden_size}; set num_matching_heads=0"
            )
        num_segments = self.tables.segment.weight.shape[0]
        if _count_excluded(width) + num_segments + 1 >= width:
            raise InputError(
                f"num_matching_heads is {num_heads}, but positions and {num_segments} segments use all of "
                f"embedding_size {width}; set num_matching_heads=0"
            )
        head_width = hidden_size // total
        shape, generator = (num_heads, head_width, width), torch.Generator().manual_seed(0)
        self._directions_NHE = torch.randn(shape, generator=generator, dtype=torch.float64)

    @torch.no_grad()
    def apply(self) -> None:
        """Set the weights of the heads from the current embeddings."""
        map_RD = self._find_map()
        for block in self.blocks:
            for part in (block.query, block.key):
                part.weight[: len(map_RD)] = map_RD.to(part.weight)
                part.bias[: len(map_RD)] = 0.0

    def attach(self, optimizer: torch.optim.Optimizer) -> None:
        """Recompute the heads from the embeddings after every step of the optimizer."""
        num_rows = self._directions_NHE.shape[0] * self._directions_NHE.shape[1]

        def clear(*_: Any) -> None:
            for block in self.blocks:
                for part in (block.query, block.key):
                    for tensor in (part.weight.grad, part.bias.grad):
                        if tensor is not None:
                            tensor[:num_rows] = 0.0

        optimizer.register_step_pre_hook(clear)
        optimizer.register_step_post_hook(lambda *_: self.apply())

    def _find_map(self) -> Tensor:
        """Compute the map from hidden vectors to the queries, and keys, of all matching heads.

        Words are compared after the projection of the embeddings, in its own directions. Inverting it instead
        would amplify directions that it suppresses (gradients of 263 after 890 steps). Vectors are clipped to
        the length of the outputs of the layers' norms: otherwise a model learns long embeddings, which switch
        off these heads in later layers (docs/log.md).
        """
        basis_DE, inside_EE = torch.linalg.qr(self._read_map())
        word_VE, position_LE, segment_SE = (_center(table) @ inside_EE.T for table in self._read_tables())
        word_EE = _exclude(position_LE, torch.cat([segment_SE, word_VE.mean(0, keepdim=True)]))
        hidden_VE = torch.renorm(self._embed_words() @ inside_EE.T, 2, 0, math.sqrt(len(basis_DE)))
        queries_NHV = self._directions_NHE @ word_EE @ hidden_VE.T
        own = float(queries_NHV.square().sum(1).mean()) / math.sqrt(queries_NHV.shape[1])
        directions_NHE = math.sqrt(_OWN_WORD / own) * self._directions_NHE
        map_RD: Tensor = (directions_NHE @ word_EE @ basis_DE.T).flatten(0, 1)
        return map_RD

    def _embed_words(self) -> Tensor:
        """Compute normalized embeddings of words at some positions and segments."""
        word_VE, position_LE, segment_SE = self._read_tables()
        number_V = torch.arange(len(word_VE))
        x_VE = word_VE + position_LE[number_V % len(position_LE)] + segment_SE[number_V % len(segment_SE)]
        return F.layer_norm(x_VE, x_VE.shape[1:])

    def _read_tables(self) -> tuple[Tensor, Tensor, Tensor]:
        tables = self.tables
        stride = max(1, tables.word.weight.shape[0] // _NUM_WORDS)
        weights = (tables.word.weight[::stride], tables.position.weight, tables.segment.weight)
        # On the CPU: not every device supports double precision.
        word_VE, position_LE, segment_SE = (weight.detach().cpu().double() for weight in weights)
        return word_VE, position_LE, segment_SE

    def _read_map(self) -> Tensor:
        """Return the map from normalized embeddings to hidden vectors."""
        gain_E = self.tables.norm.weight.detach().cpu().double()
        if self.tables.map is None:
            return torch.diag(gain_E)
        return self.tables.map.weight.detach().cpu().double() * gain_E


def _center(table: Tensor) -> Tensor:
    """Subtract the mean of each row, as the norm does."""
    return table - table.mean(1, keepdim=True)


def _count_excluded(width: int) -> int:
    return round(width * _POSITION_SHARE)


def _exclude(position_LE: Tensor, others_RE: Tensor) -> Tensor:
    """Return the projection on the orthogonal complement of the positions and the other vectors."""
    num_positions = _count_excluded(position_LE.shape[1])
    position_RE = torch.linalg.eigh(position_LE.T @ position_LE).eigenvectors.T[-num_positions:]
    other_ER = torch.linalg.qr(torch.cat([position_RE, others_RE]).T).Q
    word_EE: Tensor = torch.eye(len(other_ER), dtype=torch.float64) - other_ER @ other_ER.T
    return word_EE
