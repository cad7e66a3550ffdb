"""How a process finds its world: the environment comes in, the world it trains in goes out."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from albert.errors import AlbertError, EchoError, InputError
from albert.training.checkpoints import CheckpointFolder
from albert.training.loop_settings import Strategy
from albert.training.state import Saver
from albert.training.world import World

T = TypeVar("T")
# What torchrun sets for each process that it starts.
_LAUNCHED = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@contextmanager
def open_world(strategy: Strategy, device: str) -> Iterator[World]:
    """The processes that torchrun started, for as long as the block lasts; without it, this one alone."""
    if not is_launched():
        yield World()
        return
    # Only now: a single process needs nothing of it.
    from albert.training.distributed import join_processes

    with join_processes(strategy, device) as world:
        yield world


def is_launched() -> bool:
    """Whether torchrun started this process, be it the only one."""
    return all(name in os.environ for name in _LAUNCHED)


def is_first_process() -> bool:
    """Whether this process speaks and writes for all that torchrun started; one by itself does."""
    return not is_launched() or int(os.environ["RANK"]) == 0


def list_launchers(world: World) -> list[str]:
    """The processes that started those of this world and start them again; by itself, none."""
    return sorted(set(world.gather(find_launcher()))) if is_launched() else []


def find_launcher() -> str:
    """The process that started this one, by a name that no other has had."""
    parent = os.getppid()
    return f"{socket.gethostname()}/{parent}/{find_start(parent)}"


def find_start(pid: int) -> str:
    """When a process started, in the system's own ticks: numbers of processes come again."""
    try:
        # The name in brackets may hold anything; the start is the twentieth field after it.
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def open_saver(world: World, folder: CheckpointFolder) -> Saver:
    """What writes the checkpoints of a world: many processes write together, and without stopping."""
    if not is_launched():
        return Saver(folder)
    from albert.training.distributed_checkpoints import AsyncSaver

    return AsyncSaver(folder, world)


def run_on_main(world: World, function: Callable[[], T]) -> T | None:
    """What the first process does alone; where it fails, every process fails with its message."""
    result, failure = None, None
    if world.is_main:
        try:
            result = function()
        except AlbertError as error:
            if world.size == 1:
                raise
            failure = str(error)
    found = world.gather(failure)[0]
    if found is not None:
        raise InputError(found) if world.is_main else EchoError(found)
    return result
