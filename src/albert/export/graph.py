"""Build the ONNX graph of a model, operator by operator.

Each weight is one initializer, however many layers use it, and in the orientation in which the kernels of
ONNX Runtime read it. A graph that transposes weights would be folded by its optimizer into a copy for each
use, and so would separate projections of query, key and value: they are stored as one matrix. The tied word
table is read by a lookup and, transposed inside the kernel, by the decoder of masked tokens.

With int8, matrix products of the encoder are dynamically quantized: weights by output channel, activations by
tensor while the graph runs.

Shapes: B sequences, L length of the longest, S its inner tokens, E embedding width, D hidden width,
F feed-forward width, N heads, K outputs, V vocabulary.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from albert.inference.backends import STORED_TRANSPOSED
from albert.model.albert_model import AlbertModel

if TYPE_CHECKING:
    from onnx import ModelProto

OPSET, IR_VERSION = 20, 9  # of 2023: they have LayerNormalization and Gelu
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
# The outputs of each head, as Hugging Face calls them; those of beam_span are in no class of `transformers`.
OUTPUTS: dict[str, tuple[str, ...]] = {
    "mlm": ("logits",),
    "sop": ("sop_logits",),
    "nsp": ("seq_relationship_logits",),
    "classification": ("logits",),
    "mean_classification": ("logits",),
    "segment_classification": ("logits",),
    "token_classification": ("logits",),
    "span": ("start_logits", "end_logits"),
    "beam_span": ("start_logits", "end_logits", "unanswerable_logits"),
    "choice": ("logits",),
}
HIDDEN, POOLED, VECTOR = "last_hidden_state", "pooler_output", "sentence_embedding"
_FAR_BELOW = np.float32(-1e38)  # a score that has no weight in a softmax, and a finite sum with any other
# 7 bits: the sum of two products of 8 bits would overflow on processors without VNNI.
_LARGEST = 63


def build_graph(
    model: AlbertModel,
    *,
    shapes: Mapping[str, Sequence[int | str]],
    depth: int,
    pooling: str | None,
    is_normalized: bool,
    is_int8: bool = False,
) -> "ModelProto":
    """Build the graph of `depth` layers and all heads.

    Args:
        model: The model.
        shapes: The shape of each output.
        depth: The number of layers.
        pooling: How the output `sentence_embedding` is pooled: mean, cls or pooler; None for no such output.
        is_normalized: Whether this vector has length 1.
        is_int8: Quantize the encoder.
    """
    from onnx import TensorProto, helper

    graph = _ModelGraph(model, is_int8=is_int8)
    x_BLD = graph.encode(depth)
    outputs = {HIDDEN: x_BLD}
    if model.pooler is not None:
        outputs[POOLED] = graph.pool_first(x_BLD)
    if pooling is not None:
        outputs[VECTOR] = graph.pool_text(x_BLD, pooling, depth=depth, is_normalized=is_normalized)
    for head, names in OUTPUTS.items():
        if head in model.heads:
            outputs |= zip(names, graph.add_head(head, x_BLD), strict=True)
    for name, value in outputs.items():
        graph.nodes.append(helper.make_node("Identity", [value], [name]))
    sizes = ("batch", "length")
    proto = helper.make_graph(
        graph.nodes,
        "albert",
        [helper.make_tensor_value_info(name, TensorProto.INT64, sizes) for name in INPUTS],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes[name]) for name in outputs],
        list(graph.initializers.values()),
    )
    return helper.make_model(
        proto,
        producer_name="albert",
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )


class _ModelGraph:
    """The nodes and initializers of a model; methods add nodes and return the names of their outputs."""

    def __init__(self, model: AlbertModel, *, is_int8: bool) -> None:
        self.model, self.config, self.is_int8 = model, model.config, is_int8
        self.weights = {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}
        self.nodes: list[Any] = []
        self.initializers: dict[str, Any] = {}

    # Operators.

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        return self.add_node(operator, inputs, count=1, **attributes)[0]

    def split(self, x: str, count: int) -> list[str]:
        """Split the last dimension into equal parts."""
        return self.add_node("Split", [x], count=count, axis=-1, num_outputs=count)

    def add_node(self, operator: str, inputs: Sequence[str], *, count: int, **attributes: Any) -> list[str]:
        from onnx import helper

        outputs = [f"{operator}_{len(self.nodes)}_{index}" for index in range(count)]
        self.nodes.append(helper.make_node(operator, inputs, outputs, **attributes))
        return outputs

    def store(self, name: str, values: NDArray[Any]) -> str:
        from onnx import numpy_helper

        if name not in self.initializers:
            self.initializers[name] = numpy_helper.from_array(np.asarray(values, order="C"), name)
        return name

    def weight(self, name: str) -> str:
        return self.store(name, self.weights[name])

    def number(self, value: float) -> str:
        return self.store(f"number {value:g}", np.array(value, np.float32))

    def ints(self, *values: int) -> str:
        return self.store(f"integers {values}", np.array(values, np.int64))

    def linear(self, x: str, *names: str) -> str:
        """Apply one linear layer, or several with the same input, whose outputs are concatenated."""
        joined = "+".join(names)
        weight = np.concatenate([self.weights[f"{name}.weight"] for name in names]).T
        if self.is_int8 and joined.startswith("encoder."):
            y = self.multiply_int8(x, f"{joined}.weight", weight)
        else:
            y = self.add("MatMul", x, self.store(f"{joined}.weight{STORED_TRANSPOSED}", weight))
        if f"{names[0]}.bias" not in self.weights:
            return y
        biases = [self.weights[f"{name}.bias"] for name in names]
        return self.add("Add", y, self.store(f"{joined}.bias", np.concatenate(biases)))

    def multiply_int8(self, x: str, name: str, weight_DK: NDArray[np.float32]) -> str:
        quantized_DK, scale_K = quantize(weight_DK, axis=0)
        codes, scale, zero = self.add_node("DynamicQuantizeLinear", [x], count=3)
        sums = self.add("MatMulInteger", codes, self.store(f"{name}.int8", quantized_DK), zero)
        scales = self.add("Mul", scale, self.store(f"{name}.scale", scale_K[0]))
        return self.add("Mul", self.add("Cast", sums, to=_type_of(np.float32)), scales)

    def norm(self, x: str, name: str) -> str:
        weights = (self.weight(f"{name}.weight"), self.weight(f"{name}.bias"))
        return self.add("LayerNormalization", x, *weights, epsilon=self.config.layer_norm_eps)

    def activate(self, x: str) -> str:
        activation = self.config.hidden_act
        if activation == "relu":
            return self.add("Relu", x)
        return self.add("Gelu", x, approximate="tanh" if activation == "gelu_new" else "none")

    # The encoder.

    def encode(self, depth: int) -> str:
        encoder = self.model.encoder
        mask_BL = self.add("Cast", "attention_mask", to=_type_of(np.float32))
        self.mask_BL1 = self.add("Unsqueeze", mask_BL, self.ints(2))
        missing_BL = self.add("Sub", self.number(1.0), mask_BL)
        bias_BL = self.add("Mul", missing_BL, self.store("far below", np.array(_FAR_BELOW)))
        bias_B11L = self.add("Unsqueeze", bias_BL, self.ints(1, 2))
        x_BLD = self.embed()
        for layer in encoder.select_layers(depth):
            for block in layer:
                x_BLD = self.attend(x_BLD, bias_B11L, f"encoder.attention.{block.attention}")
                name = f"encoder.ffn.{block.ffn}"
                inner_BLF = self.activate(self.linear(x_BLD, f"{name}.inner"))
                x_BLD = self.norm(
                    self.add("Add", x_BLD, self.linear(inner_BLF, f"{name}.output")), f"{name}.norm"
                )
        return x_BLD

    def embed(self) -> str:
        name = "encoder.embeddings"
        length = self.add("Shape", "input_ids", start=1, end=2)
        position_LE = self.add("Slice", self.weight(f"{name}.position.weight"), self.ints(0), length)
        segment_BLE = self.add("Gather", self.weight(f"{name}.segment.weight"), "token_type_ids")
        x_BLE = self.add("Add", self.add("Add", self.look_up_words(), segment_BLE), position_LE)
        x_BLE = self.norm(x_BLE, f"{name}.norm")
        return x_BLE if self.model.encoder.embeddings.map is None else self.linear(x_BLE, f"{name}.map")

    @property
    def words_VE(self) -> NDArray[np.float32]:  # noqa: N802 - an array carries its shape in its name
        words_VE: NDArray[np.float32] = self.weights["encoder.embeddings.word.weight"]
        return words_VE

    def look_up_words(self) -> str:
        name = "encoder.embeddings.word.weight"
        if not self.is_int8:
            return self.add("Gather", self.weight(name), "input_ids")
        codes_VE, scale_V1 = quantize(self.words_VE, axis=1)
        if "mlm" in self.model.heads:  # the decoder reads the same table, transposed
            table_EV = self.store(f"{name}.int8", codes_VE.T)
            codes_BLE = self.add(
                "Transpose", self.add("Gather", table_EV, "input_ids", axis=1), perm=[1, 2, 0]
            )
        else:
            codes_BLE = self.add("Gather", self.store(f"{name}.int8", codes_VE), "input_ids")
        scale_BL = self.add("Gather", self.store(f"{name}.scale", scale_V1[:, 0]), "input_ids")
        scale_BL1 = self.add("Unsqueeze", scale_BL, self.ints(2))
        return self.add("Mul", self.add("Cast", codes_BLE, to=_type_of(np.float32)), scale_BL1)

    def attend(self, x_BLD: str, bias_B11L: str, name: str) -> str:
        num_heads, width = self.config.num_attention_heads, self.config.hidden_size
        split = self.ints(0, 0, num_heads, width // num_heads)  # 0 keeps a dimension
        joined = self.linear(x_BLD, f"{name}.query", f"{name}.key", f"{name}.value")
        parts = self.split(joined, 3)
        q_BLNH, k_BLNH, v_BLNH = (self.add("Reshape", part, split) for part in parts)
        q_BNLH, v_BNLH = (self.add("Transpose", part, perm=[0, 2, 1, 3]) for part in (q_BLNH, v_BLNH))
        k_BNHL = self.add("Transpose", k_BLNH, perm=[0, 2, 3, 1])
        scores_BNLL = self.add("MatMul", q_BNLH, k_BNHL)
        scale = self.store("attention scale", np.array((width // num_heads) ** -0.5, np.float32))
        scores_BNLL = self.add("Add", self.add("Mul", scores_BNLL, scale), bias_B11L)
        mixed_BNLH = self.add("MatMul", self.add("Softmax", scores_BNLL, axis=-1), v_BNLH)
        mixed_BLNH = self.add("Transpose", mixed_BNLH, perm=[0, 2, 1, 3])
        mixed_BLD = self.add("Reshape", mixed_BLNH, self.ints(0, 0, width))
        return self.norm(self.add("Add", x_BLD, self.linear(mixed_BLD, f"{name}.output")), f"{name}.norm")

    # Pooling.

    def first(self, x_BLD: str) -> str:
        return self.add("Gather", x_BLD, self.store("first token", np.array(0, np.int64)), axis=1)

    def pool_first(self, x_BLD: str) -> str:
        return self.add("Tanh", self.linear(self.first(x_BLD), "pooler"))

    def pool_mean(self, x_BLD: str, mask_BL1: str) -> str:
        """Average the tokens of a mask; an empty mask gives zeros."""
        sum_BD, count_B1 = (
            self.add("ReduceSum", each, self.ints(1), keepdims=0)
            for each in (self.add("Mul", x_BLD, mask_BL1), mask_BL1)
        )
        return self.add("Div", sum_BD, self.add("Max", count_B1, self.number(1.0)))

    def pool_segments(self, x_BLD: str) -> str:
        """Compute the features of `albert.model.heads.pool_segments`."""
        # A token belongs to a text if the next one is of the same segment, except the first.
        end = self.store("last index", np.array([np.iinfo(np.int64).max]))
        here, there = (
            (self.ints(1), self.ints(-1)),
            (self.ints(2), end),
        )
        segment_BS, next_BS = (
            self.add("Slice", "token_type_ids", *bounds, self.ints(1)) for bounds in (here, there)
        )
        is_same_BS = self.add("Cast", self.add("Equal", segment_BS, next_BS), to=_type_of(np.float32))
        next_mask_BS = self.add("Slice", "attention_mask", *there, self.ints(1))
        is_real_BS = self.add("Cast", next_mask_BS, to=_type_of(np.float32))
        is_text_BS = self.add("Mul", is_same_BS, is_real_BS)
        x_BSD = self.add("Slice", x_BLD, *here, self.ints(1))
        second_BS = self.add("Cast", segment_BS, to=_type_of(np.float32))
        parts = (self.add("Sub", self.number(1.0), second_BS), second_BS)
        masks = [self.add("Unsqueeze", self.add("Mul", is_text_BS, part), self.ints(2)) for part in parts]
        counts = [self.add("ReduceSum", mask, self.ints(1), keepdims=0) for mask in masks]
        has_both_B1 = self.add("Min", self.add("Mul", *counts), self.number(1.0))
        u_BD, v_BD = (self.add("Mul", self.pool_mean(x_BSD, mask), has_both_B1) for mask in masks)
        difference_BD = self.add("Abs", self.add("Sub", u_BD, v_BD))
        mean_BD = self.pool_mean(x_BLD, self.mask_BL1)
        return self.add("Concat", mean_BD, difference_BD, self.add("Mul", u_BD, v_BD), axis=1)

    def pool_text(self, x_BLD: str, pooling: str, *, depth: int, is_normalized: bool) -> str:
        if pooling == "mean":
            vector_BD = self.pool_mean(x_BLD, self.mask_BL1)
            if "vector_exits" in self.model.heads and depth < self.config.num_hidden_layers:
                name = f"heads.vector_exits.{depth - 1}"
                change_BD = self.linear(self.linear(vector_BD, f"{name}.down"), f"{name}.up")
                vector_BD = self.add("Add", vector_BD, change_BD)
        else:
            vector_BD = self.first(x_BLD) if pooling == "cls" else self.pool_first(x_BLD)
        if is_normalized:
            vector_BD = self.add("Div", vector_BD, self.add("ReduceL2", vector_BD, self.ints(1)))
        return vector_BD

    # Heads.

    def add_head(self, head: str, x_BLD: str) -> Sequence[str]:
        name = f"heads.{head}"
        pools: dict[str, Callable[[], str]] = {
            "mean_classification": lambda: self.pool_mean(x_BLD, self.mask_BL1),
            "segment_classification": lambda: self.pool_segments(x_BLD),
            "token_classification": lambda: x_BLD,
        }
        if head == "mlm":
            return [self.add_decoder(x_BLD)]
        if head == "span":
            logits_BL2 = self.linear(x_BLD, f"{name}.linear")
            parts = self.split(logits_BL2, 2)
            return [self.add("Squeeze", part, self.ints(2)) for part in parts]
        if head == "beam_span":
            return self.add_beam_span(x_BLD)
        return [self.linear(pools.get(head, lambda: self.pool_first(x_BLD))(), f"{name}.linear")]

    def add_decoder(self, x_BLD: str) -> str:
        """Add the logits of masked tokens at all positions, by the table of the words."""
        head, words = "heads.mlm", "encoder.embeddings.word.weight"
        x_BLE = self.norm(self.activate(self.linear(x_BLD, f"{head}.dense")), f"{head}.norm")
        bias_V = self.weight(f"{head}.bias")
        if self.is_int8:
            return self.add("Add", self.multiply_int8(x_BLE, words, self.words_VE.T), bias_V)
        # Only Gemm reads a transposed matrix without a copy, and only in two dimensions.
        x_TE = self.add("Reshape", x_BLE, self.ints(-1, self.config.embedding_size))
        logits_TV = self.add("Gemm", x_TE, self.weight(words), bias_V, transB=1)
        sizes = self.add("Concat", self.add("Shape", "input_ids"), self.ints(-1), axis=0)
        return self.add("Reshape", logits_TV, sizes)

    def add_beam_span(self, x_BLD: str) -> list[str]:
        """Add the logits of starts, of ends given the best start, and of "no answer".

        Starts and ends are in the second text, or at [CLS].
        """
        name, width = "heads.beam_span", self.config.hidden_size
        length_B1 = self.add("ReduceSum", "attention_mask", self.ints(1))
        length = self.add("Squeeze", self.add("Shape", "input_ids", start=1, end=2), self.ints(0))
        zero, one = (self.store(f"integer {value}", np.array(value, np.int64)) for value in (0, 1))
        position_L = self.add("Range", zero, length, one)
        is_text_BL = self.add("Less", position_L, self.add("Sub", length_B1, one))  # without the last [SEP]
        is_second_BL = self.add("Equal", "token_type_ids", one)
        is_first_L = self.add("Equal", position_L, zero)
        allowed_BL = self.add("Or", self.add("And", is_text_BL, is_second_BL), is_first_L)
        never = self.store("minus infinity", np.array(-np.inf, np.float32))

        def score(y_BLD: str, linear: str) -> str:
            logits_BL = self.add("Squeeze", self.linear(y_BLD, f"{name}.{linear}"), self.ints(2))
            return self.add("Where", allowed_BL, logits_BL, never)

        start_BL = score(x_BLD, "start")
        best_B1 = self.add("ArgMax", start_BL, axis=1)
        index_B11 = self.add("Unsqueeze", best_B1, self.ints(2))
        start_B1D = self.add(
            "GatherElements", x_BLD, self.add("Expand", index_B11, self.ints(1, 1, width)), axis=1
        )
        starts_BLD = self.add("Expand", start_B1D, self.add("Shape", x_BLD))
        both_BLD = self.add("Concat", x_BLD, starts_BLD, axis=2)
        y_BLD = self.norm(self.add("Tanh", self.linear(both_BLD, f"{name}.end_dense")), f"{name}.end_norm")
        end_BL = score(y_BLD, "end")
        p_B1L = self.add("Unsqueeze", self.add("Softmax", start_BL, axis=1), self.ints(1))
        likely_BD = self.add("Squeeze", self.add("MatMul", p_B1L, x_BLD), self.ints(1))
        summary_BD = self.add("Concat", likely_BD, self.first(x_BLD), axis=1)
        answer_BD = self.add("Tanh", self.linear(summary_BD, f"{name}.answer_dense"))
        missing_B = self.add("Squeeze", self.linear(answer_BD, f"{name}.answer"), self.ints(1))
        return [start_BL, end_BL, missing_B]


def quantize(weight: NDArray[np.float32], *, axis: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Quantize symmetrically, with a scale for each slice along `axis`; return the codes and the scales."""
    scale = np.abs(weight).max(axis, keepdims=True) / np.float32(_LARGEST)
    scale = np.where(scale == 0, np.float32(1), scale)
    return np.rint(weight / scale).astype(np.int8), scale.astype(np.float32)


def _type_of(dtype: Any) -> int:
    from onnx import helper

    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
