"""Measure the time and the peak memory of a training step, in a new process.

`measure_footprint` sends a request to the child process (`main`) and reads its response, both as JSON.

Shapes: T tokens, B sequences, M masked positions.
"""

import contextlib
import gc
import json
import platform
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
import torch
from pydantic import Field, PositiveInt
from torch import nn

from albert.errors import InputError
from albert.examples.batches import PretrainingBatch, cut_batch
from albert.examples.masking import NO_SPANS
from albert.model.albert_model import AlbertModel, build_model
from albert.model.config import PRESETS, ModelConfig, ParameterCount, count_parameters
from albert.model.runtime import autocast
from albert.progress import build_command
from albert.settings import Settings, build_settings
from albert.training.distributed import DistributedContext
from albert.training.losses import PretrainLosses, build_tokens, count_terms
from albert.training.optimizers import build_optimizer
from albert.training.run_folder import MEMORY_PATH, STATUS_PATH, read_amounts
from albert.training.settings import LossSpikeSettings, OptimizerName, OptimizerSettings
from albert.training.step import LossSpikeFilter, Objective, StepReport, TrainStep

Family = Literal["ALBERT", "BERT"]
FAMILIES: tuple[Family, ...] = get_args(Family)
Shape = Literal["nano", "small", "base", "large", "xlarge", "xxlarge"]
# The second versions, without dropout, which the paper's ALBERT and BERT do not have in common.
PRESET_OF = {
    "nano": "nano", "small": "small", "base": "albert-base-v2", "large": "albert-large-v2",
    "xlarge": "albert-xlarge-v2", "xxlarge": "albert-xxlarge-v2",
}  # fmt: skip
CHILD = "albert.study.step_costs"
MASKED_SHARE = 0.15
PAIR_HEAD = "sop"
HEADS = {"mlm": None, PAIR_HEAD: None}
_OUT_OF_MEMORY_SIGNALS = ("SIGKILL", "SIGABRT", "SIGSEGV", "SIGBUS")
_FIRST_TOKEN = 5  # after [PAD], [UNK], [CLS], [SEP] and [MASK]
_LEARNING_RATE = 1e-6
# The first step of this model allocates threads, memory pools and kernel workspaces, which are not measured.
_WARM_UP = ModelConfig(
    vocab_size=64, embedding_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
    intermediate_size=32, max_position_embeddings=16,
)  # fmt: skip


class DoesNotFitError(InputError):
    """Raised if there is not enough memory for a training step."""


@dataclass(frozen=True)
class Footprint:
    """The cost of a training step.

    Args:
        peak_bytes: The peak memory, minus that of a process without a model.
        model_seconds: The median time of forward and backward pass.
        optimizer_seconds: The median time of clipping and update.
        inference_seconds: The median time of a forward pass alone, if requested.
    """

    peak_bytes: int
    model_seconds: float
    optimizer_seconds: float
    num_tokens: int
    num_parameters: int = 0
    inference_seconds: float | None = None
    memory_source: str = "VmHWM"

    @property
    def step_seconds(self) -> float:
        return self.model_seconds + self.optimizer_seconds


class StepRequest(Settings):
    """A request for steps on `batch_size` × `length` random tokens, after one warm-up step.

    A step has one batch, or micro-batches of about `micro_batch_tokens`.
    """

    config: ModelConfig
    batch_size: PositiveInt
    length: Annotated[int, Field(ge=2)]
    optimizer: OptimizerName
    gradient_checkpointing: bool = False
    num_steps: PositiveInt = 3
    num_passes: int = 0
    micro_batch_tokens: int | None = None
    num_threads: int | None = None
    max_bytes: int | None = None


class PairSettings(Settings):
    """Settings shared by the speed and memory studies.

    Args:
        model: Overrides of the config of both models.
        length: The number of random tokens in a sequence.
        num_steps: The number of timed steps in a process, after one warm-up step.
        num_threads: The number of threads; by default torch chooses.
    """

    shapes: Annotated[tuple[Shape, ...], Field(min_length=1)] = ("base",)
    model: dict[str, bool | int | float | str] = Field(default_factory=dict)
    length: Annotated[int, Field(ge=2)] = 128
    optimizer: OptimizerName = "lamb"
    num_steps: PositiveInt = 2
    num_threads: PositiveInt | None = None

    def build_pairs(self) -> dict[str, dict[Family, ModelConfig]]:
        """Build the configs of both models by shape."""
        pairs = {str(shape): build_pair(shape, changes=self.model) for shape in self.shapes}
        for shape, pair in pairs.items():
            limit = pair["ALBERT"].max_position_embeddings
            if self.length > limit:
                raise InputError(f"length is {self.length}, but {shape} has {limit} positions; lower it")
        return pairs

    def measure(self, config: ModelConfig, *, batch_size: int, **options: Any) -> Footprint:
        """Measure the training step of a model."""
        own = self.model_dump(include={"length", "optimizer", "num_steps", "num_threads"})
        return measure_footprint(StepRequest(config=config, batch_size=batch_size, **own, **options))

    def describe_step(self) -> str:
        """Describe the measured step for a report."""
        return (
            "BERT is the same model with other settings: no sharing, E = H and the exact GELU. A step is "
            f"that of `albert pretrain` with {self.optimizer.upper()} on one batch of sequences of "
            f"{self.length} random tokens, in float32."
        )


def build_pair(shape: str, *, changes: Mapping[str, Any] | None = None) -> dict[Family, ModelConfig]:
    """Build the configs of ALBERT and BERT of one shape; BERT has no sharing, E = H and the exact GELU."""
    source, values = f"shape {shape}", {**PRESETS[PRESET_OF[shape]], **(changes or {})}
    albert = build_settings(ModelConfig, values=values, source=source)
    own = {"embedding_size": albert.hidden_size, "has_embedding_map": None, "hidden_act": "gelu"}
    values = {**albert.model_dump(mode="json"), "sharing": "none", "num_hidden_groups": 1, **own}
    return {"ALBERT": albert, "BERT": build_settings(ModelConfig, values=values, source=source)}


def count_pair(shape: str) -> dict[Family, ParameterCount]:
    """Count the parameters of both models, with both pretraining heads."""
    return {family: count_parameters(config) for family, config in build_pair(shape).items()}


def count_operations(config: ModelConfig, *, length: int) -> float:
    """Count the floating-point operations of a training step per token: 6 for each use of a weight."""
    h, f, e = config.hidden_size, config.intermediate_size, config.embedding_size
    layer = 4 * h * h + 2 * h * f + 2 * length * h  # the last term: queries × keys, probabilities × values
    mlm = MASKED_SHARE * (h * e + config.vocab_size * e)
    return 6 * (config.num_hidden_layers * layer + mlm)


def describe_machine(*, num_threads: int | None = None) -> str:
    """Describe the processor, the number of threads (by default torch's) and the versions."""
    processor = platform.processor() or platform.machine() or "CPU"
    with contextlib.suppress(OSError), Path("/proc/cpuinfo").open(encoding="utf-8") as file:
        names = (line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
        processor = next(names, processor)
    number = num_threads or torch.get_num_threads()
    threads = f"{number} {'thread' if number == 1 else 'threads'}, {torch.backends.cpu.get_cpu_capability()}"
    return f"{processor}, {threads}; Python {platform.python_version()}, torch {torch.__version__}"


def measure_footprint(request: StepRequest) -> Footprint:
    """Run pretraining steps in a new process; raise `DoesNotFitError` if they need too much memory."""
    limits = [request.max_bytes, read_amounts(MEMORY_PATH).get("MemAvailable")]
    limit = min((each for each in limits if each is not None), default=None)
    text = request.model_copy(update={"max_bytes": limit}).model_dump_json()
    done = subprocess.run(build_command(CHILD), input=text, capture_output=True, encoding="utf-8")
    if done.returncode < 0 and (name := signal.Signals(-done.returncode).name) in _OUT_OF_MEMORY_SIGNALS:
        raise DoesNotFitError(f"its process was killed by {name}, probably for lack of memory")
    if done.returncode != 0:
        raise RuntimeError(f"{CHILD} exited with code {done.returncode}:\n{done.stderr.strip()}")
    response = json.loads(done.stdout.splitlines()[-1])  # libraries may print lines before it
    if "does_not_fit" in response:
        raise DoesNotFitError(response["does_not_fit"])
    return Footprint(**response)


def main() -> None:
    """Read a request and print the response, in the child process."""
    request = StepRequest.model_validate_json(sys.stdin.read())
    if request.num_threads is not None:
        torch.set_num_threads(request.num_threads)
    try:
        response = asdict(_measure_request(request))
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "allocate memory" not in str(error):
            raise
        response = {"does_not_fit": "its steps need more memory than is available"}
    print(json.dumps(response))


def _measure_request(request: StepRequest) -> Footprint:
    build = partial(build_model, heads=HEADS, gradient_checkpointing=request.gradient_checkpointing)
    small_batch = build_random_batch(_WARM_UP, num_sequences=request.batch_size, length=8)
    _run_steps(build(_WARM_UP), request.optimizer, [small_batch], num_steps=1)
    if request.max_bytes is not None:
        _limit_memory(request.max_bytes)
    with PeakMemory() as memory:
        model = build(request.config)
        batch = build_random_batch(request.config, num_sequences=request.batch_size, length=request.length)
        batches = cut_batch(batch, max_tokens=request.micro_batch_tokens or len(batch.ids_T))
        reports = _run_steps(model, request.optimizer, batches, num_steps=1 + request.num_steps)[1:]
    return Footprint(
        peak_bytes=memory.peak_bytes,
        model_seconds=statistics.median(report.model_seconds for report in reports),
        optimizer_seconds=statistics.median(report.optimizer_seconds for report in reports),
        num_tokens=sum(len(batch.ids_T) for batch in batches),
        num_parameters=sum(parameter.numel() for parameter in model.parameters()),
        inference_seconds=_time_inference(model, batches, num_passes=request.num_passes),
        memory_source=memory.source,
    )


def _run_steps(
    model: AlbertModel, optimizer: OptimizerName, batches: list[PretrainingBatch], *, num_steps: int
) -> list[StepReport]:
    settings = build_settings(OptimizerSettings, values={"name": optimizer}, source="request")
    network = PretrainLosses(model.train(), pair_head=PAIR_HEAD)
    train_step = build_train_step(network, build_optimizer(model, settings), context=DistributedContext())
    run = partial(train_step.run, batches, train_step.plan(batches), learning_rate=_LEARNING_RATE, options={})
    return [run() for _ in range(num_steps)]


@torch.inference_mode()
def _time_inference(model: AlbertModel, batches: list[PretrainingBatch], *, num_passes: int) -> float | None:
    if not num_passes:
        return None
    model.eval()
    inputs = [build_tokens(batch) for batch in batches]
    times = []
    for _ in range(1 + num_passes):
        start = time.perf_counter()
        for tokens in inputs:
            model(tokens)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def build_random_batch(config: ModelConfig, *, num_sequences: int, length: int) -> PretrainingBatch:
    """Build sequences of random tokens, all of one length."""
    draw = np.random.default_rng(0)
    shape = (num_sequences, length)
    ids = draw.integers(_FIRST_TOKEN, config.vocab_size, shape)
    num_masked = max(1, round(MASKED_SHARE * length))
    masked = np.stack([1 + draw.permutation(length - 1)[:num_masked] for _ in range(num_sequences)])
    masked += length * np.arange(num_sequences)[:, None]
    return PretrainingBatch(
        ids_T=ids.ravel(),
        positions_T=np.broadcast_to(np.arange(length), shape).ravel(),
        segments_T=np.broadcast_to((np.arange(length) >= length // 2).astype(np.int64), shape).ravel(),
        lengths=np.full(num_sequences, length),
        masked_M=masked.ravel(),
        targets_M=draw.integers(_FIRST_TOKEN, config.vocab_size, masked.size),
        labels_B=draw.integers(0, 2, num_sequences),
        has_labels=True,
        spans=NO_SPANS,
    )


def build_train_step(
    network: nn.Module, optimizer: torch.optim.Optimizer, *, context: DistributedContext
) -> TrainStep[PretrainingBatch]:
    """Build the training step of `albert pretrain`: both losses, clipping and update; no step is skipped."""

    def build_empty_batch() -> PretrainingBatch:
        raise AssertionError("all processes have the same number of batches")

    count = partial(count_terms, pair_head=PAIR_HEAD)
    objective = Objective(tuple(HEADS), count, build_empty_batch)
    spikes = LossSpikeFilter(LossSpikeSettings(spike_factor=0.0))
    return TrainStep(
        network, optimizer, objective, spikes, 1.0, lambda: autocast(torch.device("cpu")), context
    )


class PeakMemory:
    """Measures the peak of resident memory in a block, minus the memory at its start.

    On Linux the high-water mark is reset. Elsewhere, the peak of the whole process is used.
    """

    source = "VmHWM"

    def __enter__(self) -> "PeakMemory":
        gc.collect()
        if STATUS_PATH.exists():
            with contextlib.suppress(
                OSError
            ):  # not permitted: only a peak above all earlier ones is measured
                Path("/proc/self/clear_refs").write_text("5")
            self.start = read_amounts(STATUS_PATH)["VmRSS"]
        else:
            self.source = "getrusage"
            self.start = self._read_peak()
        return self

    def __exit__(self, *_: object) -> None:
        self.peak_bytes = self._read_peak() - self.start

    def _read_peak(self) -> int:
        if self.source == "VmHWM":
            return read_amounts(STATUS_PATH)["VmHWM"]
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * unit


def _limit_memory(num_bytes: int) -> None:
    """Limit the further memory of this process on Linux, so that it fails and not another process."""
    if not STATUS_PATH.exists():
        return
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (read_amounts(STATUS_PATH)["VmData"] + num_bytes, hard))
    with contextlib.suppress(OSError):  # out of memory, the system kills this process first
        Path("/proc/self/oom_score_adj").write_text("1000")
