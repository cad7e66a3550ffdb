"""The state of a run: a model and its optimiser come in, tensors by name go out; and back."""

from typing import Any

import torch
from torch import Tensor, nn

from albert.training.checkpoints import Checkpoint, CheckpointFolder
from albert.training.world import World


def list_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Weights and moments by name, so that no order of parameters matters; as they are, spread or whole."""
    tensors = {f"model.{name}": weight.detach() for name, weight in model.state_dict().items()}
    for name, weight in model.named_parameters():
        for key, value in optimizer.state.get(weight, {}).items():
            tensors[f"optimizer.{key}.{name}"] = torch.as_tensor(value)
    return tensors


@torch.no_grad()
def restore_tensors(
    tensors: dict[str, Tensor], model: nn.Module, optimizer: torch.optim.Optimizer, world: World
) -> None:
    """Put whole weights and moments back where they were, spread as they are now."""
    weights = _strip(tensors, "model.")
    for name, weight in model.state_dict().items():
        weight.copy_(world.place(weights[name], like=weight))
    named = dict(model.named_parameters())
    for key_and_name, value in _strip(tensors, "optimizer.").items():
        key, _, name = key_and_name.partition(".")
        weight = named[name]
        optimizer.state[weight][key] = (
            value.to(weight.device, copy=True) if value.ndim == 0 else world.place(value, like=weight)
        )


def _strip(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


class Saver:
    """Writes checkpoints while the run waits."""

    def __init__(self, folder: CheckpointFolder) -> None:
        self.folder = folder

    def save(
        self, step: int, tensors: dict[str, Tensor], state: dict[str, Any], *, best_step: int | None
    ) -> None:
        """Write the state after a step; OSError where there is no room."""
        whole = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
        self.folder.save(Checkpoint(step, whole, state), best_step=best_step)

    def wait(self) -> None:
        """Finish what is being written."""
