"""When one of many processes fails: its error comes in, and what each process is to end with goes out.

The store of the rendezvous carries the message: the connections of training may be gone by then.
"""

import hashlib
import time
from typing import Any

from torch.distributed.distributed_c10d import Store
from torch.distributed.elastic.multiprocessing.errors import ErrorHandler

from albert.errors import AlbertError, EchoError, InputError, one_line

_CAUSE = "albert/cause"
_PATIENCE = 3.0  # seconds in which one that fails has told why
# How gloo and NCCL say that the other end is gone.
_LOST = (
    "connection closed", "connection reset", "connection refused", "broken pipe", "timed out", "remote end",
    "socket error", "gloo/transport", "ncclremoteerror", "ncclsystemerror",
)  # fmt: skip


class Failures:
    """What went wrong, told once and to all."""

    def __init__(self, store: Store, *, rank: int, size: int) -> None:
        self._store, self._rank, self._size = store, rank, size

    def settle(self, error: Exception) -> Exception:
        """The error that this process ends with: its own, or the echo of one that another has told."""
        try:
            return self._settle(error)
        except RuntimeError:  # the store is gone with the process that kept it
            return self._explain_loss() if is_loss(error) else error

    def _settle(self, error: Exception) -> Exception:
        if isinstance(error, EchoError):
            return error
        if not is_loss(error):
            return self._tell(error)
        cause = self._await_cause()
        if cause is not None:
            return EchoError(cause)
        return self._explain_loss() if self._count("lost") == 1 else EchoError("another process was lost")

    def _tell(self, error: Exception) -> Exception:
        message = f"process {self._rank} of {self._size}: {_flatten(error)}"
        if self._announce(message):
            ErrorHandler().record_exception(error)  # torchrun's own report names it, too
        # A mistake that all have found is told by one.
        if self._count(_flatten(error)) > 1:
            return EchoError(message)
        return InputError(message) if isinstance(error, AlbertError) and self._rank else error

    def _explain_loss(self) -> AlbertError:
        return InputError(
            f"process {self._rank} of {self._size} lost another one, which was killed or whose machine is "
            "gone; torchrun starts all again if it has --max-restarts left, and the run goes on from its "
            "newest checkpoint. By hand: the same command with --resume"
        )

    def _announce(self, message: str) -> bool:
        """Whether it is the first failure of all."""
        return self._store.compare_set(_CAUSE, "", message).decode() == message

    def _count(self, message: str) -> int:
        digest = hashlib.sha256(message.encode()).hexdigest()
        return int(self._store.add(f"albert/told/{digest}", 1))

    def _await_cause(self) -> str | None:
        """What another process failed with; None: it could not say."""
        until = time.monotonic() + _PATIENCE
        while not self._store.check([_CAUSE]):
            if time.monotonic() > until:
                return None
            time.sleep(0.1)
        return self._store.get(_CAUSE).decode()


def is_loss(error: BaseException) -> bool:
    """Whether it says that another process is gone, and nothing of this one."""
    return isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in _LOST)


def _flatten(error: Any) -> str:
    return one_line(error) or type(error).__name__
