"""The whole model: the encoder, the pooler and the heads, with freshly initialized weights.

Shapes: T tokens, P of them, B sequences, M masked places, D hidden width, V vocabulary.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from albert.errors import InputError
from albert.model.config import ModelConfig
from albert.model.encoder import Encoder, EncoderOutput
from albert.model.heads import (
    BeamSpanHead,
    ChoiceHead,
    ClassificationHead,
    ExitHeads,
    PairHead,
    SpanHead,
    WordHead,
)
from albert.model.tokens import Tokens

# The share of a normal distribution below −2 deviations.
_TAIL = (1 + math.erf(-2 / math.sqrt(2))) / 2


@dataclass(frozen=True)
class HeadKind:
    """How a head is built, its number of outputs (None: the user's choice), whether it reads the pooler.

    `counted` is the tensor with a row for each output.
    """

    build: Callable[[ModelConfig, int], nn.Module]
    num_outputs: int | None
    is_pooled: bool
    counted: str = "linear.weight"


HEADS: dict[str, HeadKind] = {
    "mlm": HeadKind(lambda config, _: WordHead(config), 1, is_pooled=False),
    "sop": HeadKind(lambda config, _: PairHead(config), 2, is_pooled=True),
    "nsp": HeadKind(lambda config, _: PairHead(config), 2, is_pooled=True),
    "classification": HeadKind(ClassificationHead, None, is_pooled=True),
    "exits": HeadKind(ExitHeads, None, is_pooled=True, counted="0.linear.weight"),
    "token_classification": HeadKind(ClassificationHead, None, is_pooled=False),
    "span": HeadKind(lambda config, _: SpanHead(config), 2, is_pooled=False),
    "beam_span": HeadKind(lambda config, _: BeamSpanHead(config), 2, is_pooled=False),
    "choice": HeadKind(lambda config, _: ChoiceHead(config), 1, is_pooled=True),
}
# Heads by name, with the number of outputs where that is open: {"mlm": None, "classification": 3}.
Heads = Mapping[str, int | None]


class AlbertModel(nn.Module):
    """An encoder, the pooler where something reads it, and any number of heads."""

    def __init__(self, config: ModelConfig, *, heads: Heads, has_pooler: bool | None = None) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        if has_pooler is None:
            has_pooler = any(HEADS[check_head(name)].is_pooled for name in heads)
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size) if has_pooler else None
        self.heads = nn.ModuleDict(
            {
                name: HEADS[check_head(name)].build(config, resolve_outputs(name, count))
                for name, count in heads.items()
            }
        )

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.encoder.embeddings.word.weight.device

    def forward(
        self,
        tokens: Tokens,
        *,
        depth: int | None = None,
        with_hidden_states: bool = False,
        with_attentions: bool = False,
        places_P: Tensor | None = None,
        first_only: bool = False,
    ) -> EncoderOutput:
        """Run the encoder; heads are applied to its output.

        If only some positions are needed, `places_P` (or `first_only` for the first tokens of all sequences)
        saves the last layer the others.
        """
        output: EncoderOutput = self.encoder(
            tokens,
            depth=depth,
            with_hidden_states=with_hidden_states,
            with_attentions=with_attentions,
            places_P=places_P,
            first_only=first_only,
        )
        return output

    def pool(self, last_TD: Tensor, tokens: Tokens) -> Tensor:
        """Pool each sequence: map its first token and apply tanh."""
        return self.pool_first(last_TD[tokens.first_B])

    def pool_first(self, first_BD: Tensor) -> Tensor:
        """Pool from the hidden states of the first tokens."""
        if self.pooler is None:
            raise InputError("this model has no pooler; load it with a head that reads one, such as sop")
        return torch.tanh(self.pooler(first_BD))

    def head(self, name: str) -> nn.Module:
        """Return a head by name; raise an InputError if the model does not have it."""
        if name not in self.heads:
            raise InputError(
                f"this model has no {name} head; it has {', '.join(self.heads) or 'none'}. "
                "Load a folder that was trained with one"
            )
        return self.heads[name]

    def word_logits(self, last_TD: Tensor, places_M: Tensor) -> Tensor:
        """Compute logits [M, V] at the given positions of the flat batch."""
        return self.predict_words(last_TD.index_select(0, places_M))

    def predict_words(self, x_MD: Tensor) -> Tensor:
        """Compute logits [M, V] from the hidden states of the masked positions."""
        logits_MV: Tensor = self.head("mlm")(x_MD, self.encoder.embeddings.word.weight)
        return logits_MV


def check_head(name: str) -> str:
    """Return the name if there is such a head; raise an InputError otherwise."""
    if name not in HEADS:
        raise InputError(f"unknown head {name!r}; there are {', '.join(HEADS)}")
    return name


def resolve_outputs(name: str, count: int | None) -> int:
    """Return the number of outputs of a head: fixed by its type, or `count`."""
    fixed = HEADS[check_head(name)].num_outputs
    if fixed is not None:
        return fixed
    if count is None or count < 1:
        raise InputError(f"the {name} head needs a number of labels of at least 1, not {count}")
    return count


def build_model(
    config: ModelConfig,
    *,
    heads: Heads,
    has_pooler: bool | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
    gradient_checkpointing: bool = False,
) -> AlbertModel:
    """Build a model with fresh weights, in evaluation mode. On the meta device it takes no memory."""
    with torch.device("meta"):
        model = AlbertModel(config, heads=heads, has_pooler=has_pooler)
    model.encoder.gradient_checkpointing = gradient_checkpointing
    if torch.device(device).type != "meta":
        # Drawn on the CPU whatever the device: one seed, one model.
        model.to_empty(device="cpu")
        generator = torch.Generator().manual_seed(seed)
        init_weights(model, std=config.initializer_range, generator=generator)
        model.to(device)
    return model.eval()


@torch.no_grad()
def init_weights(module: nn.Module, *, std: float, generator: torch.Generator | None = None) -> None:
    """Initialize with a normal distribution truncated at two deviations; biases 0, norms the identity.

    Tensors are drawn in the order of the modules, so that one seed gives one model.
    """
    for part in module.modules():
        if isinstance(part, nn.LayerNorm):
            nn.init.ones_(part.weight)
        elif isinstance(part, nn.Linear | nn.Embedding):
            _draw_truncated_normal(part.weight, std, generator)
        bias = getattr(part, "bias", None)
        if isinstance(bias, Tensor):
            nn.init.zeros_(bias)


def _draw_truncated_normal(tensor: Tensor, std: float, generator: torch.Generator | None) -> None:
    """Draw by the inverse of the distribution function; torch's own rejection takes twenty times as long."""
    tensor.uniform_(2 * _TAIL - 1, 1 - 2 * _TAIL, generator=generator)
    tensor.erfinv_().mul_(std * math.sqrt(2)).clamp_(-2 * std, 2 * std)


@torch.no_grad()
def spread_positions(weight_LE: Tensor, *, std: float) -> None:
    """Initialize position embeddings as sinusoids.

    A shift is then one linear map at every position, so that attending to a neighbor, which takes a model off
    the plateau, is learned once and not anew for each position. They are trained like any others.
    """
    length, width = weight_LE.shape
    place_L1 = torch.arange(length, dtype=torch.float64)[:, None]
    rate_H = torch.exp(torch.arange(width // 2, dtype=torch.float64) * (-math.log(10_000.0) / (width / 2)))
    angle_LH = place_L1 * rate_H
    wave_LE = torch.cat([angle_LH.sin(), angle_LH.cos()], dim=1) * (std * math.sqrt(2.0))
    weight_LE[:, : wave_LE.shape[1]] = wave_LE.to(weight_LE)
