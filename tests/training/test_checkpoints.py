"""Checkpoints: which are kept, and what is restored."""

import pytest
import torch
from torch import nn

from albert.training.checkpoints import Checkpoint, CheckpointFolder, list_tensors, restore_tensors
from albert.training.distributed import DistributedContext
from albert.training.optimizers import build_optimizer
from albert.training.settings import OptimizerSettings


def checkpoint(step: int) -> Checkpoint:
    return Checkpoint(step, {"model.weight": torch.full((3,), float(step))}, {"note": "whole"})


def test_the_newest_and_the_best_are_kept(tmp_path):
    folder = CheckpointFolder(tmp_path, num_kept=2)
    for step in (1, 2, 3, 4, 5):
        folder.save(checkpoint(step), best_step=2 if step >= 2 else 1)
    assert folder.list_steps() == [2, 4, 5]
    assert folder.load(5).tensors["model.weight"].tolist() == [5.0, 5.0, 5.0]


@pytest.mark.parametrize("num_kept", [1, 2])
def test_damaged_later_checkpoints_do_not_replace_good_ones(tmp_path, num_kept):
    folder = CheckpointFolder(tmp_path, num_kept=num_kept)
    for step in (10, 20, 30):
        CheckpointFolder(tmp_path, num_kept=9).save(checkpoint(step))
    for step in (20, 30):
        (tmp_path / f"step-{step}" / "state.json").write_text("{")
    said: list[str] = []
    newest = folder.load_newest(say=said.append)
    assert newest is not None
    assert (newest.step, len(said)) == (10, 2)
    folder.save(checkpoint(12))
    assert folder.list_steps() == ([12] if num_kept == 1 else [10, 12])


@pytest.mark.parametrize("name", ["lamb", "adamw"])
def test_weights_and_moments_are_restored_by_name(name):
    def build():
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.Linear(5, 2))
        return model, build_optimizer(model, OptimizerSettings(name=name, learning_rate=0.01))

    def move(model, optimizer, number):
        torch.manual_seed(number)
        model(torch.randn(8, 4)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    one, other = build(), build()
    for number in range(6):
        move(*one, number)
        if number == 2:
            restore_tensors(
                {key: value.clone() for key, value in list_tensors(*one).items()},
                *other,
                DistributedContext(),
            )
        elif number > 2:
            move(*other, number)
    wanted, found = list_tensors(*one), list_tensors(*other)
    assert wanted.keys() == found.keys()
    assert all(torch.equal(wanted[key], found[key]) for key in wanted)
