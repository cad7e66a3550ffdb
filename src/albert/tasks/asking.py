"""A model and items come in; what it answers to each example goes out, in the order of the examples."""

from collections.abc import Sequence
from typing import Any, TypeVar

import torch

from albert.inference.predictor import iter_batches
from albert.model.albert_model import AlbertModel
from albert.tasks.kinds.kind import Kind
from albert.training.world import World

I = TypeVar("I")  # noqa: E741 - an item
R = TypeVar("R")  # an answer


@torch.inference_mode()
def ask_items(
    model: AlbertModel,
    kind: Kind[Any, I, Any, Any, R],
    items: Sequence[I],
    *,
    max_tokens: int,
    depth: int | None = None,
    world: World | None = None,
) -> list[R]:
    """Items of similar length together; of many processes each takes its share, and all know all answers."""
    world = world or World()
    mine: dict[int, Any] = {}
    lengths = [kind.measure(item) for item in items]
    for number, places in enumerate(iter_batches(lengths, max_tokens=max_tokens)):
        if number % world.size == world.rank:
            batch = kind.build_batch([items[place] for place in places])
            mine.update(zip(places, kind.predict(model, batch, depth=depth), strict=True))
    found = {place: output for share in world.gather(mine) for place, output in share.items()}
    return kind.conclude(items, [found[place] for place in range(len(items))])
