"""Whoever starts again meets those who are there now, and reads nothing that the dead have left."""

import threading

from torch._C._distributed_c10d import HashStore, Store

from albert.training.distributed import meet


def meet_all(store: HashStore, size: int) -> list[Store]:
    """All ranks at once, each in a thread."""
    found: dict[int, Store] = {}

    def join(rank: int) -> None:
        found[rank] = meet(store, rank=rank, size=size)

    threads = [threading.Thread(target=join, args=(rank,)) for rank in reversed(range(size))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
        assert not thread.is_alive()
    return [found[rank] for rank in range(size)]


def test_all_share_one_part_of_the_store():
    stores = meet_all(HashStore(), 3)
    stores[2].set("key", "value")
    assert [store.get("key") for store in stores] == [b"value"] * 3


def test_what_the_dead_have_left_is_not_seen():
    store = HashStore()
    meet_all(store, 3)[0].set("address", "of one that is dead")
    for size in (3, 2, 4):  # one may be lost for good, others may come
        again = meet_all(store, size)
        assert not any(found.check(["address"]) for found in again)
        again[0].set("address", "of one that is dead")


def test_one_that_died_on_the_way_in_is_replaced():
    store = HashStore()
    store.set("albert/here/1", "someone who never came")
    stores = meet_all(store, 2)
    stores[0].set("key", "value")
    assert stores[1].get("key") == b"value"
