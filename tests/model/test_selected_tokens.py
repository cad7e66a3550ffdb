"""Only some tokens of the last layer: the same numbers and gradients as all of them, for less work."""

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


@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_some_places_are_those_rows_of_all(shape, is_sorted, checkpointing):
    model, batch = build(**SHAPES[shape]), tokens(is_sorted=is_sorted)
    model.encoder.gradient_checkpointing = checkpointing
    model.train()
    places_P = torch.tensor([21, 0, 7, 5, 13])
    check_alike(
        model, model(batch).last_TD.index_select(0, places_P), model(batch, indices_P=places_P).last_TD
    )


def check_alike(model, whole, some):
    """The same states, and the same gradients from them."""
    assert torch.allclose(some, whole, atol=2e-6)
    found = []
    for result in (whole, some):
        model.zero_grad()
        (result**3).sum().backward()
        found.append({name: weight.grad for name, weight in model.named_parameters()})
    # Of the keys' biases the true gradient is 0: what is small beside the largest is rounding.
    scale = max(float(grad.abs().max()) for grad in found[0].values() if grad is not None)
    for name, grad in found[0].items():
        assert (grad is None) == (found[1][name] is None)
        if grad is not None:
            assert torch.allclose(found[1][name], grad, rtol=1e-4, atol=1e-6 * scale), name


def test_the_last_layer_computes_nothing_else():
    model, batch = build(), tokens(is_sorted=True)
    sizes = []
    model.encoder.ffn[0].register_forward_hook(lambda module, inputs, output: sizes.append(len(output)))
    model(batch, indices_P=torch.tensor([1, 2, 3]))
    model(batch, depth=6, indices_P=torch.tensor([4]))
    assert sizes == [22, 22, 22, 3, *[22] * 5, 1]


@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_first_tokens_alone_are_those_rows_of_all(shape, is_sorted, checkpointing):
    model, batch = build(**SHAPES[shape]), tokens(is_sorted=is_sorted)
    torch.nn.init.normal_(model.encoder.attention[0].key.bias)
    torch.nn.init.normal_(model.encoder.attention[0].value.bias)
    model.encoder.gradient_checkpointing = checkpointing
    model.train()
    check_alike(model, model(batch).last_TD[batch.first_B], model(batch, first_only=True).last_TD)


def test_for_first_tokens_no_keys_or_values_are_computed():
    model, batch = build(), tokens(is_sorted=False)
    sizes = []
    for part in ("query", "key", "value", "output"):
        module = getattr(model.encoder.attention[0], part)
        module.register_forward_hook(lambda module, inputs, output: sizes.append(len(output)))
    model(batch, depth=1, first_only=True)
    assert sizes == [4, 4]  # the queries and outputs of four sequences


def test_dropout_of_first_tokens_keeps_the_mean():
    # Dropped probabilities no longer add up to 1: the values' bias must be weighed by what is left of them.
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


def test_an_adapter_in_the_place_of_keys_and_values_is_called_for_first_tokens_too():
    """They are not computed otherwise, by a rule that knows of weights alone."""

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
