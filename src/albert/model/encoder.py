"""The encoder: factorized embeddings, and a few blocks that are called many times.

Shapes: T tokens, P selected tokens, E embedding width, D hidden width.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from albert.errors import InputError
from albert.model.blocks import AttentionBlock, FeedForwardBlock
from albert.model.config import Layer, ModelConfig, build_sharing_table, count_blocks, select_layers
from albert.model.linear import apply_linear
from albert.model.tokens import Layout, SelectedTokens, Tokens, build_layout, opaque


@dataclass(frozen=True)
class EncoderOutput:
    """The output: `hidden_states` start with the embeddings, `attentions` are by block and sequence."""

    last_TD: Tensor
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[tuple[Tensor, ...], ...] | None = None


class Embeddings(nn.Module):
    """Factorized embeddings (paper, section 3.1): tables of width E, a norm, and a projection from E to D.

    They have V·E + E·D parameters instead of V·D. If E = D, only some loaded models have a projection.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width = config.embedding_size
        self.word = _build_table(config.vocab_size, width)
        self.position = _build_table(config.max_position_embeddings, width)
        self.segment = _build_table(config.type_vocab_size, width)
        self.norm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
        self.map = nn.Linear(config.embedding_size, config.hidden_size) if config.maps_embeddings else None
        self.dropout = config.hidden_dropout_prob

    def forward(self, ids_T: Tensor, segments_T: Tensor, positions_T: Tensor) -> Tensor:
        if self.segment.num_embeddings == 1 and bool(segments_T.any()):
            raise InputError(
                "a model of type_vocab_size 1 does not support pairs of texts; give single texts"
            )
        x_TE = self.word(ids_T) + self.segment(segments_T) + self.position(positions_T)
        x_TE = F.dropout(self.norm(x_TE), self.dropout, self.training)
        return x_TE if self.map is None else apply_linear(self.map, x_TE)


def _build_table(num_rows: int, width: int) -> nn.Embedding:
    """Build a table of zeros: random initialization on the meta device would import torch's compiler."""
    return nn.Embedding(num_rows, width, _weight=torch.zeros(num_rows, width))


class Encoder(nn.Module):
    """Share parameters across layers (paper, section 3.1): a table maps each layer to its blocks."""

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
        indices_P: Tensor | None = None,
        first_only: bool = False,
    ) -> EncoderOutput:
        """Run `depth` layers, by default all, over the batch.

        If only some tokens are needed, such as the masked ones, `indices_P` lists them, each once: the last
        layer computes only these, and `last_TD` has a row for each, in that order. With `first_only` they are
        the first tokens of all sequences, which is much faster.
        """
        assert indices_P is None or not first_only
        if first_only:
            indices_P = tokens.first_B
        assert indices_P is None or not with_hidden_states
        layers, layout = self.select_layers(depth), self.lay_out(tokens)
        x_TD = self.embed(tokens, layout)
        states = [x_TD] if with_hidden_states else None
        probabilities: list[list[Tensor]] | None = [] if with_attentions else None
        for number, layer in enumerate(layers, start=1):
            is_last = number == len(layers)
            selected = None
            if indices_P is not None and is_last:
                selected = SelectedTokens(layout.find(indices_P), is_first=first_only)
            x_TD = self.run_layer(x_TD, layer, layout, selected, probabilities)
            if states is not None:
                states.append(x_TD)
        return EncoderOutput(
            last_TD=layout.unsort(x_TD) if indices_P is None else x_TD,
            hidden_states=None if states is None else tuple(layout.unsort(state) for state in states),
            attentions=None if probabilities is None else _unsort_sequences(probabilities, tokens.lengths),
        )

    def select_layers(self, depth: int | None = None) -> tuple[Layer, ...]:
        return select_layers(self.table, depth=depth, is_fully_shared=self.config.is_fully_shared)

    @opaque
    def lay_out(self, tokens: Tokens) -> Layout:
        longest, limit = max(tokens.lengths), self.config.max_position_embeddings
        if longest > limit:
            raise InputError(
                f"a sequence has {longest} tokens, more than max_position_embeddings={limit}; "
                "shorten it, or split it into windows"
            )
        return build_layout(tokens.lengths, tokens.ids_T.device)

    def embed(self, tokens: Tokens, layout: Layout) -> Tensor:
        x_TD: Tensor = self.embeddings(
            layout.sort(tokens.ids_T), layout.sort(tokens.segments_T), layout.sort(tokens.positions_T)
        )
        return x_TD

    def run_layer(
        self,
        x_TD: Tensor,
        layer: Layer,
        layout: Layout,
        selected: SelectedTokens | None = None,
        probabilities: list[list[Tensor]] | None = None,
    ) -> Tensor:
        """Run one layer in the computed order, for the `selected` tokens only if given."""
        if self.gradient_checkpointing and torch.is_grad_enabled() and probabilities is None:
            result: Tensor = checkpoint(
                self._apply_blocks, x_TD, layer, layout, None, selected, use_reentrant=False
            )
            return result
        return self._apply_blocks(x_TD, layer, layout, probabilities, selected)

    def _apply_blocks(
        self,
        x_TD: Tensor,
        layer: Layer,
        layout: Layout,
        probabilities: list[list[Tensor]] | None,
        selected: SelectedTokens | None,
    ) -> Tensor:
        for number, block in enumerate(layer, start=1):
            last_selected = selected if number == len(layer) else None
            x_TD = self.attention[block.attention](x_TD, layout, probabilities, last_selected)
            x_TD = self.ffn[block.ffn](x_TD)
        return x_TD


def _unsort_sequences(layers: list[list[Tensor]], lengths: tuple[int, ...]) -> tuple[tuple[Tensor, ...], ...]:
    if build_layout(lengths).order_T is None:
        return tuple(tuple(layer) for layer in layers)
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])  # stable, like the layout
    index_of = {sequence: i for i, sequence in enumerate(order)}
    return tuple(tuple(layer[index_of[i]] for i in range(len(lengths))) for layer in layers)
