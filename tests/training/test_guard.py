"""The guard leaves out what would spoil the weights, and nothing that there is to be learned."""

import math

from albert.tasks.finetune_settings import FinetuneSettings
from albert.training.settings import GuardSettings
from albert.training.step import Guard


def watch(losses, **settings) -> list[int]:
    """The places of the losses that are left out."""
    guard = Guard(GuardSettings(**settings))
    return [place for place, loss in enumerate(losses) if guard.judge(loss, 1.0) is not None]


def calm(number: int) -> list[float]:
    return [1.0 + 0.02 * (place % 3 - 1) for place in range(number)]


def test_a_spike_is_left_out_and_the_next_one_too():
    assert watch([*calm(60), 9.0, *calm(60), 9.0, *calm(5)]) == [60, 121]


def test_what_comes_again_and_again_is_taken_in_the_end():
    losses = [9.0 if place % 5 == 4 else loss for place, loss in enumerate(calm(400))]
    # From the fiftieth on, when the mean is a measure: by then every fifth has been seen often.
    assert watch(losses) == []
    late = [*calm(60), *losses]
    left_out = watch(late)
    assert left_out
    assert max(left_out) < 60 + 150


def test_what_is_no_number_is_left_out_and_not_remembered():
    guard = Guard(GuardSettings())
    for loss in calm(60):
        guard.judge(loss, 1.0)
    before = guard.state()
    for loss, grad_norm in ((math.nan, 1.0), (math.inf, 1.0), (1.0, math.inf)):
        assert guard.judge(loss, grad_norm) is not None
    assert (guard.mean, guard.deviation, guard.num_seen) == (before["mean"], before["deviation"], 60)


def test_fine_tuning_learns_from_a_batch_that_holds_a_rare_class():
    """Its loss is many times that of the others, which are easy: no mistake, but what is to be learned."""
    losses = [5.0 if place % 50 == 49 else 0.01 for place in range(1000)]
    assert watch(losses) != []
    assert watch(losses, **FinetuneSettings().guard.model_dump()) == []
    assert watch([*losses, math.nan], **FinetuneSettings().guard.model_dump()) == [1000]
