"""Heads that begin by looking for the same word, in whichever segment it stands."""

import pytest
import torch

from albert.errors import InputError
from albert.model.albert_model import AlbertModel, build_model
from albert.model.config import Initialization, ModelConfig
from albert.model.initialization import WordMatching
from albert.model.tokens import Tokens

CONFIG = ModelConfig(
    vocab_size=500, embedding_size=64, hidden_size=128, num_hidden_layers=2, num_attention_heads=4,
    intermediate_size=128, max_position_embeddings=64, initializer_range=0.05,
)  # fmt: skip
# The words 7 and 8 stand in both segments, at other places.
FIRST, SECOND = [2, 11, 7, 12, 8, 13, 3], [21, 22, 8, 23, 24, 25, 7, 3]
SEGMENTS = [0] * len(FIRST) + [1] * len(SECOND)


def build(num_matching_heads: int, **changes: object) -> AlbertModel:
    model = build_model(CONFIG.model_copy(update=changes), heads={}, seed=0)
    Initialization(has_sinusoidal_positions=True, num_matching_heads=num_matching_heads).apply(model)
    return model


def look(model: AlbertModel, *, head: int, step: int = 0) -> torch.Tensor:
    """How much each token looks at each other one, [length, length]."""
    tokens = Tokens.from_lists([FIRST + SECOND], [SEGMENTS])
    with torch.inference_mode():
        attentions = model.encoder(tokens, with_attentions=True).attentions
    assert attentions is not None
    seen: torch.Tensor = attentions[step][0][head]
    return seen


@pytest.mark.parametrize("head", [0, 1])
def test_a_word_looks_at_its_other_occurrence_more_than_at_any_other_word(head: int) -> None:
    seen = look(build(2), head=head)
    places = {word: (FIRST.index(word), len(FIRST) + SECOND.index(word)) for word in (7, 8)}
    for here, there in places.values():
        others = [place for place in range(len(SEGMENTS)) if place not in (here, there)]
        for one, other in ((here, there), (there, here)):
            assert seen[one, other] > 2 * seen[one, others].max()


def test_the_heads_that_were_not_asked_for_look_anywhere() -> None:
    plain, started = build(0), build(2)
    for part in ("query", "key"):
        before, after = (dict(model.named_parameters()) for model in (plain, started))
        (name,) = [name for name in before if name.endswith(f"{part}.weight")]
        assert torch.equal(before[name][64:], after[name][64:])
        assert not torch.equal(before[name][:64], after[name][:64])
    assert look(plain, head=0)[2].max() < 0.2


def test_it_is_the_same_for_the_same_seed_and_for_embeddings_as_wide_as_the_layers() -> None:
    for first, second in zip(build(1).parameters(), build(1).parameters(), strict=True):
        assert torch.equal(first, second)
    seen = look(build(2, embedding_size=128), head=0)
    assert seen[2, len(FIRST) + SECOND.index(7)] > 0.2


def test_every_block_of_a_model_that_shares_nothing_has_such_heads() -> None:
    model = build(1, sharing="none")
    for layer in range(2):
        maps = [
            (dict(part.named_parameters())["query.weight"], dict(part.named_parameters())["key.weight"])
            for part in model.modules()
            if type(part).__name__ == "AttentionBlock"
        ]
        query, key = maps[layer]
        assert torch.equal(query[:32], key[:32])


def test_more_heads_than_there_are_and_too_wide_embeddings_are_rejected() -> None:
    with pytest.raises(InputError, match="num_matching_heads 5 exceeds the model's 4 heads; lower it"):
        build(5)
    with pytest.raises(InputError, match="embedding_size 256.*hidden_size 128"):
        build(1, embedding_size=256)


def test_while_all_else_is_trained_the_heads_are_held_to_it() -> None:
    """Without it a step of the optimiser would make something else of them."""
    model = build(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    WordMatching(model.encoder, num_heads=1).register_hooks(optimizer)
    tokens = Tokens.from_lists([FIRST + SECOND], [SEGMENTS])
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    for _ in range(20):
        optimizer.zero_grad()
        model.encoder(tokens).last_TD[:, :8].square().sum().backward()
        optimizer.step()
    after = dict(model.named_parameters())
    (query, key) = (
        next(name for name in after if name.endswith(f"{part}.weight")) for part in ("query", "key")
    )
    assert torch.equal(after[query][:32], after[key][:32])
    assert not torch.equal(after[query][32:], after[key][32:])
    assert (after[query][:32] - before[query][:32]).abs().max() > 0.01  # it has gone with the embeddings
    seen = look(model, head=0)
    here, there = FIRST.index(7), len(FIRST) + SECOND.index(7)
    others = [place for place in range(len(SEGMENTS)) if place not in (here, there)]
    assert seen[here, there] > 2 * seen[here, others].max()


def test_longer_embeddings_do_not_quieten_the_heads_in_later_layers() -> None:
    """The map is made for the embeddings up to the length that the norms of layers let out, then for that."""
    sizes = []
    for factor in (0.5, 1.0, 4.0, 16.0):
        model = build(1)
        with torch.no_grad():
            model.encoder.embeddings.norm.weight.mul_(factor)
        WordMatching(model.encoder, num_heads=1).apply()
        (query,) = [weight for name, weight in model.named_parameters() if name.endswith("query.weight")]
        sizes.append(float(query[:32].detach().norm()))
    assert sizes[0] == pytest.approx(2 * sizes[1])
    assert sizes[2] == pytest.approx(sizes[3])
