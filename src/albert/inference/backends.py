"""Open a model with torch, or the encoder of an exported folder with ONNX Runtime.

An exported folder holds a graph with the encoder and the heads. Here only its encoder is run, as a module in
the place of torch's, and the heads are built with torch from the weights in the file. Every prediction works
on them as on any model, without a second implementation.

Shapes: T tokens, P selected tokens, B sequences, D hidden width.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from albert.errors import FileFormatError, InputError, first_line, format_install_command
from albert.files import read_json
from albert.model.albert_model import AlbertModel
from albert.model.config import ModelConfig
from albert.model.encoder import Encoder, EncoderOutput
from albert.model.heads import Heads, VectorExit
from albert.model.runtime import RuntimeSettings, select_device
from albert.model.tokens import Tokens
from albert.pretrained.folder import Pretrained, find_heads, load_model
from albert.pretrained.hub import resolve_source
from albert.pretrained.huggingface import CONFIG_NAME, ONNX_INT8_NAME, ONNX_NAME, parse_config
from albert.pretrained.int8 import apply_runtime

Backend = Literal["torch", "onnx", "onnx-int8"]
_FILES = {"onnx": ONNX_NAME, "onnx-int8": ONNX_INT8_NAME}
_WORDS = "encoder.embeddings.word.weight"
_VECTOR_EXIT = "heads.vector_exits."
STORED_TRANSPOSED = ".T"  # ends the names of matrices that a graph has transposed
_MIN_VERSION = (1, 20)  # of ONNX Runtime
_MAX_PADDING = 1.25  # longest ÷ shortest sequence of a padded batch


def open_model(
    source: str | Path,
    *,
    runtime: RuntimeSettings,
    backend: str = "torch",
    revision: str | None = None,
    is_shared: bool = False,
) -> tuple[Pretrained, RuntimeSettings]:
    """Load a model for prediction, and return the settings it runs with: a folder may be int8."""
    if backend not in get_args(Backend):
        raise InputError(f"unknown backend {backend!r}; choose from {', '.join(get_args(Backend))}")
    if backend != "torch":
        if runtime.precision != "float32":
            raise InputError(
                f"precision is {runtime.precision}, but a graph has its own; use precision=float32, or "
                "backend=onnx-int8 for a quantized graph"
            )
        path = resolve_source(source, revision=revision)
        return load_exported(path, name=_FILES[backend], device=select_device(runtime.device)), runtime
    loaded = load_model(source, revision=revision, is_shared=is_shared)
    runtime = apply_runtime(loaded.model, loaded.int8, runtime)
    loaded.model.to(select_device(runtime.device))
    return loaded, runtime


def load_exported(path: Path, *, name: str, device: torch.device | str = "cpu") -> Pretrained:
    """Load a folder that `albert export onnx` wrote, with the graph of this name."""
    file = path / name
    if not file.is_file():
        option = " --int8" if name == ONNX_INT8_NAME else ""
        raise FileFormatError(f"{path}: has no {name}; write one with albert export onnx{option}")
    folder = parse_config(read_json(path / CONFIG_NAME), source=path / CONFIG_NAME)
    weights = read_graph_weights(file)
    words_VE = weights.pop(_WORDS)
    vector_exit = {
        name.split(".", 3)[3]: weights.pop(name) for name in [*weights] if name.startswith(_VECTOR_EXIT)
    }
    with torch.device("meta"):
        model = ExportedModel(folder.model, heads=find_heads(weights), has_pooler="pooler.weight" in weights)
    model.load_state_dict({**model.encoder.state_dict(prefix="encoder."), **weights}, assign=True)
    model.encoder = SessionEncoder(folder.model, file, words_VE=words_VE)
    if vector_exit:
        model.vector_exit = VectorExit(folder.model.hidden_size, len(vector_exit["down.weight"]))
    model.vector_exit.load_state_dict(vector_exit)
    return Pretrained(model.to(device).eval(), folder, path)


def read_graph_weights(file: Path) -> dict[str, Tensor]:
    """Read the word table, the pooler and the heads from the initializers of a graph, by our names."""
    import onnx

    found = {}
    for each in onnx.load(file).graph.initializer:
        name = each.name.removesuffix(STORED_TRANSPOSED)
        if name.startswith(_WORDS) or name.split(".")[0] in ("pooler", "heads"):
            tensor = torch.from_numpy(onnx.numpy_helper.to_array(each).copy())
            found[name] = tensor.T.contiguous() if each.name != name else tensor
    if f"{_WORDS}.int8" in found:
        codes, scale_V = found.pop(f"{_WORDS}.int8"), found.pop(f"{_WORDS}.scale")
        codes_VE = codes.T if "heads.mlm.bias" in found else codes  # transposed for the decoder
        found[_WORDS] = codes_VE * scale_V[:, None]
    return found


class ExportedModel(AlbertModel):
    """A model of fixed depth, with the map of its text vectors if it has fewer layers than were trained."""

    def __init__(self, config: ModelConfig, *, heads: Heads, has_pooler: bool) -> None:
        super().__init__(config, heads=heads, has_pooler=has_pooler)
        self.vector_exit: nn.Module = nn.Identity()

    def pool_mean(self, x_TD: Tensor, tokens: Tokens, *, depth: int | None = None) -> Tensor:
        vectors_BD: Tensor = self.vector_exit(super().pool_mean(x_TD, tokens))
        return vectors_BD


class SessionEncoder(Encoder):
    """An encoder that runs in ONNX Runtime, with as many layers as were exported."""

    def __init__(self, config: ModelConfig, file: Path, *, words_VE: Tensor) -> None:
        nn.Module.__init__(self)  # without the layers
        self.config = config
        words = nn.Embedding(len(words_VE), words_VE.shape[1], _weight=words_VE)  # for the MLM head
        self.embeddings = nn.ModuleDict({"word": words})  # type: ignore[assignment]
        self.gradient_checkpointing = False
        self._session = open_session(file, num_threads=torch.get_num_threads())
        self._options = import_runtime().RunOptions()
        self._options.add_run_config_entry("only_execute_path_to_fetches", "1")

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
        """Run the graph on padded batches of sequences of similar length; arguments as in `Encoder`."""
        assert not with_hidden_states
        assert not with_attentions
        if depth not in (None, self.config.num_hidden_layers):
            raise InputError(
                f"depth is {depth}, but this ONNX model always runs {self.config.num_hidden_layers} layers; "
                f"omit the depth, or export with --depth {depth}"
            )
        parts = [part.cpu().split(tokens.lengths) for part in (tokens.ids_T, tokens.segments_T)]
        states: dict[int, Tensor] = {}
        for rows in _group_lengths(tokens.lengths):
            ids_BL, segments_BL, mask_BL = (
                pad_sequence([sequences[row] for row in rows], batch_first=True).numpy()
                for sequences in (*parts, [torch.ones_like(each) for each in parts[0]])
            )
            inputs = {"input_ids": ids_BL, "attention_mask": mask_BL, "token_type_ids": segments_BL}
            last_BLD = self._session.run(["last_hidden_state"], inputs, self._options)[0]
            for row, last_LD in zip(rows, torch.from_numpy(last_BLD), strict=True):
                states[row] = last_LD[: tokens.lengths[row]]
        last_TD = torch.cat([states[row] for row in range(len(tokens.lengths))]).to(tokens.ids_T.device)
        selected = tokens.first_B if first_only else indices_P
        return EncoderOutput(last_TD if selected is None else last_TD[selected])

    def state_dict(self, *_: Any, **__: Any) -> Any:
        """Reject saving the model: the weights of the layers are only in the graph."""
        raise InputError("an ONNX model cannot be saved; save or copy the model that it was exported from")


def _group_lengths(lengths: tuple[int, ...]) -> Iterator[list[int]]:
    """Yield the indices of sequences of similar length, shortest first."""
    group: list[int] = []
    for row in np.argsort(lengths, kind="stable").tolist():
        if group and lengths[row] > _MAX_PADDING * lengths[group[0]] + 1:
            yield group
            group = []
        group.append(row)
    yield group


def open_session(file: Path, *, num_threads: int) -> Any:
    """Open an ONNX file on the CPU; raise a FileFormatError if ONNX Runtime cannot read it."""
    runtime = import_runtime()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = num_threads
    # Threads that wait for work would take processor time from torch, which runs the heads.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3  # errors, which are raised as well
    try:
        return runtime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no common base
        raise FileFormatError(
            f"{file}: ONNX Runtime cannot read it ({first_line(error)}); export it again"
        ) from error


def import_runtime() -> Any:
    """Import ONNX Runtime and check for onnx; raise an InputError if they are missing or too old."""
    install = format_install_command("onnx")
    try:
        import onnx  # noqa: F401
        import onnxruntime
    except ImportError as error:
        raise InputError(f"ONNX needs the extra `onnx`; in the clone, run: {install}") from error
    numbers = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
    if numbers < _MIN_VERSION:
        needed = ".".join(map(str, _MIN_VERSION))
        raise InputError(
            f"onnxruntime is {onnxruntime.__version__}, but at least {needed} is needed; run: {install}"
        )
    return onnxruntime
