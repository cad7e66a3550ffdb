"""A flat batch is nothing but its sequences: no padding, and no sequence sees another."""

import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from albert.errors import InputError
from albert.inference.sequence_encoder import PaddedModel
from albert.model.albert_model import build_model
from albert.model.blocks import gelu_tanh, gelu_tanh_in_place
from albert.model.config import build_preset
from albert.model.tokens import Tokens, build_layout

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


def test_attention_on_request_is_the_attention_that_is_computed(model):
    tokens = Tokens.from_lists(random_ids([6, 2, 6]))
    plain = model(tokens).last_TD
    seen = model(tokens, with_attentions=True)
    torch.testing.assert_close(seen.last_TD, plain, atol=1e-5, rtol=0)
    assert [[p.shape for p in layer] for layer in seen.attentions] == [[(4, 6, 6), (4, 2, 2), (4, 6, 6)]] * 2
    for layer in seen.attentions:
        for probabilities in layer:
            torch.testing.assert_close(probabilities.sum(-1), torch.ones(probabilities.shape[:2]))


def test_padding_is_dropped_at_the_border():
    ids = torch.tensor([[5, 6, 7, 0], [8, 9, 0, 0]])
    tokens = Tokens.from_padded(ids, ids != 0, torch.zeros_like(ids))
    assert tokens.ids_T.tolist() == [5, 6, 7, 8, 9]
    assert tokens.positions_T.tolist() == [0, 1, 2, 0, 1]
    assert tokens.lengths == (3, 2)


def test_left_padding_is_dropped_and_a_batch_wider_than_the_positions_rejected(model):
    ids = torch.tensor([[0, 0, 5, 6], [7, 8, 9, 4]])
    tokens = Tokens.from_padded(ids, ids != 0, torch.zeros_like(ids))
    assert tokens.positions_T.tolist() == [2, 3, 0, 1, 2, 3]  # as `transformers` counts them
    with pytest.raises(InputError, match="600 tokens.*512"):
        PaddedModel(model)(torch.ones(1, 600, dtype=torch.long))


def test_a_hook_sees_what_a_layer_gave_and_not_what_became_of_it(model):
    inner = model.encoder.ffn[0].inner
    seen = []
    handle = inner.register_forward_hook(lambda module, inputs, output: seen.append((inputs[0], output)))
    with torch.no_grad():
        model(Tokens.from_lists(random_ids([6])))
    handle.remove()
    inputs, output = seen[0]
    torch.testing.assert_close(output, torch.nn.functional.linear(inputs, inner.weight, inner.bias))


def test_the_two_forms_of_gelu_are_one_function():
    x = torch.linspace(-12, 12, 4001)
    torch.testing.assert_close(gelu_tanh_in_place(x.clone()), gelu_tanh(x), atol=2e-6, rtol=0)


def test_gradient_checkpointing_changes_memory_and_not_gradients():
    """With dropout on, too: the random stream is replayed."""
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


def test_a_layout_first_met_in_inference_can_be_trained_with(model):
    tokens = Tokens.from_lists(random_ids([31, 4, 31, 2]))
    with torch.inference_mode():
        model(tokens)
    model(tokens).last_TD.sum().backward()
    assert model.encoder.embeddings.norm.weight.grad is not None
    model.zero_grad()


def test_a_new_pattern_of_lengths_is_no_recompilation():
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    model = build_model(NANO, heads={})
    compiled = torch.compile(model, backend="eager", dynamic=True)
    patterns = [[5, 9, 3], [4, 4, 8, 11], [20, 2], [3, 3, 3, 7, 7], [13, 6, 5, 8, 2]]
    with torch.no_grad():
        compiled(Tokens.from_lists(random_ids(patterns[0])))
        compiled(Tokens.from_lists(random_ids(patterns[1])))
        before = counters["stats"]["unique_graphs"]
        for lengths in patterns[2:]:
            tokens = Tokens.from_lists(random_ids(lengths))
            torch.testing.assert_close(compiled(tokens).last_TD, model(tokens).last_TD, atol=1e-5, rtol=0)
    assert counters["stats"]["unique_graphs"] == before


def test_the_compiler_is_not_imported_without_torch_compile(tiny_folder):
    """Its import takes as long as that of torch; imported later, it still compiles once for all lengths."""
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
        compiled(Tokens.from_lists([[5] * length for length in lengths]))
        num_graphs.append(counters["stats"]["unique_graphs"])
assert 0 < num_graphs[0] == num_graphs[-1], num_graphs
assert (model.embed(["the dog was big ."]) == before).all()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_what_is_too_long_or_empty_is_rejected(model):
    with pytest.raises(InputError, match="600 tokens.*512"):
        model(Tokens.from_lists([[5] * 600]))
    for empty in ([], [[]], [[5], []]):
        with pytest.raises(InputError, match="at least one"):
            Tokens.from_lists(empty)


def test_one_seed_is_one_model_and_weights_stay_within_two_deviations():
    one, same, other = (build_model(NANO, heads={"mlm": None}, seed=seed) for seed in (1, 1, 2))
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, same.state_dict()[name])
    word = one.encoder.embeddings.word.weight
    assert not torch.equal(word, other.encoder.embeddings.word.weight)
    assert word.abs().max() <= 0.04
    # A normal of deviation 0.02 cut at two of them has a deviation of 0.0176.
    assert one.encoder.ffn[0].inner.weight.std().item() == pytest.approx(0.0176, rel=0.02)
    assert not one.encoder.ffn[0].inner.bias.any()
    assert torch.equal(one.encoder.embeddings.norm.weight, torch.ones(128))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"input_ids": torch.ones(4, dtype=torch.long)}, r"input_ids have the shape \(4,\)"),
        ({"input_ids": torch.full((1, 4), 10**6)}, "input_ids must be from 0 to 99, not 1000000"),
        ({"attention_mask": torch.ones(1, 3)}, r"attention_mask \(1, 3\)"),
        ({"token_type_ids": torch.full((1, 4), -1)}, "token_type_ids must be from 0 to 1, not -1"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_padded_batch_that_cannot_be_read_is_rejected(model, values, said):
    with pytest.raises(InputError, match=said):
        PaddedModel(model)(**{"input_ids": torch.ones(1, 4, dtype=torch.long), **values})
