"""Run BERT and ALBERT models of `transformers` without padding, in the user's own modules.

`accelerate` replaces the `forward` of the encoder inside a model. The replacement removes the padding, calls
the model's own linear layers and norms on the flat tensors, and pads the result. Weights are therefore
shared, and whatever replaces a layer later (LoRA, quantization) is used. Calls that the flat layers do not
cover, such as `inputs_embeds` or masks of three dimensions, run the original `forward`.

Shapes: T tokens, B sequences, L longest sequence, D hidden width, N heads, H width of a head.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import MethodType
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from albert.errors import InputError
from albert.model.blocks import (
    attend,
    attend_first,
    attend_with_probabilities,
    gelu_tanh,
    gelu_tanh_in_place,
)
from albert.model.linear import apply_linear
from albert.model.tokens import Layout, build_layout, gather_rows

Model = TypeVar("Model", bound=nn.Module)
# Heads that read only the pooled output.
_POOLED = ("ForSequenceClassification", "ForMultipleChoice", "ForNextSentencePrediction")
# A head whose loss is a softmax over all tokens, padding included.
_SPANS = "ForQuestionAnswering"
# What a head tells the encoder, among the options that it passes on.
_FIRST_ONLY, _ORIGINAL = "albert_first_only", "albert_original"
# Other options need the original, except these; the Trainer passes the number of items for the loss.
_KNOWN_OPTIONS = {
    "output_hidden_states",
    "output_attentions",
    "return_dict",
    "use_cache",
    "num_items_in_batch",
}


def accelerate(model: Model) -> Model:
    """Let a model of `transformers` or `sentence_transformers` run without padding.

    The model is changed in place and keeps its class, its weights and its outputs; hidden states of padding
    become 0. Training works too, with LoRA of PEFT applied before or after.

    Args:
        model: An ALBERT or BERT model with any head, or a module that contains one, such as a
            `SentenceTransformer`, a `CrossEncoder` or a `PeftModel`.

    Returns:
        The same object.

    Raises:
        InputError: If the model has no ALBERT or BERT encoder, or is a decoder.
    """
    from transformers import AlbertModel, BertModel

    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    encoders = [module for module in modules if isinstance(module, AlbertModel | BertModel)]
    if not encoders:
        raise InputError(
            f"cannot accelerate a {type(model).__name__}: supported are ALBERT and BERT models of "
            "transformers, with any head, and a SentenceTransformer or CrossEncoder built on one"
        )
    for encoder in encoders:
        if getattr(encoder.config, "is_decoder", False):
            raise InputError("cannot accelerate a decoder; load the model with is_decoder=False")
        if not isinstance(encoder.forward, FlatForward):
            encoder.forward = FlatForward(encoder)
    for module in modules:
        inner = getattr(module, getattr(module, "base_model_prefix", ""), None)
        is_head = inner in encoders and type(module).__name__.endswith((*_POOLED, _SPANS))
        if is_head and not isinstance(module.forward, _HeadForward):
            module.forward = _HeadForward(module)
    if hasattr(model, "encode") and hasattr(model, "_first_module"):
        from albert.integrations.sentences import accelerate_encode

        accelerate_encode(model)
    return model


class Layer(NamedTuple):
    """The modules of one layer, looked up in each call because LoRA may replace them."""

    query: nn.Module
    key: nn.Module
    value: nn.Module
    output: nn.Module
    attention_norm: nn.Module
    inner: nn.Module
    activation: nn.Module
    outer: nn.Module
    norm: nn.Module
    probability_dropout: nn.Dropout
    dropout: nn.Dropout
    last_dropout: nn.Dropout | None  # ALBERT in `transformers` has none
    num_heads: int


def _open_bert(layer: Any) -> Layer:
    attention, mixed, output = layer.attention.self, layer.attention.output, layer.output
    return Layer(
        attention.query, attention.key, attention.value, mixed.dense, mixed.LayerNorm,
        layer.intermediate.dense, layer.intermediate.intermediate_act_fn, output.dense, output.LayerNorm,
        attention.dropout, mixed.dropout, output.dropout, attention.num_attention_heads,
    )  # fmt: skip


def _open_albert(layer: Any) -> Layer:
    attention = layer.attention
    return Layer(
        attention.query, attention.key, attention.value, attention.dense, attention.LayerNorm,
        layer.ffn, layer.activation, layer.ffn_output, layer.full_layer_layer_norm,
        attention.attention_dropout, attention.output_dropout, None, attention.num_attention_heads,
    )  # fmt: skip


@dataclass(frozen=True)
class PaddedBatch:
    """Where the real tokens of a padded batch are, in the computed order; None without padding."""

    layout: Layout
    indices_T: Tensor | None
    shape: tuple[int, int]

    @staticmethod
    def from_mask(mask_BL: Tensor) -> "PaddedBatch":
        num_rows, width = mask_BL.shape
        lengths = mask_BL.bool().sum(1).tolist()
        if min(lengths) == width:
            return PaddedBatch(build_layout((width,) * num_rows, mask_BL.device), None, (num_rows, width))
        layout = build_layout(tuple(filter(None, lengths)), mask_BL.device)
        indices_T = layout.sort(mask_BL.flatten().nonzero().squeeze(1))
        return PaddedBatch(layout, indices_T, (num_rows, width))

    def flatten(self, values_BL: Tensor) -> Tensor:
        """Return the values at the real tokens, [1, T]."""
        values_1T = values_BL.expand(self.shape).reshape(1, -1)
        return values_1T if self.indices_T is None else values_1T[:, self.indices_T]

    def pad(self, x_TD: Tensor) -> Tensor:
        """Restore [B, L, D], with zeros at padding."""
        if self.indices_T is not None:
            zeros = x_TD.new_zeros(self.shape[0] * self.shape[1], x_TD.shape[1])
            x_TD = zeros.index_copy_(0, self.indices_T, x_TD)
        return x_TD.view(*self.shape, -1)

    def pad_first(self, x_BD: Tensor) -> Tensor:
        """Restore [B, 1, D] from the first token of each sequence."""
        if self.indices_T is not None:
            x_BD = gather_rows(x_BD, self.indices_T[self.layout.first_B].argsort())
        return x_BD.unsqueeze(1)

    def pad_probabilities(self, found: list[Tensor]) -> Tensor:
        """Restore [B, N, L, L] from the probabilities of each sequence."""
        num_rows, width = self.shape
        padded = found[0].new_zeros(num_rows, found[0].shape[0], width, width)
        indices_T = torch.arange(num_rows * width) if self.indices_T is None else self.indices_T.cpu()
        for p_NLL, indices in zip(found, indices_T.split(self.layout.lengths), strict=True):
            row, columns = int(indices[0]) // width, (indices % width).to(padded.device)
            padded[row, :, columns[:, None], columns] = p_NLL
        return padded


class FlatForward:
    """The `forward` of an encoder, without padding; an object, so that models can be copied and pickled."""

    def __init__(self, encoder: Any) -> None:
        self.encoder = encoder

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The original, which `inspect.signature` also reads."""
        return MethodType(type(self.encoder).forward, self.encoder)

    def __call__(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        *others: Any,
        **options: Any,
    ) -> Any:
        """Return the output of the original, with zeros at padding."""
        is_first_only = options.pop(_FIRST_ONLY, False)
        is_original = options.pop(_ORIGINAL, False)
        config = self.encoder.config
        with_states, with_attentions, returns_dict = (
            options.get(name, getattr(config, name, default))
            for name, default in (
                ("output_hidden_states", False),
                ("output_attentions", False),
                ("return_dict", True),
            )
        )
        other_names = options.keys() - _KNOWN_OPTIONS
        is_flat = not (
            is_original
            or not isinstance(input_ids, Tensor)
            or input_ids.ndim != 2
            or (attention_mask is not None and attention_mask.shape != input_ids.shape)
            or not self._has_first_tokens(attention_mask)
            or not isinstance(with_states, bool | None)  # a list of layers
            or any(value is not None for value in others)
            or any(options[name] not in (None, False) for name in other_names)
            or torch.compiler.is_compiling()
            or torch._C._get_tracing_state() is not None
        )
        if not is_flat:
            return self.__wrapped__(
                input_ids, attention_mask, token_type_ids, position_ids, *others, **options
            )
        assert input_ids is not None
        batch = PaddedBatch.from_mask(
            torch.ones_like(input_ids) if attention_mask is None else attention_mask
        )
        is_first_only &= not with_states and not with_attentions
        states: list[Tensor] | None = [] if with_states else None
        probabilities: list[list[Tensor]] | None = [] if with_attentions else None
        if position_ids is None:
            position_ids = self.encoder.embeddings.position_ids[:, : input_ids.shape[1]]
        x_TD = self.run(
            batch.flatten(input_ids),
            None if token_type_ids is None else batch.flatten(token_type_ids),
            batch.flatten(position_ids),
            batch.layout,
            is_first_only=is_first_only,
            states=states,
            probabilities=probabilities,
        )
        output = self._build_output(batch.pad_first(x_TD) if is_first_only else batch.pad(x_TD))
        if states is not None:
            output["hidden_states"] = (*map(batch.pad, states[:-1]), output.last_hidden_state)
        if probabilities is not None:
            output["attentions"] = tuple(map(batch.pad_probabilities, probabilities))
            if _is_bert(self.encoder):
                output["cross_attentions"] = ()
        return output if returns_dict is not False else output.to_tuple()

    def run(
        self,
        ids_1T: Tensor,
        segments_1T: Tensor | None,
        positions_1T: Tensor,
        layout: Layout,
        *,
        is_first_only: bool = False,
        states: list[Tensor] | None = None,
        probabilities: list[list[Tensor]] | None = None,
    ) -> Tensor:
        """Run the layers on flat tensors in the computed order."""
        embeddings: Any = self.encoder.embeddings
        x_TD: Tensor = embeddings(
            input_ids=ids_1T, token_type_ids=segments_1T, position_ids=positions_1T
        ).squeeze(0)
        if not _is_bert(self.encoder):
            x_TD = apply_linear(self.encoder.encoder.embedding_hidden_mapping_in, x_TD)
        layers: list[tuple[Any, Layer]] = list(_iter_layers(self.encoder))
        for number, (module, layer) in enumerate(layers, start=1):
            if states is not None:
                states.append(x_TD)
            first_B = layout.first_B if is_first_only and number == len(layers) else None
            run = partial(
                _run_layer, layer=layer, layout=layout, first_B=first_B, probabilities=probabilities
            )
            if getattr(module, "gradient_checkpointing", False) and module.training:
                x_TD = module._gradient_checkpointing_func(run, x_TD)
            else:
                x_TD = run(x_TD)
        if states is not None:
            states.append(x_TD)
        return x_TD

    def _has_first_tokens(self, mask_BL: Tensor | None) -> bool:
        """Whether the first column is not padding, which the original would pool."""
        if mask_BL is None:
            return True
        return bool(mask_BL.any() if self.encoder.pooler is None else mask_BL[:, 0].all())

    def _build_output(self, x_BLD: Tensor) -> Any:
        from transformers import modeling_outputs as outputs

        pooler = self.encoder.pooler
        if _is_bert(self.encoder):
            pooled_BD = None if pooler is None else pooler(x_BLD)
            return outputs.BaseModelOutputWithPoolingAndCrossAttentions(x_BLD, pooled_BD)
        pooled_BD = None if pooler is None else self.encoder.pooler_activation(pooler(x_BLD[:, 0]))
        return outputs.BaseModelOutputWithPooling(x_BLD, pooled_BD)


class _HeadForward:
    """The `forward` of a head that tells the encoder what it reads."""

    def __init__(self, model: Any) -> None:
        self.model = model

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        return MethodType(type(self.model).forward, self.model)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not type(self.model).__name__.endswith(_SPANS):
            kwargs[_FIRST_ONLY] = True
        elif kwargs.get("start_positions") is not None or len(args) > 5:
            kwargs[_ORIGINAL] = True
        return self.__wrapped__(*args, **kwargs)


def _is_bert(encoder: Any) -> bool:
    return hasattr(encoder.encoder, "layer")


def _iter_layers(encoder: Any) -> Iterator[tuple[nn.Module, Layer]]:
    if _is_bert(encoder):
        yield from ((module, _open_bert(module)) for module in encoder.encoder.layer)
        return
    config, groups = encoder.config, encoder.encoder.albert_layer_groups
    opened = [[(module, _open_albert(module)) for module in group.albert_layers] for group in groups]
    for number in range(config.num_hidden_layers):
        yield from opened[int(number / (config.num_hidden_layers / config.num_hidden_groups))]


def _run_layer(
    x_TD: Tensor,
    *,
    layer: Layer,
    layout: Layout,
    first_B: Tensor | None,
    probabilities: list[list[Tensor]] | None,
) -> Tensor:
    """Run one layer, for the first tokens only if `first_B` is given."""
    dropout = layer.probability_dropout.p if layer.probability_dropout.training else 0.0
    key, value = layer.key, layer.value
    if first_B is not None and type(key) is type(value) is nn.Linear:  # not LoRA
        x_BD = gather_rows(x_TD, first_B)
        query_BNH = apply_linear(layer.query, x_BD).view(len(first_B), layer.num_heads, -1)
        mixed_TD = attend_first(query_BNH, x_TD, key=key, value=value, layout=layout, dropout=dropout)
        mixed_TD, x_TD = mixed_TD.reshape(x_BD.shape), x_BD
    else:
        heads = (x_TD.shape[0], layer.num_heads, -1)
        q_TNH, k_TNH, v_TNH = (apply_linear(module, x_TD).view(heads) for module in (layer.query, key, value))
        if probabilities is None:
            mixed_TNH = attend(q_TNH, k_TNH, v_TNH, layout=layout, dropout=dropout)
        else:
            mixed_TNH, found = attend_with_probabilities(q_TNH, k_TNH, v_TNH, layout=layout, dropout=dropout)
            probabilities.append(found)
        mixed_TD = mixed_TNH.reshape(x_TD.shape).to(q_TNH.dtype)
        if first_B is not None:
            x_TD, mixed_TD = gather_rows(x_TD, first_B), gather_rows(mixed_TD, first_B)
    x_TD = layer.attention_norm(x_TD + layer.dropout(apply_linear(layer.output, mixed_TD)))
    y_TD = apply_linear(layer.outer, _activate(layer, apply_linear(layer.inner, x_TD)))
    if layer.last_dropout is not None:
        y_TD = layer.last_dropout(y_TD)
    result: Tensor = layer.norm(x_TD + y_TD)
    return result


def _activate(layer: Layer, x: Tensor) -> Tensor:
    """Apply the activation, in place without gradients; torch's tanh GELU is one kernel instead of eight."""
    name = type(layer.activation).__name__
    can_overwrite = (
        not torch.is_grad_enabled()
        and x.device.type == "cpu"
        and x.dtype == torch.float32
        and not layer.inner._forward_hooks  # a hook may keep the output
    )
    result: Tensor
    if name == "GELUActivation" and can_overwrite:
        result = torch.ops.aten.gelu_(x)
    elif name in ("NewGELUActivation", "GELUTanh"):
        result = gelu_tanh_in_place(x) if can_overwrite else gelu_tanh(x)
    else:
        result = layer.activation(x)
    return result
