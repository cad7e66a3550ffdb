"""Items come in when they come; lists of what has arrived go out, so that none waits for the next."""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
_MAX_WAITING = 512  # items that are read ahead of those in work


@dataclass(frozen=True)
class _End:
    """Nothing more comes, since all is read or reading went wrong."""

    error: BaseException | None = None


def iter_arrived(
    items: Iterable[T], *, count_characters: Callable[[T], int], max_items: int, max_characters: int
) -> Iterator[list[T]]:
    """All that has arrived when the next list is asked for, and at least one item: nothing waits for more.

    The items are read by a thread of their own, a few ahead. What goes wrong there is raised here, behind
    what came before it.
    """
    waiting: queue.Queue[T | _End] = queue.Queue(_MAX_WAITING)
    is_over = threading.Event()
    # A daemon: a program that ends does not wait for a pipe on which nothing comes.
    threading.Thread(target=_fill, args=(items, waiting, is_over), daemon=True).start()
    try:
        while True:
            group: list[T] = []
            num_characters = 0
            found = waiting.get()
            while not isinstance(found, _End):
                group.append(found)
                num_characters += count_characters(found)
                if len(group) == max_items or num_characters >= max_characters or waiting.empty():
                    break
                found = waiting.get()
            if group:
                yield group
            if isinstance(found, _End):
                if found.error is not None:
                    raise found.error
                return
    finally:
        is_over.set()
        while not waiting.empty():  # makes room for the item that the thread may stand there with
            waiting.get()


def _fill(items: Iterable[T], waiting: "queue.Queue[T | _End]", is_over: threading.Event) -> None:
    try:
        for item in items:
            waiting.put(item)
            if is_over.is_set():
                return
        waiting.put(_End())
    except BaseException as error:
        waiting.put(_End(error))
