"""The encoder: a flat batch comes in, the hidden state of every token goes out.

Shapes: T tokens, P of them, D hidden width.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from albert.errors import InputError
from albert.model.blocks import AttentionBlock, FeedForwardBlock
from albert.model.config import ModelConfig
from albert.model.embeddings import Embeddings
from albert.model.layout import Layout, Wanted, build_layout
from albert.model.opaque import opaque
from albert.model.sharing import Layer, build_sharing_table, count_blocks, select_layers
from albert.model.tokens import Tokens


@dataclass(frozen=True)
class EncoderOutput:
    """What the layers gave, in the order of the batch.

    `hidden_states` holds the embeddings and then the state after each layer; `attentions` one entry a step
    (layers × inner blocks), which is one tensor [heads, length, length] a sequence.
    """

    last_TD: Tensor
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[tuple[Tensor, ...], ...] | None = None


class Encoder(nn.Module):
    """The paper's idea in one loop: few blocks, called many times."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        blocks = count_blocks(config)
        self.config = config
        self.embeddings = Embeddings(config)
        self.attention = nn.ModuleList(AttentionBlock(config) for _ in range(blocks.attention))
        self.ffn = nn.ModuleList(FeedForwardBlock(config) for _ in range(blocks.ffn))
        self.table = build_sharing_table(config)
        self.gradient_checkpointing = False

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
        """Run `depth` layers (all of them by default) over the batch.

        Where only some tokens are wanted at the end, as for masked words, `places_P` names them, each once:
        the last layer then computes nothing else, and `last_TD` has a row for each, in that order. With
        `first_only` they are the first tokens of all sequences, which takes next to no work.
        """
        assert places_P is None or not first_only, "they are one way or the other"
        if first_only:
            places_P = tokens.first_B
        assert places_P is None or not with_hidden_states, "a state of some tokens is not one of all"
        layers, layout = self.select_layers(depth), self.lay_out(tokens)
        x_TD = self.embed(tokens, layout)
        states = [x_TD] if with_hidden_states else None
        probabilities: list[list[Tensor]] | None = [] if with_attentions else None
        for number, layer in enumerate(layers, start=1):
            is_last = number == len(layers)
            wanted = None
            if places_P is not None and is_last:
                wanted = Wanted(layout.find(places_P), is_first=first_only)
            x_TD = self.run_layer(x_TD, layer, layout, wanted, probabilities)
            if states is not None:
                states.append(x_TD)
        return EncoderOutput(
            last_TD=layout.unsort(x_TD) if places_P is None else x_TD,
            hidden_states=None if states is None else tuple(layout.unsort(state) for state in states),
            attentions=None if probabilities is None else _unsort_sequences(probabilities, tokens.lengths),
        )

    def select_layers(self, depth: int | None = None) -> tuple[Layer, ...]:
        """The layers that a run of this depth passes through."""
        return select_layers(self.table, depth=depth, is_fully_shared=self.config.is_fully_shared)

    @opaque
    def lay_out(self, tokens: Tokens) -> Layout:
        """The order in which the batch is computed; a sequence that is too long is refused."""
        longest, limit = max(tokens.lengths), self.config.max_position_embeddings
        if longest > limit:
            raise InputError(
                f"a sequence has {longest} pieces and the model reads at most {limit}; "
                "shorten it, or split it into windows"
            )
        return build_layout(tokens.lengths, tokens.ids_T.device)

    def embed(self, tokens: Tokens, layout: Layout) -> Tensor:
        """What the first layer reads, in the computed order."""
        x_TD: Tensor = self.embeddings(
            layout.sort(tokens.ids_T), layout.sort(tokens.segments_T), layout.sort(tokens.positions_T)
        )
        return x_TD

    def run_layer(
        self,
        x_TD: Tensor,
        layer: Layer,
        layout: Layout,
        wanted: Wanted | None = None,
        probabilities: list[list[Tensor]] | None = None,
    ) -> Tensor:
        """One layer, in the computed order; where some tokens are `wanted`, for those alone."""
        if self.gradient_checkpointing and torch.is_grad_enabled() and probabilities is None:
            result: Tensor = checkpoint(
                self._apply_blocks, x_TD, layer, layout, None, wanted, use_reentrant=False
            )
            return result
        return self._apply_blocks(x_TD, layer, layout, probabilities, wanted)

    def _apply_blocks(
        self,
        x_TD: Tensor,
        layer: Layer,
        layout: Layout,
        probabilities: list[list[Tensor]] | None,
        wanted: Wanted | None,
    ) -> Tensor:
        for number, block in enumerate(layer, start=1):
            last_wanted = wanted if number == len(layer) else None
            x_TD = self.attention[block.attention](x_TD, layout, probabilities, last_wanted)
            x_TD = self.ffn[block.ffn](x_TD)
        return x_TD


def _unsort_sequences(layers: list[list[Tensor]], lengths: tuple[int, ...]) -> tuple[tuple[Tensor, ...], ...]:
    """Per-sequence tensors from the computed order back into the order of the batch."""
    if build_layout(lengths).order_T is None:
        return tuple(tuple(layer) for layer in layers)
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])  # stable, as the layout's
    place = {sequence: i for i, sequence in enumerate(order)}
    return tuple(tuple(layer[place[i]] for i in range(len(lengths))) for layer in layers)
