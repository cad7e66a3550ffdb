"""The whole model: the encoder, the pooler and the heads.

Shapes: T tokens, B sequences, M masked positions, D hidden width, V vocabulary.
"""

from typing import Any

import torch
from torch import Tensor, nn

from albert.errors import InputError
from albert.model.config import ModelConfig
from albert.model.encoder import Encoder, EncoderOutput
from albert.model.heads import HEADS, Heads, check_head, pool_mean
from albert.model.initialization import init_weights
from albert.model.tokens import Tokens


class AlbertModel(nn.Module):
    """An encoder with any number of heads, and with a pooler if a head needs one."""

    def __init__(self, config: ModelConfig, *, heads: Heads, has_pooler: bool | None = None) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        if has_pooler is None:
            has_pooler = any(HEADS[check_head(name)].is_pooled for name in heads)
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size) if has_pooler else None
        self.heads = nn.ModuleDict()
        for name, num_labels in heads.items():
            num_outputs = HEADS[check_head(name)].num_outputs or num_labels
            if num_outputs is None or num_outputs < 1:
                raise InputError(f"the {name} head has {num_outputs} labels; give a number of at least 1")
            self.heads[name] = HEADS[name].build(config, num_outputs)

    @property
    def device(self) -> torch.device:
        return self.encoder.embeddings.word.weight.device

    def forward(self, tokens: Tokens, **options: Any) -> EncoderOutput:
        """Run the encoder with the options of `Encoder.forward`; heads are applied to its output."""
        output: EncoderOutput = self.encoder(tokens, **options)
        return output

    def pool(self, last_TD: Tensor, tokens: Tokens) -> Tensor:
        """Pool each sequence: apply a linear layer and tanh to its first token."""
        return self.pool_first(last_TD[tokens.first_B])

    def pool_first(self, first_BD: Tensor) -> Tensor:
        if self.pooler is None:
            raise InputError("this model has no pooler; load it with a head that needs one, such as sop")
        return torch.tanh(self.pooler(first_BD))

    def head(self, name: str) -> nn.Module:
        if name not in self.heads:
            raise InputError(
                f"this model has no {name} head; it has {', '.join(self.heads) or 'none'}: load a model that "
                "was trained with one"
            )
        return self.heads[name]

    def pool_mean(self, x_TD: Tensor, tokens: Tokens, *, depth: int | None = None) -> Tensor:
        """Average the tokens of each sequence, and map vectors of fewer layers to those of all if trained."""
        vectors_BD = pool_mean(x_TD, tokens)
        if "vector_exits" in self.heads and depth is not None and depth < self.config.num_hidden_layers:
            vectors_BD = self.heads["vector_exits"].get_submodule(str(depth - 1))(vectors_BD)
        return vectors_BD

    def mlm_logits(self, x_MD: Tensor) -> Tensor:
        """Compute logits [M, V] from the hidden states of the masked positions."""
        logits_MV: Tensor = self.head("mlm")(x_MD, self.encoder.embeddings.word.weight)
        return logits_MV


def build_model(
    config: ModelConfig,
    *,
    heads: Heads,
    has_pooler: bool | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
    gradient_checkpointing: bool = False,
) -> AlbertModel:
    """Build a model with new weights, in evaluation mode; on the meta device it takes no memory."""
    with torch.device("meta"):
        model = AlbertModel(config, heads=heads, has_pooler=has_pooler)
    model.encoder.gradient_checkpointing = gradient_checkpointing
    if torch.device(device).type != "meta":
        # Drawn on the CPU, so that a seed gives the same weights on every device.
        model.to_empty(device="cpu")
        generator = torch.Generator().manual_seed(seed)
        init_weights(model, std=config.initializer_range, generator=generator)
        model.to(device)
    return model.eval()
