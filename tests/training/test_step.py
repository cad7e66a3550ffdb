"""A step is one step however it is cut: sums are divided once, by counts that are known first."""

import dataclasses
import math
from contextlib import nullcontext

import numpy as np
import pytest
import torch

from albert.data.corpus import open_corpus
from albert.examples.batches import PretrainingBatch, build_source, cut_batch
from albert.examples.masking import NO_SPANS
from albert.examples.settings import ExampleSettings
from albert.model.albert_model import build_model
from albert.model.config import ModelConfig
from albert.tasks.finetune_settings import FinetuneSettings
from albert.text.folder import load_tokenizer
from albert.training.losses import PretrainLosses, compute_pretraining_losses, count_terms
from albert.training.settings import GuardSettings
from albert.training.step import Guard, Objective, StepTaker
from albert.training.world import DistributedContext


@pytest.fixture(scope="module")
def batch(story_corpus) -> PretrainingBatch:
    """Thirty-two ragged examples with both questions."""
    tokenizer = load_tokenizer(story_corpus / "vocab")
    settings = ExampleSettings(max_length=60, short_share=0.5)
    source = build_source(open_corpus(story_corpus), tokenizer, settings=settings, seed=3)
    (found,) = source.build_step(0, batch_size=32)
    assert len(found.lengths) == 32
    assert len(set(found.lengths.tolist())) > 8
    return found


@pytest.fixture
def model():
    config = ModelConfig(
        vocab_size=70, embedding_size=16, hidden_size=32, num_hidden_layers=3, num_attention_heads=4,
        intermediate_size=64, max_position_embeddings=64, initializer_range=0.1,
    )  # fmt: skip
    return build_model(config, heads={"mlm": None, "sop": None}, seed=1).train()


class Recorder(torch.optim.SGD):
    """An optimiser that keeps the gradient it is given, and does not move."""

    def step(self, closure=None):
        weights = [weight for group in self.param_groups for weight in group["params"]]
        self.found = torch.cat([weight.grad.flatten() for weight in weights])


def gradients(model, shares):
    """The gradient of a step that is computed in shares, as the loop takes it."""
    recorder = Recorder(model.parameters(), lr=1.0)
    objective = Objective(
        ("mlm", "sop"), lambda batch: count_terms(batch, pair_head="sop"), lambda: shares[0]
    )
    guard = Guard(GuardSettings())
    network = PretrainLosses(model, pair_head="sop")
    taker = StepTaker(network, recorder, objective, guard, 0.0, nullcontext, DistributedContext())
    taker.take(0, shares, taker.plan(shares), learning_rate=1.0, options={})
    return recorder.found


def mean_of_means(model, shares):
    """What many loops do instead: each share divided by its own counts."""
    model.zero_grad()
    for share in shares:
        terms = compute_pretraining_losses(model, share, pair_head="sop").values()
        torch.stack([term.total / term.count / len(shares) for term in terms]).sum().backward()
    return torch.cat([weight.grad.flatten() for weight in model.parameters()])


def difference(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).norm() / one.norm())


def four_times_eight(batch) -> list[PretrainingBatch]:
    return [batch.select(rows) for rows in np.split(np.arange(32), 4)]


def test_four_times_eight_is_one_times_thirty_two(model, batch):
    at_once = gradients(model, [batch])
    assert difference(at_once, gradients(model, four_times_eight(batch))) < 1e-5
    # A mean of means is another gradient: shares have different numbers of masked words.
    assert difference(at_once, mean_of_means(model, four_times_eight(batch))) > 1e-3


def test_a_step_without_any_example_moves_nothing_and_asks_nobody(model):
    class Untouched(Recorder):
        def step(self, closure=None):
            raise AssertionError("nothing is to be learned")

    guard = Guard(GuardSettings())
    objective = Objective(("mlm", "sop"), lambda batch: count_terms(batch, pair_head="sop"), lambda: None)
    network = PretrainLosses(model, pair_head="sop")
    taker = StepTaker(
        network,
        Untouched(model.parameters(), lr=1.0),
        objective,
        guard,
        0.0,
        nullcontext,
        DistributedContext(),
    )
    report = taker.take(7, [], taker.plan([]), learning_rate=1.0, options={})
    assert (report.step, report.losses, report.skipped) == (7, {}, None)
    assert guard.num_seen == 0


@pytest.mark.parametrize("max_tokens", [1, 100, 333, 10_000])
def test_a_token_budget_changes_nothing_but_rounding(model, batch, max_tokens):
    shares = cut_batch(batch, max_tokens=max_tokens)
    assert sum(len(share.ids_T) for share in shares) == len(batch.ids_T)
    assert difference(gradients(model, [batch]), gradients(model, shares)) < 1e-5


def test_shares_hold_every_sequence_once_with_its_own_answers(batch):
    def spell(of: PretrainingBatch) -> list[tuple[object, ...]]:
        starts = np.cumsum(of.lengths) - of.lengths
        found: list[tuple[object, ...]] = []
        for start, length, label in zip(starts, of.lengths, of.labels_B, strict=True):
            here = (of.masked_M >= start) & (of.masked_M < start + length)
            ids, segments = (x[start : start + length].tolist() for x in (of.ids_T, of.segments_T))
            answers = (of.masked_M[here] - start).tolist(), of.targets_M[here].tolist()
            found.append((ids, segments, answers, int(label)))
        return found

    shares = cut_batch(batch, max_tokens=200)
    assert len(shares) > 3
    assert sorted(map(repr, spell(batch))) == sorted(repr(row) for share in shares for row in spell(share))
    sizes = [len(share.ids_T) for share in shares]
    assert max(sizes) <= 200 + int(batch.lengths.max())
    assert min(sizes) > 100  # equal shares, not a full one and a crumb
    lengths = [int(length) for share in shares for length in share.lengths]
    assert lengths == sorted(lengths)


def test_a_batch_without_masked_words_reaches_every_weight(model, batch):
    """Of many processes, each waits for the gradient of every weight: one that has none would stop all."""
    nothing = np.empty(0, dtype=np.int64)
    unmasked = dataclasses.replace(
        batch.select(np.arange(4)), masked_M=nothing, targets_M=nothing, spans=NO_SPANS
    )
    terms = PretrainLosses(model, pair_head="sop")(unmasked)
    sum(total for total, _ in terms.values()).backward()
    assert terms["mlm"][0].item() == 0.0
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in model.parameters())
    assert model.encoder.embeddings.word.weight.grad.abs().sum() > 0  # the other question is asked


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
