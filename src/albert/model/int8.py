"""Int8 on CPUs: weights with a scale per output channel, activations with a scale per token.

oneDNN's kernel multiplies unsigned bytes by signed ones and has one scale for all its activations. A scale
per token is applied to its output, together with the bias: a token's result does not depend on the others in
its batch. Chunks of rows are small enough that the elementwise work stays in the cache (docs/int8.md).

Shapes: T tokens, P rows of a product, M masked positions, V vocabulary, D hidden width, E embedding width,
F feed-forward width, K inputs, N outputs; also N heads of width H.
"""

from collections.abc import Iterator, Sequence
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from albert.errors import InputError
from albert.model.albert_model import AlbertModel
from albert.model.blocks import AttentionBlock, FeedForwardBlock, attend, attend_with_probabilities, gelu_tanh
from albert.model.heads import MaskedLMHead
from albert.model.tokens import Layout, SelectedTokens, gather_rows

# Rows that fit into the caches of two cores with their intermediate results.
_CHUNK = 256
# The kernel is compiled anew for each number of rows, which takes about a millisecond.
_ROW_STEP = 8
_ZERO = 128  # the byte of 0 in activations
_MAX_WEIGHT, _MAX_REDUCED = 127, 63


def quantize_model(
    model: AlbertModel, *, float_modules: Sequence[str] = (), reduce_range: bool | None = None
) -> AlbertModel:
    """Replace the modules of a model by int8 modules, in place, for inference on the CPU.

    `float_modules` stay in float: names of `list_modules`, or their beginnings, such as `ffn.0`. With
    `reduce_range`, weights have 7 bits; by default they do if the kernel of this CPU saturates.
    """
    known = list_modules(model)
    for name in float_modules:
        if not any(_belongs(each, name) for each in known):
            raise InputError(f"unknown module {name!r} in float_modules; choose from {', '.join(known)}")
    saturates = is_saturating()
    limit = _MAX_REDUCED if (saturates if reduce_range is None else reduce_range) else _MAX_WEIGHT
    chosen = {each for each in known if not any(_belongs(each, name) for name in float_modules)}

    def convert(name: str, linear: nn.Linear) -> nn.Module:
        return Int8Linear(linear.weight, linear.bias, limit=limit) if name in chosen else linear

    embeddings = model.encoder.embeddings
    table = None
    if "embeddings.word" in chosen:
        table = Int8Table(embeddings.word.weight, limit=limit)
        embeddings.word = table  # type: ignore[assignment]
    if embeddings.map is not None:
        embeddings.map = convert("embeddings.map", embeddings.map)  # type: ignore[assignment]
    for i, attention in enumerate(model.encoder.attention):
        assert isinstance(attention, AttentionBlock)
        fused = nn.Linear(1, 1, device="meta")
        parts = (attention.query, attention.key, attention.value)
        fused.weight, fused.bias = (
            nn.Parameter(torch.cat([getattr(part, name) for part in parts])) for name in ("weight", "bias")
        )
        model.encoder.attention[i] = Int8AttentionBlock(
            attention,
            convert(f"attention.{i}.input", fused),
            convert(f"attention.{i}.output", attention.output),
        )
    for i, ffn in enumerate(model.encoder.ffn):
        assert isinstance(ffn, FeedForwardBlock)
        inner, output = convert(f"ffn.{i}.inner", ffn.inner), convert(f"ffn.{i}.output", ffn.output)
        model.encoder.ffn[i] = Int8FeedForwardBlock(ffn, inner, output)
    if model.pooler is not None:
        model.pooler = convert("pooler", model.pooler)  # type: ignore[assignment]
    if "mlm" in model.heads:
        head = model.heads["mlm"]
        assert isinstance(head, MaskedLMHead)
        model.heads["mlm"] = Int8MaskedLMHead(head, convert("mlm", head.dense), table)
    return model.eval().requires_grad_(False)


def is_quantized(model: AlbertModel) -> bool:
    """Return whether `quantize_model` was applied."""
    return any(isinstance(each, Int8AttentionBlock) for each in model.modules())


def list_modules(model: AlbertModel) -> list[str]:
    """List the modules of a float model that can be int8, in the order of the computation."""
    names = ["embeddings.word"] + ["embeddings.map"] * (model.encoder.embeddings.map is not None)
    for i in range(len(model.encoder.attention)):
        names += [f"attention.{i}.input", f"attention.{i}.output"]
    for i in range(len(model.encoder.ffn)):
        names += [f"ffn.{i}.inner", f"ffn.{i}.output"]
    return names + ["pooler"] * (model.pooler is not None) + ["mlm"] * ("mlm" in model.heads)


def list_weights(name: str) -> tuple[str, ...]:
    """List the names of the weights of a module of `list_modules` in a float model."""
    if name.endswith(".input"):
        stem = f"encoder.{name.removesuffix('.input')}"
        return tuple(f"{stem}.{part}.weight" for part in ("query", "key", "value"))
    if name in ("pooler", "mlm"):
        return ({"pooler": "pooler.weight", "mlm": "heads.mlm.dense.weight"}[name],)
    return (f"encoder.{name}.weight",)


def _belongs(name: str, start: str) -> bool:
    return f"{name}.".startswith(f"{start}.")


def quantize_weight(weight_NK: Tensor, *, reduce_range: bool) -> tuple[Tensor, Tensor]:
    """Round to integers of 8 or 7 bits with a scale per row; a row of rounded weights keeps its integers."""
    return _quantize_weight(weight_NK, _MAX_REDUCED if reduce_range else _MAX_WEIGHT)


def _quantize_weight(weight_NK: Tensor, limit: int) -> tuple[Tensor, Tensor]:
    weight_NK = weight_NK.detach().float()
    scale_N = weight_NK.abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny * limit) / limit
    return (weight_NK / scale_N[:, None]).round().to(torch.int8), scale_N


@cache
def is_saturating() -> bool:
    """Whether the kernel adds pairs of products in 16 bits, as on CPUs without VNNI; found by a product."""
    inputs, expected = 64, 64 * 127 * 127
    try:
        packed = _pack(torch.full((16, inputs), 127, dtype=torch.int8))
        rows = torch.full((_ROW_STEP, inputs), 255, dtype=torch.uint8)
        found = _multiply(rows, packed, torch.ones(16), torch.zeros(16, dtype=torch.int64))
    except (RuntimeError, AttributeError) as error:
        raise InputError(
            f"precision is int8, but torch {torch.__version__} has no int8 kernel for this CPU; use "
            "precision=float32"
        ) from error
    return bool((found != expected).any())


def _pack(weight_NK: Tensor) -> Tensor:
    packed: Tensor = torch.ops.onednn.qlinear_prepack(weight_NK, None)
    return packed


def _multiply(rows_PK: Tensor, packed: Tensor, scale_N: Tensor, zeros_N: Tensor) -> Tensor:
    product_PN: Tensor = torch.ops.onednn.qlinear_pointwise(
        rows_PK, 1.0, _ZERO, packed, scale_N, zeros_N, None, 1.0, 0, torch.float32, "none", [], ""
    )
    return product_PN


class Int8Linear(nn.Module):
    """A linear map with int8 weights; each row of its input is rounded to int8 with a scale of its own."""

    packed: Tensor
    scale_N: Tensor
    bias_N: Tensor
    zeros_N: Tensor

    def __init__(self, weight_NK: Tensor, bias_N: Tensor | None, *, limit: int) -> None:
        super().__init__()
        integers_NK, scale_N = _quantize_weight(weight_NK, limit)
        self.register_buffer("packed", _pack(integers_NK), persistent=False)
        self.register_buffer("scale_N", scale_N, persistent=False)
        self.register_buffer("zeros_N", torch.zeros(len(scale_N), dtype=torch.int64), persistent=False)
        bias_N = torch.zeros(len(scale_N)) if bias_N is None else bias_N.detach()
        self.register_buffer("bias_N", bias_N, persistent=False)

    def forward(self, x_TK: Tensor) -> Tensor:
        rows_PK, largest_T1 = _round_rows(x_TK)
        y_TN = _multiply(rows_PK, self.packed, self.scale_N, self.zeros_N)[: len(x_TK)]
        return torch.addcmul(self.bias_N, y_TN, largest_T1, value=1 / _MAX_WEIGHT, out=y_TN)


def _round_rows(x_TK: Tensor) -> tuple[Tensor, Tensor]:
    """Round each row to bytes, of which 1 and 255 are its largest magnitude; also return these magnitudes.

    Rows are added up to a multiple of _ROW_STEP.
    """
    # aminmax and vector_norm take ten times as long.
    largest_T1 = x_TK.abs().amax(1, keepdim=True).clamp_(min=1e-20)
    num_rows = max(1, -(-len(x_TK) // _ROW_STEP)) * _ROW_STEP
    rows_PK = torch.empty(num_rows, x_TK.shape[1], dtype=torch.int8)
    rows_PK[: len(x_TK)] = (x_TK * (_MAX_WEIGHT / largest_T1)).round_()
    # The conversion to int8 and the flipped bit take half the time of a conversion to uint8.
    return rows_PK.view(torch.uint8).bitwise_xor_(_ZERO), largest_T1


class Int8Table(nn.Module):
    """An embedding table of int8 rows, each with a scale."""

    weight: Tensor
    scale_V: Tensor

    def __init__(self, weight_VE: Tensor, *, limit: int) -> None:
        super().__init__()
        integers_VE, scale_V = _quantize_weight(weight_VE, limit)
        self.limit = limit
        self.register_buffer("weight", integers_VE, persistent=False)
        self.register_buffer("scale_V", scale_V, persistent=False)

    def forward(self, ids_T: Tensor) -> Tensor:
        return self.weight[ids_T] * self.scale_V[ids_T, None]


class Int8AttentionBlock(nn.Module):
    """An `AttentionBlock` for inference, with a single product for queries, keys and values."""

    def __init__(self, block: AttentionBlock, qkv: nn.Module, output: nn.Module) -> None:
        super().__init__()
        self.input, self.output, self.norm, self.num_heads = qkv, output, block.norm, block.num_heads

    def forward(
        self,
        x_TD: Tensor,
        layout: Layout,
        probabilities: list[list[Tensor]] | None = None,
        selected: SelectedTokens | None = None,
    ) -> Tensor:
        """Attend within each sequence; `selected` tokens are selected after the attention."""
        qkv_T3D = self.input(x_TD)
        q_TNH, k_TNH, v_TNH = qkv_T3D.view(len(x_TD), 3, self.num_heads, -1).unbind(1)
        if probabilities is None:
            mixed_TNH = attend(q_TNH, k_TNH, v_TNH, layout=layout)
        else:
            mixed_TNH, found = attend_with_probabilities(q_TNH, k_TNH, v_TNH, layout=layout)
            probabilities.append(found)
        mixed_TD = mixed_TNH.reshape(x_TD.shape)
        if selected is not None:
            x_TD, mixed_TD = gather_rows(x_TD, selected.indices_P), gather_rows(mixed_TD, selected.indices_P)
        pairs = zip(x_TD.split(_CHUNK), mixed_TD.split(_CHUNK), strict=True)
        return _join([self.norm(self.output(mixed).add_(rows)) for rows, mixed in pairs])


class Int8FeedForwardBlock(nn.Module):
    """A `FeedForwardBlock` for inference.

    GELU with tanh, which takes twice as long, is replaced by the exact one: they differ by less than 0.0005,
    and the activations are rounded to multiples of at least 0.005.
    """

    def __init__(self, block: FeedForwardBlock, inner: nn.Module, output: nn.Module) -> None:
        super().__init__()
        self.inner, self.output, self.norm = inner, output, block.norm
        self.activation = F.gelu if block.activation is gelu_tanh else block.activation

    def forward(self, x_TD: Tensor) -> Tensor:
        return _join(list(self._compute(x_TD)))

    def _compute(self, x_TD: Tensor) -> Iterator[Tensor]:
        for rows_TD in x_TD.split(_CHUNK):
            yield self.norm(self.output(self.activation(self.inner(rows_TD))).add_(rows_TD))


class Int8MaskedLMHead(nn.Module):
    """A `MaskedLMHead` for inference, whose output layer is the int8 table of the embeddings."""

    def __init__(self, head: MaskedLMHead, dense: nn.Module, table: Int8Table | None) -> None:
        super().__init__()
        self.dense, self.norm, self.activation, self.bias = dense, head.norm, head.activation, head.bias
        self.output = None
        if table is not None:
            words_VE = table.weight * table.scale_V[:, None]
            self.output = Int8Linear(words_VE, head.bias, limit=table.limit)

    def forward(self, x_MD: Tensor, words_VE: Tensor) -> Tensor:
        x_ME = self.norm(self.activation(self.dense(x_MD)))
        return F.linear(x_ME, words_VE, self.bias) if self.output is None else self.output(x_ME)


def _join(chunks: list[Tensor]) -> Tensor:
    return chunks[0] if len(chunks) == 1 else torch.cat(chunks)
