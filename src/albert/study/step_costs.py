"""Measure the time and the peak memory of a training step, for ALBERT and BERT models of one shape.

Each measurement runs in a fresh process (`step_child.py`): one line of JSON is sent and one is returned. The
child's standard input stays open until it has answered, so that it exits with its parent.
"""

import contextlib
import json
import platform
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveInt

from albert.errors import InputError
from albert.model.config import PRESETS, ModelConfig, ParameterCount, count_parameters
from albert.progress import build_command
from albert.settings import Settings, build_settings
from albert.study.cells import format_bytes
from albert.training.metrics import MEMORY_PATH, read_amounts
from albert.training.settings import OptimizerName

Family = Literal["ALBERT", "BERT"]
FAMILIES: tuple[Family, ...] = ("ALBERT", "BERT")
Shape = Literal["nano", "small", "base", "large", "xlarge", "xxlarge"]
# The second versions, which have no dropout: it would be the only work that the paper's pairs do not share.
PRESET_OF: dict[str, str] = {
    "nano": "nano",
    "small": "small",
    "base": "albert-base-v2",
    "large": "albert-large-v2",
    "xlarge": "albert-xlarge-v2",
    "xxlarge": "albert-xxlarge-v2",
}
MASKED_SHARE = 0.15
CHILD = "albert.study.step_child"
# Weights, gradients and two moments in float32: the minimum that a training step needs, whatever the batch.
# (Muon needs a little less: its matrices have one moment.)
MIN_BYTES_PER_PARAMETER = 16
_OUT_OF_MEMORY_SIGNALS = ("SIGKILL", "SIGABRT", "SIGSEGV", "SIGBUS")


class DoesNotFitError(InputError):
    """A training step needs more memory than is available."""


@dataclass(frozen=True)
class Footprint:
    """The cost of a training step.

    `peak_bytes` is measured above the memory of a process without a model. The times are medians:
    `model_seconds` covers forward and backward passes, `optimizer_seconds` clipping and the update,
    `inference_seconds` a forward pass alone, if requested. `memory_source` names the source of the peak.
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
        """The time of a whole training step."""
        return self.model_seconds + self.optimizer_seconds


@dataclass(frozen=True)
class StepRequest:
    """What the child measures. One additional step and pass come first and are not timed."""

    config: dict[str, Any]
    batch_size: int
    length: int
    optimizer: str
    gradient_checkpointing: bool
    num_steps: int
    num_passes: int
    micro_batch_tokens: int | None
    num_threads: int | None
    max_bytes: int | None


class PairSettings(Settings):
    """Settings shared by the speed and memory studies.

    `model` overrides values of the shape's preset on both sides. Each process times `num_steps` steps on
    sequences of `length` random tokens, after one warm-up step. Without `num_threads` torch chooses.
    """

    shapes: Annotated[tuple[Shape, ...], Field(min_length=1)] = ("base",)
    model: dict[str, bool | int | float | str] = Field(default_factory=dict)
    length: Annotated[int, Field(ge=2)] = 128
    optimizer: OptimizerName = "lamb"
    num_steps: PositiveInt = 2
    num_threads: PositiveInt | None = None

    def build_pairs(self) -> dict[str, dict[Family, ModelConfig]]:
        """Build both configurations of each shape."""
        pairs: dict[str, dict[Family, ModelConfig]] = {
            shape: build_pair(shape, changes=self.model) for shape in self.shapes
        }
        for shape, pair in pairs.items():
            limit = pair["ALBERT"].max_position_embeddings
            if self.length > limit:
                raise InputError(
                    f"length is {self.length}, and {shape} reads at most {limit} tokens; lower it"
                )
        return pairs

    def describe_step(self) -> str:
        """Describe the models and the step for a report."""
        return (
            "The two models differ in settings only: BERT shares nothing, its E equals H, its GELU is "
            "exact. Neither has dropout. A step is that of `albert pretrain` (both losses, clipping, "
            f"update) with {self.optimizer.upper()} on sequences of {self.length} random tokens, in "
            "float32, a batch at once."
        )


def build_pair(shape: str, *, changes: Mapping[str, Any] | None = None) -> dict[Family, ModelConfig]:
    """Build the ALBERT and the BERT configuration of one shape.

    BERT is ALBERT without sharing, with E = H and with the exact GELU. `changes` override the preset's values
    on both sides.
    """
    if shape not in PRESET_OF:
        raise InputError(f"unknown shape {shape!r}; there are {', '.join(PRESET_OF)}")
    source, values = f"shape {shape}", {**PRESETS[PRESET_OF[shape]], **(changes or {})}
    albert = build_settings(ModelConfig, values=values, source=source)
    differences = {
        "sharing": "none",
        "num_hidden_groups": 1,
        "embedding_size": albert.hidden_size,
        "has_embedding_map": None,
        "hidden_act": "gelu",
    }
    bert = build_settings(
        ModelConfig, values={**albert.model_dump(mode="json"), **differences}, source=source
    )
    return {"ALBERT": albert, "BERT": bert}


def count_pair(shape: str) -> dict[Family, ParameterCount]:
    """Count the parameters of both models, with both pretraining heads."""
    return {family: count_parameters(config) for family, config in build_pair(shape).items()}


def count_operations(config: ModelConfig, *, length: int) -> float:
    """Count the floating-point operations per token of a training step: 6 for each weight a token meets."""
    h, f, e = config.hidden_size, config.intermediate_size, config.embedding_size
    layer = 4 * h * h + 2 * h * f + 2 * length * h  # the last term: queries × keys, probabilities × values
    mlm = MASKED_SHARE * (h * e + config.vocab_size * e)
    return 6 * (config.num_hidden_layers * layer + mlm)


def describe_machine(*, num_threads: int | None = None) -> str:
    """Name the processor, the number of threads (default: torch's) and the versions, but no host."""
    import torch

    processor = platform.processor() or platform.machine() or "CPU"
    with contextlib.suppress(OSError), Path("/proc/cpuinfo").open(encoding="utf-8") as file:
        names = (line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
        processor = next(names, processor)
    number = num_threads or torch.get_num_threads()
    threads = f"{number} {'thread' if number == 1 else 'threads'}, {torch.backends.cpu.get_cpu_capability()}"
    return f"{processor}, {threads}; Python {platform.python_version()}, torch {torch.__version__}"


def measure_footprint(
    config: ModelConfig,
    *,
    batch_size: int,
    length: int,
    optimizer: OptimizerName,
    gradient_checkpointing: bool = False,
    num_steps: int = 3,
    num_passes: int = 0,
    micro_batch_tokens: int | None = None,
    num_threads: int | None = None,
    max_bytes: int | None = None,
) -> Footprint:
    """Run pretraining steps on `batch_size` × `length` random tokens in a fresh process and measure them.

    The batch is computed at once, or in micro-batches of about `micro_batch_tokens`. `max_bytes` limits the
    memory; the default is all that is available.

    Raises:
        DoesNotFitError: If the step needs more memory.
        InputError: If the length, the batch size or the number of steps is out of range.
    """
    if not 2 <= length <= config.max_position_embeddings:
        raise InputError(
            f"length is {length}; this model reads from 2 to {config.max_position_embeddings} tokens"
        )
    if batch_size < 1 or num_steps < 1:
        raise InputError(f"batch_size is {batch_size} and num_steps {num_steps}; both must be at least 1")
    limits = [max_bytes, read_amounts(MEMORY_PATH).get("MemAvailable")]
    limit = min((each for each in limits if each is not None), default=None)
    least = MIN_BYTES_PER_PARAMETER * count_parameters(config).total
    if limit is not None and least > limit:
        raise DoesNotFitError(
            f"weights, gradients and moments alone take {format_bytes(least)}, and {format_bytes(limit)} of "
            "memory are available"
        )
    request = StepRequest(
        config=config.model_dump(mode="json"),
        batch_size=batch_size,
        length=length,
        optimizer=optimizer,
        gradient_checkpointing=gradient_checkpointing,
        num_steps=num_steps,
        num_passes=num_passes,
        micro_batch_tokens=micro_batch_tokens,
        num_threads=num_threads,
        max_bytes=limit,
    )
    answer = json.loads(_run_child(json.dumps(asdict(request))))
    if "does_not_fit" in answer:
        raise DoesNotFitError(answer["does_not_fit"])
    return Footprint(**answer)


def _run_child(request: str) -> str:
    """Send the request to a new child process and return its line of JSON."""
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(
            build_command(CHILD),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            encoding="utf-8",
        )
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            with contextlib.suppress(BrokenPipeError):  # it failed before it read the request
                child.stdin.write(f"{request}\n")
                child.stdin.flush()
            line = child.stdout.readline()
            if not line:
                child.wait()  # keep the return code of a child that ended by itself
        finally:
            child.kill()
            child.communicate()
        if line:
            return line
        name = signal.Signals(-child.returncode).name if child.returncode < 0 else ""
        if name in _OUT_OF_MEMORY_SIGNALS:
            raise DoesNotFitError(f"its process was ended by {name}, most likely for lack of memory")
        errors.seek(0)
        message = errors.read().decode("utf-8", errors="replace").strip()
        raise RuntimeError(f"{CHILD} exited with code {child.returncode} and without an answer:\n{message}")
