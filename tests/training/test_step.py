"""A step is the same however it is cut: sums are divided once, by counts that are known first."""

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
from albert.training.distributed import DistributedContext
from albert.training.losses import PretrainLosses, count_terms
from albert.training.settings import LossSpikeSettings
from albert.training.step import LossSpikeFilter, Objective, TrainStep


@pytest.fixture(scope="module")
def batch(story_corpus) -> PretrainingBatch:
    """32 ragged examples with both objectives."""
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
    """An optimizer that keeps the gradient and changes no weight."""

    def step(self, closure=None):
        weights = [weight for group in self.param_groups for weight in group["params"]]
        self.found = torch.cat([weight.grad.flatten() for weight in weights])


def build_step(model, optimizer, spike_filter=None):
    objective = Objective(("mlm", "sop"), lambda batch: count_terms(batch, pair_head="sop"), lambda: None)
    spike_filter = spike_filter or LossSpikeFilter(LossSpikeSettings())
    network = PretrainLosses(model, pair_head="sop")
    return TrainStep(network, optimizer, objective, spike_filter, 0.0, nullcontext, DistributedContext())


def gradients(model, shares):
    """The gradient of a step that is computed in micro-batches, as in the loop."""
    recorder = Recorder(model.parameters(), lr=1.0)
    train_step = build_step(model, recorder)
    train_step.run(shares, train_step.plan(shares), learning_rate=1.0, options={})
    return recorder.found


def mean_of_means(model, shares):
    """What many loops do instead: each micro-batch divided by its own counts."""
    model.zero_grad()
    for share in shares:
        terms = PretrainLosses(model, pair_head="sop")(share)
        counts = count_terms(share, pair_head="sop")
        means = [total / counts[name] / len(shares) for name, (total, _) in terms.items()]
        torch.stack(means).sum().backward()
    return torch.cat([weight.grad.flatten() for weight in model.parameters()])


def difference(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).norm() / one.norm())


def four_times_eight(batch) -> list[PretrainingBatch]:
    return [batch.select(rows) for rows in np.split(np.arange(32), 4)]


def test_four_micro_batches_are_one_batch(model, batch):
    at_once = gradients(model, [batch])
    assert difference(at_once, gradients(model, four_times_eight(batch))) < 1e-5
    # A mean of means is another gradient: micro-batches have different numbers of masked tokens.
    assert difference(at_once, mean_of_means(model, four_times_eight(batch))) > 1e-3


@pytest.mark.parametrize("max_tokens", [1, 333, 10_000])
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


def test_a_batch_without_masked_tokens_reaches_every_weight(model, batch):
    """Each process waits for the gradient of every weight: one without would block all."""
    nothing = np.empty(0, dtype=np.int64)
    unmasked = dataclasses.replace(
        batch.select(np.arange(4)), masked_M=nothing, targets_M=nothing, spans=NO_SPANS
    )
    terms = PretrainLosses(model, pair_head="sop")(unmasked)
    sum(total for total, _ in terms.values()).backward()
    assert terms["mlm"][0].item() == 0.0
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in model.parameters())
    assert model.encoder.embeddings.word.weight.grad.abs().sum() > 0  # by the sentence loss


def list_skipped(losses, **settings) -> list[int]:
    """The indices of the losses that are skipped."""
    spike_filter = LossSpikeFilter(LossSpikeSettings(**settings))
    return [index for index, loss in enumerate(losses) if spike_filter.check(loss, 1.0) is not None]


def calm(number: int) -> list[float]:
    return [1.0 + 0.02 * (index % 3 - 1) for index in range(number)]


def test_spikes_are_skipped():
    assert list_skipped([*calm(60), 9.0, *calm(60), 9.0, *calm(5)]) == [60, 121]


def test_repeated_spikes_become_normal():
    losses = [9.0 if index % 5 == 4 else loss for index, loss in enumerate(calm(400))]
    # Spikes are looked for from the fiftieth loss on: by then every fifth has been seen often.
    assert list_skipped(losses) == []
    skipped = list_skipped([*calm(60), *losses])
    assert skipped
    assert max(skipped) < 60 + 150


def test_losses_that_are_not_finite_are_skipped_and_not_counted():
    spike_filter = LossSpikeFilter(LossSpikeSettings())
    for loss in calm(60):
        spike_filter.check(loss, 1.0)
    before = spike_filter.state()
    for loss, grad_norm in ((math.nan, 1.0), (math.inf, 1.0), (1.0, math.inf)):
        assert spike_filter.check(loss, grad_norm) is not None
    assert spike_filter.state() == {**before, "num_skipped": 3, "num_in_a_row": 3}


def test_fine_tuning_does_not_skip_batches_with_a_rare_class():
    losses = [5.0 if index % 50 == 49 else 0.01 for index in range(1000)]
    assert list_skipped(losses) != []
    assert list_skipped([*losses, math.nan], **FinetuneSettings().loss_spike_filter.model_dump()) == [1000]
