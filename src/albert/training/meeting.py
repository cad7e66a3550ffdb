"""Processes that start together come in, a store that none of an earlier start has written to goes out.

torchrun keeps one store over all its restarts, and torch looks for its partners under the same names each
time: started again, a process may find the address of one that is dead (seen with torch 2.13 and gloo).
"""

import hashlib
import json
import time
import uuid

from torch.distributed.distributed_c10d import PrefixStore, Store

_PAUSE = 0.05


def meet(store: Store, *, rank: int, size: int) -> Store:
    """A part of the store for those who are here now; returns when all of them have agreed on it.

    Everyone leaves a name. The first process reads all names, which may be old ones, and says what it read
    until each of the others has found its own name there.
    """
    name = uuid.uuid4().hex
    store.set(f"albert/here/{rank}", name)
    names = _gather_names(store, size) if rank == 0 else _find_names(store, rank, name)
    return PrefixStore(_identify(names), store)


def _gather_names(store: Store, size: int) -> list[str]:
    while True:
        names = [store.get(f"albert/here/{rank}").decode() for rank in range(size)]
        meeting = _identify(names)
        store.set("albert/names", json.dumps(names))
        time.sleep(_PAUSE)
        if size == 1 or store.check([f"albert/seen/{meeting}/{rank}" for rank in range(1, size)]):
            store.set(f"albert/met/{meeting}", "")
            return names


def _find_names(store: Store, rank: int, name: str) -> list[str]:
    while True:
        names = json.loads(store.get("albert/names"))
        if names[rank : rank + 1] == [name]:
            meeting = _identify(names)
            store.set(f"albert/seen/{meeting}/{rank}", "")
            if store.check([f"albert/met/{meeting}"]):
                return list(names)
        time.sleep(_PAUSE)


def _identify(names: list[str]) -> str:
    return hashlib.sha256(" ".join(names).encode()).hexdigest()[:16]
