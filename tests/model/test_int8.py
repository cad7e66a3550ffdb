"""Int8 models: exact products, a scale per token, and the kernel's limits."""

import copy

import pytest
import torch

from albert.errors import InputError
from albert.model.albert_model import build_model
from albert.model.config import ModelConfig
from albert.model.int8 import Int8Linear, list_modules, quantize_model, quantize_weight
from albert.model.tokens import Tokens
from tests.conftest import rejects

CONFIG = ModelConfig(
    vocab_size=50,
    embedding_size=16,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    max_position_embeddings=300,
)
HEADS = {"mlm": None, "sop": None}


@pytest.fixture
def model():
    return build_model(CONFIG.model_copy(update={"initializer_range": 0.2}), heads=HEADS, seed=1)


def make_tokens(*lengths):
    generator = torch.Generator().manual_seed(0)
    return Tokens.from_lists([torch.randint(50, (n,), generator=generator).tolist() for n in lengths])


def test_a_product_of_integers_is_exact_for_any_number_of_rows():
    generator = torch.Generator().manual_seed(0)
    weight = torch.randint(-63, 64, (24, 40), generator=generator).float()
    weight[:, 0] = 63  # so that the scale is 1
    linear = Int8Linear(weight, torch.arange(24.0), limit=63)
    for num_rows in (0, 1, 7, 8, 33):
        x = torch.randint(-127, 128, (num_rows, 40), generator=generator).float()
        x[:, :1] = 127
        factor = torch.arange(1.0, num_rows + 1)[:, None]
        expected = factor * (x @ weight.t()) + torch.arange(24.0)
        torch.testing.assert_close(linear(factor * x), expected, rtol=1e-5, atol=1e-3)


def test_rounding_rounded_weights_again_keeps_the_integers():
    weight = torch.randn(64, 48, generator=torch.Generator().manual_seed(0))
    for reduce_range, limit in ((False, 127), (True, 63)):
        integers, scale = quantize_weight(weight, reduce_range=reduce_range)
        assert integers.abs().max() == limit
        again, _ = quantize_weight(integers * scale[:, None], reduce_range=reduce_range)
        assert torch.equal(again, integers)


@pytest.mark.parametrize(
    "changes", [{}, {"sharing": "none", "hidden_act": "gelu", "embedding_size": 32}, {"hidden_act": "relu"}]
)
def test_hidden_states_attentions_and_logits_are_close_to_float(changes):
    config = CONFIG.model_copy(update={"initializer_range": 0.2, **changes})
    model, tokens = build_model(config, heads=HEADS, seed=1), make_tokens(5, 290, 9, 5)
    rounded = quantize_model(copy.deepcopy(model))
    outputs = [each(tokens, with_hidden_states=True, with_attentions=True) for each in (model, rounded)]
    for one, other in zip(*(each.hidden_states for each in outputs), strict=True):
        assert torch.cosine_similarity(one, other).min() > 0.99
    for one, other in zip(*(layer for each in outputs for layer in [each.attentions[-1]]), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0.2)
    logits = [each.mlm_logits(output.last_TD) for each, output in zip((model, rounded), outputs, strict=True)]
    assert torch.cosine_similarity(*logits).min() > 0.99


def test_a_text_does_not_depend_on_the_others_in_its_batch(model):
    rounded, tokens = quantize_model(model), make_tokens(300, 7, 41)
    alone = [rounded(Tokens.from_lists([ids.tolist()])).last_TD for ids in tokens.ids_T.split(tokens.lengths)]
    torch.testing.assert_close(rounded(tokens).last_TD, torch.cat(alone), rtol=1e-4, atol=1e-4)
    first_BD = rounded(tokens, first_only=True).last_TD
    torch.testing.assert_close(first_BD, torch.cat([each[:1] for each in alone]), rtol=1e-4, atol=1e-4)


def test_modules_can_stay_in_float(model):
    tokens, names = make_tokens(5, 9), list_modules(model)
    float_TD = model(tokens).last_TD
    kept = quantize_model(copy.deepcopy(model), float_modules=names)
    torch.testing.assert_close(kept(tokens).last_TD, float_TD, rtol=1e-3, atol=2e-3)
    part = quantize_model(copy.deepcopy(model), float_modules=["attention", "embeddings"])
    assert type(part.encoder.attention[0].input) is torch.nn.Linear
    assert type(part.encoder.ffn[0].inner) is Int8Linear
    with rejects(InputError, "ffn.7", "ffn.0.inner"):
        quantize_model(model, float_modules=["ffn.7"])
