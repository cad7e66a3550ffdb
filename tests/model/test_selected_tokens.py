"""Selected tokens of the last layer have the same states and gradients as in the full layer."""

import pytest
import torch

from albert.model.albert_model import build_model
from albert.model.config import ModelConfig
from albert.model.tokens import SelectedTokens, Tokens, build_layout

SHAPES = {
    "shared": {},
    "two groups": {"num_hidden_groups": 2},
    "inner blocks": {"inner_group_num": 2},
    "nothing shared": {"sharing": "none"},
    "one layer": {"num_hidden_layers": 1},
}


def build(**changes):
    config = ModelConfig(
        **{
            "vocab_size": 50, "embedding_size": 8, "hidden_size": 16, "num_hidden_layers": 4,
            "num_attention_heads": 2, "intermediate_size": 32, "initializer_range": 0.3, **changes,
        }
    )  # fmt: skip
    return build_model(config, heads={"mlm": None}, seed=2)


def tokens(*, is_sorted: bool) -> Tokens:
    draw = torch.Generator().manual_seed(0)
    lengths = [3, 5, 5, 9] if is_sorted else [5, 9, 3, 5]
    return Tokens.from_lists([torch.randint(5, 50, (n,), generator=draw).tolist() for n in lengths])


def check_alike(model, whole, some):
    """The same states, and the same gradients from them."""
    assert torch.allclose(some, whole, atol=2e-6)
    found = []
    for result in (whole, some):
        model.zero_grad()
        (result**3).sum().backward()
        found.append({name: weight.grad for name, weight in model.named_parameters()})
    # The true gradient of the keys' biases is 0: very small values are rounding errors.
    scale = max(float(grad.abs().max()) for grad in found[0].values() if grad is not None)
    for name, grad in found[0].items():
        assert (grad is None) == (found[1][name] is None)
        if grad is not None:
            assert torch.allclose(found[1][name], grad, rtol=1e-4, atol=1e-6 * scale), name


def test_nothing_else_is_computed_in_the_last_layer():
    model, batch = build(), tokens(is_sorted=True)
    attention, sizes = model.encoder.attention[0], []

    def record(module, inputs, output):
        sizes.append(len(output))

    handle = model.encoder.ffn[0].register_forward_hook(record)
    model(batch, indices_P=torch.tensor([1, 2, 3]))
    model(batch, depth=6, indices_P=torch.tensor([4]))
    assert sizes == [22, 22, 22, 3, *[22] * 5, 1]
    handle.remove()
    sizes.clear()
    for part in (attention.query, attention.key, attention.value, attention.output):
        part.register_forward_hook(record)
    model(batch, depth=1, first_only=True)
    assert sizes == [4, 4]  # queries and outputs of four sequences, no keys and values


@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_selected_and_first_tokens_are_those_of_the_full_layer(shape, is_sorted, checkpointing):
    model, batch = build(**SHAPES[shape]), tokens(is_sorted=is_sorted)
    torch.nn.init.normal_(model.encoder.attention[0].key.bias)
    torch.nn.init.normal_(model.encoder.attention[0].value.bias)
    model.encoder.gradient_checkpointing = checkpointing
    model.train()
    indices_P = torch.tensor([21, 0, 7, 5, 13])
    check_alike(model, model(batch).last_TD[indices_P], model(batch, indices_P=indices_P).last_TD)
    check_alike(model, model(batch).last_TD[batch.first_B], model(batch, first_only=True).last_TD)


def test_dropout_of_first_tokens_keeps_the_mean():
    # Dropped probabilities no longer sum to 1: the bias of the values must be weighted by their sum.
    block, batch = build(attention_probs_dropout_prob=0.5).encoder.attention[0], tokens(is_sorted=True)
    torch.nn.init.normal_(block.value.bias, std=3.0)
    block.norm = torch.nn.Identity()
    layout = build_layout(batch.lengths)
    x_TD = torch.randn(22, 16, generator=torch.Generator().manual_seed(1))
    first = SelectedTokens(layout.first_B, is_first=True)
    torch.manual_seed(0)
    with torch.no_grad():
        draws = torch.stack([block.train()(x_TD, layout, None, first) for _ in range(3000)])
        exact = block.eval()(x_TD, layout, None, first)
    error = draws.std(0) / 3000**0.5
    assert ((draws.mean(0) - exact).abs() < 5 * error).all()


def test_an_adapter_around_keys_and_values_is_called_for_first_tokens():

    class Adapted(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner, self.more = inner, torch.nn.Linear(16, 16)

        def forward(self, x):
            return self.inner(x) + self.more(x)

    model, batch = build(), tokens(is_sorted=False)
    attention = model.encoder.attention[0]
    attention.value = Adapted(attention.value)
    check_alike(model, model(batch).last_TD[batch.first_B], model(batch, first_only=True).last_TD)
    assert attention.value.more.weight.grad is not None
