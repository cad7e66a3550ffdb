"""Tensors under our names come in; they go into the model, and what has none starts fresh."""

from collections.abc import Mapping

import torch
from torch import Tensor

from albert.errors import WeightsError
from albert.model.albert_model import HEADS, AlbertModel
from albert.model.init import init_weights


def find_heads(tensors: Mapping[str, Tensor]) -> dict[str, int | None]:
    """The heads that the weights hold, with the number of outputs where that is open."""
    names = {name.split(".")[1] for name in tensors if name.startswith("heads.")}
    return {head: _count_outputs(head, tensors) for head in HEADS if head in names}


def _count_outputs(head: str, tensors: Mapping[str, Tensor]) -> int | None:
    kind, name = HEADS[head], f"heads.{head}.{HEADS[head].counted}"
    if kind.num_outputs is not None:
        return None
    if name not in tensors:
        raise WeightsError(f"the weights have a part of the {head} head but no {name}; fetch the file again")
    return len(tensors[name])


def fill_model(
    model: AlbertModel, tensors: Mapping[str, Tensor], *, source: str, seed: int
) -> tuple[str, ...]:
    """Put the tensors into a model on the meta device; return the parts that had none and start fresh.

    Parts of the file that the model does not have (a head, a pooler that nothing reads) stay behind. A head
    with another number of outputs than was asked for starts fresh: a task with other labels.
    """
    expected = dict(model.state_dict())
    heads = find_heads(tensors)
    parts = ("pooler", *(f"heads.{head}" for head in HEADS))
    replaced = {
        f"heads.{head}"
        for head, count in heads.items()
        if head in model.heads and count != _count_outputs(head, expected)
    }
    kept = {
        name: tensor
        for name, tensor in tensors.items()
        if name in expected or not name.startswith(tuple(f"{part}." for part in parts))
        if not name.startswith(tuple(f"{part}." for part in replaced))
    }
    new_parts = tuple(
        part
        for part in parts
        if any(name.startswith(f"{part}.") for name in expected)
        and not any(name.startswith(f"{part}.") for name in kept)
    )
    _check(kept, expected, new_parts, source)
    generator = torch.Generator().manual_seed(seed)
    for part in new_parts:
        module = model.get_submodule(part).to_empty(device="cpu")
        init_weights(module, std=model.config.initializer_range, generator=generator)
    model.load_state_dict(kept, strict=False, assign=True)
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    return new_parts


def _check(
    kept: Mapping[str, Tensor], expected: Mapping[str, Tensor], new_parts: tuple[str, ...], source: str
) -> None:
    """Refuse what is missing, left over or of another shape, by name."""
    fresh = tuple(f"{part}." for part in new_parts)
    missing = sorted(name for name in expected if name not in kept and not name.startswith(fresh))
    if missing:
        raise WeightsError(
            f"{source}: lacks {', '.join(missing)}; the file is incomplete, or of another shape than its "
            "config.json: fetch both again"
        )
    for name, tensor in kept.items():
        if name not in expected:
            raise WeightsError(
                f"{source}: {name} has no place in this model; it is of another shape than its config.json: "
                "fetch both again"
            )
        if tensor.shape != expected[name].shape:
            raise WeightsError(
                f"{source}: {name} is {list(tensor.shape)} and config.json asks for "
                f"{list(expected[name].shape)}; the two are not of one model: fetch both again"
            )
