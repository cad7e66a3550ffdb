"""A flat batch has no padding, and no sequence attends to another."""

import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from albert.errors import InputError
from albert.inference.sequence_encoder import PaddedModel
from albert.model.albert_model import build_model
from albert.model.blocks import attend, gelu_tanh, gelu_tanh_in_place
from albert.model.config import build_preset
from albert.model.tokens import Tokens, build_layout
from tests.conftest import rejects

NANO = build_preset("nano", overrides=["vocab_size=100", "num_hidden_layers=2"])
ENCODER = build_model(NANO, heads={})
LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=9)


@pytest.fixture(scope="module")
def model():
    return build_model(NANO, heads={"mlm": None, "sop": None})


def random_ids(lengths):
    generator = torch.Generator().manual_seed(sum(lengths))
    return [torch.randint(100, (n,), generator=generator).tolist() for n in lengths]


@given(lengths=LENGTHS)
@settings(max_examples=25, deadline=None)
def test_a_sequence_in_a_batch_is_the_sequence_alone(lengths):
    ids = random_ids(lengths)
    together = ENCODER(Tokens.from_lists(ids)).last_TD.split(lengths)
    for sequence, states in zip(ids, together, strict=True):
        alone = ENCODER(Tokens.from_lists([sequence])).last_TD
        torch.testing.assert_close(states, alone, atol=1e-5, rtol=0)


@given(lengths=LENGTHS)
@settings(max_examples=60, deadline=None)
def test_a_layout_is_a_permutation_into_runs_of_equal_length(lengths):
    layout = build_layout(tuple(lengths))
    x = torch.arange(sum(lengths))
    assert sorted(layout.lengths) == sorted(lengths)
    assert len(layout.runs) == len(set(lengths))
    assert torch.equal(layout.unsort(layout.sort(x)[:, None]).squeeze(1), x)


def test_returned_attention_is_the_computed_one(model):
    tokens = Tokens.from_lists(random_ids([6, 2, 6]))
    plain = model(tokens).last_TD
    seen = model(tokens, with_attentions=True)
    torch.testing.assert_close(seen.last_TD, plain, atol=1e-5, rtol=0)
    assert [[p.shape for p in layer] for layer in seen.attentions] == [[(4, 6, 6), (4, 2, 2), (4, 6, 6)]] * 2
    for layer in seen.attentions:
        for probabilities in layer:
            torch.testing.assert_close(probabilities.sum(-1), torch.ones(probabilities.shape[:2]))


def test_padding_on_both_sides_is_dropped(model):
    ids = torch.tensor([[5, 6, 7, 0], [8, 9, 0, 0], [0, 0, 5, 6]])
    tokens = Tokens.from_padded(ids, ids != 0, torch.zeros_like(ids))
    assert tokens.ids_T.tolist() == [5, 6, 7, 8, 9, 5, 6]
    assert tokens.positions_T.tolist() == [0, 1, 2, 0, 1, 2, 3]  # positions count padding, as in transformers
    assert tokens.lengths == (3, 2, 2)


def test_the_two_forms_of_gelu_are_one_function():
    x = torch.linspace(-12, 12, 4001)
    torch.testing.assert_close(gelu_tanh_in_place(x.clone()), gelu_tanh(x), atol=2e-6, rtol=0)


def test_gradient_checkpointing_saves_memory_and_keeps_gradients():
    """Also with dropout: the random numbers are the same."""
    shape = build_preset("nano", overrides=["vocab_size=100", "hidden_dropout_prob=0.2"])
    tokens = Tokens.from_lists(random_ids([12, 30, 7]))
    gradients = []
    saved_bytes = []
    for is_checkpointing in (False, True):
        model = build_model(shape, heads={}, gradient_checkpointing=is_checkpointing).train()
        torch.manual_seed(1)
        sizes = []

        def pack(tensor, sizes=sizes):
            sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            loss = model(tokens).last_TD.square().sum()
        saved_bytes.append(sum(sizes))
        loss.backward()
        gradients.append({name: p.grad for name, p in model.named_parameters() if p.grad is not None})
    assert saved_bytes[1] < saved_bytes[0] / 3
    for name, gradient in gradients[0].items():
        assert torch.equal(gradient, gradients[1][name])


def test_a_layout_cached_in_inference_mode_can_be_trained_with(model):
    tokens = Tokens.from_lists(random_ids([31, 4, 31, 2]))
    with torch.inference_mode():
        model(tokens)
    model(tokens).last_TD.sum().backward()
    assert model.encoder.embeddings.norm.weight.grad is not None
    model.zero_grad()


def test_the_compiler_is_imported_on_demand_and_compiles_once_for_all_lengths(tiny_folder):
    """Its import takes as long as that of torch."""
    program = f"""
import sys
import torch
import albert
from albert.model.tokens import Tokens
model = albert.load({str(tiny_folder)!r})
before = model.embed(["the dog was big ."])
assert "torch._dynamo" not in sys.modules
compiled = torch.compile(model.model, backend="eager", dynamic=True)
from torch._dynamo.utils import counters
num_graphs = []
with torch.no_grad():
    for lengths in ([5, 9, 3], [4, 4, 8, 11], [20, 2], [3, 3, 3, 7, 7]):
        tokens = Tokens.from_lists([[5] * length for length in lengths])
        torch.testing.assert_close(compiled(tokens).last_TD, model.model(tokens).last_TD, atol=1e-5, rtol=0)
        num_graphs.append(counters["stats"]["unique_graphs"])
assert 0 < num_graphs[0] == num_graphs[-1], num_graphs
assert (model.embed(["the dog was big ."]) == before).all()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_sequences_that_are_too_long_or_empty_are_rejected(model):
    with rejects(InputError, "600 tokens", 512):
        model(Tokens.from_lists([[5] * 600]))
    for empty in ([], [[]], [[5], []]):
        with pytest.raises(InputError):
            Tokens.from_lists(empty)


def test_weights_depend_on_the_seed_and_are_truncated_at_two_deviations():
    one, same, other = (build_model(NANO, heads={"mlm": None}, seed=seed) for seed in (1, 1, 2))
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, same.state_dict()[name])
    word = one.encoder.embeddings.word.weight
    assert not torch.equal(word, other.encoder.embeddings.word.weight)
    assert word.abs().max() <= 0.04
    # A normal distribution with deviation 0.02, truncated at two deviations, has a deviation of 0.0176.
    assert one.encoder.ffn[0].inner.weight.std().item() == pytest.approx(0.0176, rel=0.02)
    assert not one.encoder.ffn[0].inner.bias.any()
    assert torch.equal(one.encoder.embeddings.norm.weight, torch.ones(128))


@pytest.mark.parametrize(
    ("changes", "values"),
    [
        ({"input_ids": torch.ones(4, dtype=torch.long)}, ("input_ids", "(4,)")),
        ({"input_ids": torch.full((1, 4), 10**6)}, ("input_ids", "1000000")),
        ({"input_ids": torch.ones(1, 600, dtype=torch.long)}, ("600 tokens", "512")),
        ({"attention_mask": torch.ones(1, 3)}, ("attention_mask", "(1, 3)")),
        ({"token_type_ids": torch.full((1, 4), -1)}, ("token_type_ids", "-1")),
    ],
)
def test_a_wrong_padded_batch_is_rejected(model, changes, values):
    with rejects(InputError, *values):
        PaddedModel(model)(**{"input_ids": torch.ones(1, 4, dtype=torch.long), **changes})


def test_gradients_of_attention_in_bf16_are_those_of_float32():
    layout = build_layout((3, 5, 5))
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(13, 2, 8, generator=generator).bfloat16() for _ in range(3)]

    def compute(dtype):
        parts = [x.to(dtype).detach().requires_grad_() for x in inputs]
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
            mixed = attend(*parts, layout=layout)
        mixed.float().square().sum().backward()
        return [part.grad.float() for part in parts]

    for found, expected in zip(compute(torch.bfloat16), compute(torch.float32), strict=True):
        assert torch.allclose(found, expected, atol=0.01, rtol=0.01)
