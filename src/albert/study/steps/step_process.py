"""What a training step takes: a configuration comes in; its peak memory and time go out.

Every measurement is made in a fresh process (`step_child.py`): one line of JSON goes in, one comes back. The
child's input stays open until it has answered, so that it ends with the process that asked. No torch here.
"""

import json
import signal
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from typing import IO, Any

from albert.errors import InputError
from albert.fresh_process import build_command
from albert.model.config import ModelConfig
from albert.model.parameters import count_parameters
from albert.study.steps.machine import read_available_bytes
from albert.training.settings import OptimizerName

CHILD = "albert.study.steps.step_child"
# Weights, their gradients and two moments, each in float32: what a training step takes before any text comes
# (Muon: a little less, its maps have one moment).
MIN_BYTES_EACH = 16
# How the system, or a library that is given no memory, ends a process.
_OUT_OF_MEMORY = ("SIGKILL", "SIGABRT", "SIGSEGV", "SIGBUS")


class DoesNotFitError(InputError):
    """A training step that needs more memory than there is."""


@dataclass(frozen=True)
class Footprint:
    """A training step: memory at its peak above that of a process without a model, and medians of its times.

    `model_seconds` are forward and backward passes, `optimizer_seconds` clipping and the update of the
    weights, `inference_seconds` a forward pass by itself where one was asked for. `memory_source` is where
    the peak was read.
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
        """A whole training step."""
        return self.model_seconds + self.optimizer_seconds


@dataclass(frozen=True)
class StepRequest:
    """What the child is asked for. Of the steps and passes one more is taken first, and not timed."""

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
    """Build the model in a fresh process and take pretraining steps of `batch_size` × `length` random pieces.

    The batch is computed at once, or in shares of about `micro_batch_tokens`. `max_bytes` is the memory that
    may be taken; without it, all that the system has to give. Refused: what does not fit (DoesNotFitError).
    """
    _check(config, batch_size=batch_size, length=length, num_steps=num_steps)
    available = read_available_bytes()
    limits = [limit for limit in (max_bytes, available) if limit is not None]
    limit = min(limits, default=None)
    least = MIN_BYTES_EACH * count_parameters(config).total
    if limit is not None and least > limit:
        raise DoesNotFitError(
            f"weights, gradients and moments alone take {_name_bytes(least)}, and {_name_bytes(limit)} of "
            "memory are free"
        )
    return _ask(
        StepRequest(
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
    )


def _check(config: ModelConfig, *, batch_size: int, length: int, num_steps: int) -> None:
    if not 2 <= length <= config.max_position_embeddings:
        raise InputError(
            f"length is {length}; this model reads from 2 to {config.max_position_embeddings} pieces"
        )
    if batch_size < 1 or num_steps < 1:
        raise InputError(f"batch_size is {batch_size} and num_steps {num_steps}; both must be at least 1")


def _ask(request: StepRequest) -> Footprint:
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(
            build_command(CHILD),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            encoding="utf-8",
        )
        try:
            line = _exchange(child, json.dumps(asdict(request)))
        finally:
            child.kill()  # it has answered, or nobody waits for it any more
            child.communicate()
        if not line:
            raise _explain(child.returncode, errors)
    answer = json.loads(line)
    if "does_not_fit" in answer:
        raise DoesNotFitError(answer["does_not_fit"])
    return Footprint(**answer)


def _exchange(child: "subprocess.Popen[str]", request: str) -> str:
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        child.stdin.write(f"{request}\n")
        child.stdin.flush()
    except BrokenPipeError:  # it ended before it was asked
        pass
    line = child.stdout.readline()
    if not line:
        child.wait()  # it ended by itself: how, is told by its code
    return line


def _explain(code: int, errors: IO[bytes]) -> Exception:
    name = signal.Signals(-code).name if code < 0 else ""
    if name in _OUT_OF_MEMORY:
        return DoesNotFitError(f"its process was ended by {name}, most likely for want of memory")
    errors.seek(0)
    told = errors.read().decode("utf-8", errors="replace").strip()
    return RuntimeError(f"{CHILD} ended with {code} instead of an answer:\n{told}")


def _name_bytes(number: int) -> str:
    return f"{number / 1e9:.1f} GB" if number >= 1e9 else f"{number / 1e6:.1f} MB"
