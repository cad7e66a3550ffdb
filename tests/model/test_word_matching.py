"""Attention heads that are initialized to attend to the same word in the other segment."""

import pytest
import torch

from albert.errors import InputError
from albert.model.albert_model import AlbertModel, build_model
from albert.model.config import Initialization, ModelConfig
from albert.model.initialization import WordMatching
from albert.model.tokens import Tokens
from tests.conftest import rejects

CONFIG = ModelConfig(
    vocab_size=500, embedding_size=64, hidden_size=128, num_hidden_layers=2, num_attention_heads=4,
    intermediate_size=128, max_position_embeddings=64, initializer_range=0.05,
)  # fmt: skip
# The words 7 and 8 are in both segments, at different positions.
FIRST, SECOND = [2, 11, 7, 12, 8, 13, 3], [21, 22, 8, 23, 24, 25, 7, 3]
SEGMENTS = [0] * len(FIRST) + [1] * len(SECOND)


def build(num_matching_heads: int, **changes: object) -> AlbertModel:
    model = build_model(CONFIG.model_copy(update=changes), heads={}, seed=0)
    Initialization(has_sinusoidal_positions=True, num_matching_heads=num_matching_heads).apply(model)
    return model


def attend(model: AlbertModel, *, head: int) -> torch.Tensor:
    """The attention probabilities of a head of the first layer, [length, length]."""
    tokens = Tokens.from_lists([FIRST + SECOND], [SEGMENTS])
    with torch.inference_mode():
        attentions = model.encoder(tokens, with_attentions=True).attentions
    assert attentions is not None
    found: torch.Tensor = attentions[0][0][head]
    return found


def check_match(model: AlbertModel, *, head: int) -> None:
    """Check that both words attend to their other occurrence more than to any other word."""
    found = attend(model, head=head)
    for word in (7, 8):
        here, there = FIRST.index(word), len(FIRST) + SECOND.index(word)
        others = [index for index in range(len(SEGMENTS)) if index not in (here, there)]
        for one, other in ((here, there), (there, here)):
            assert found[one, other] > 2 * found[one, others].max()


def find_weights(model: AlbertModel, name: str) -> list[torch.Tensor]:
    return [weight for key, weight in model.named_parameters() if key.endswith(f"{name}.weight")]


@pytest.mark.parametrize("head", [0, 1])
def test_a_word_attends_to_its_other_occurrence(head: int) -> None:
    check_match(build(2), head=head)


def test_other_heads_are_not_changed() -> None:
    plain, changed = build(0), build(2)
    for name in ("query", "key"):
        (before,), (after,) = find_weights(plain, name), find_weights(changed, name)
        assert torch.equal(before[64:], after[64:])
        assert not torch.equal(before[:64], after[:64])
    assert attend(plain, head=0)[2].max() < 0.2


def test_every_block_of_an_unshared_model_has_such_heads() -> None:
    model = build(1, sharing="none")
    queries, keys = find_weights(model, "query"), find_weights(model, "key")
    assert len(queries) == 2
    for query, key in zip(queries, keys, strict=True):
        assert torch.equal(query[:32], key[:32])


def test_wrong_numbers_of_heads_and_widths_are_rejected() -> None:
    with rejects(InputError, "num_matching_heads 5", "4 heads"):
        build(5)
    with rejects(InputError, "embedding_size 256", "hidden_size 128"):
        build(1, embedding_size=256)


def test_hold_keeps_the_heads_matching_during_training() -> None:
    model = build(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    WordMatching(model.encoder, num_heads=1).attach(optimizer)
    tokens = Tokens.from_lists([FIRST + SECOND], [SEGMENTS])
    (query,), (key,) = find_weights(model, "query"), find_weights(model, "key")
    before = query.detach().clone()
    for _ in range(20):
        optimizer.zero_grad()
        model.encoder(tokens).last_TD[:, :8].square().sum().backward()
        optimizer.step()
    assert torch.equal(query[:32], key[:32])
    assert not torch.equal(query[32:], key[32:])
    assert (query[:32] - before[:32]).abs().max() > 0.01  # it follows the embeddings
    check_match(model, head=0)


def test_long_embeddings_do_not_weaken_the_heads_in_later_layers() -> None:
    """The map is scaled to the length of the embeddings, at most to that of the outputs of layers."""
    sizes = []
    for factor in (0.5, 1.0, 4.0, 16.0):
        model = build(1)
        with torch.no_grad():
            model.encoder.embeddings.norm.weight.mul_(factor)
        WordMatching(model.encoder, num_heads=1).apply()
        (query,) = find_weights(model, "query")
        sizes.append(float(query[:32].detach().norm()))
    assert sizes[0] == pytest.approx(2 * sizes[1])
    assert sizes[2] == pytest.approx(sizes[3])
