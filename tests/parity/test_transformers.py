"""In float32 and with the same weights, outputs and gradients are those of `transformers`."""

from typing import Any

import pytest
import transformers
from torch import Tensor

from albert.inference.sequence_encoder import PaddedModel

from .pairs import (
    Forward,
    Pair,
    RaggedBatch,
    assert_close,
    assert_same_gradients,
    build_pair,
    ragged_batch,
)

RAGGED = (33, 1, 7, 512, 7, 2, 130, 64)
SMALL = {
    "vocab_size": 211, "embedding_size": 24, "hidden_size": 48, "num_hidden_layers": 6,
    "num_attention_heads": 4, "intermediate_size": 96, "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
}  # fmt: skip
SHAPES = {
    "one group": {},
    "3 groups": {"num_hidden_groups": 3},
    "2 inner groups": {"inner_group_num": 2},
    "3 groups of 2 inner": {"num_hidden_groups": 3, "inner_group_num": 2},
    "E = H with the map": {"embedding_size": 48},
    "erf gelu": {"hidden_act": "gelu"},
    "relu": {"hidden_act": "relu"},
}


def albert_config(**changes: Any) -> Any:
    return transformers.AlbertConfig(**{**SMALL, **changes})


def bert_config(**changes: Any) -> Any:
    values = {key: value for key, value in SMALL.items() if key != "embedding_size"}
    return transformers.BertConfig(**{**values, **changes})


def pretraining_logits(pair: Pair, batch: RaggedBatch) -> tuple[list[Tensor], list[Tensor]]:
    """MLM logits at every token and the pair logits: SOP for ALBERT, NSP for BERT."""
    theirs = pair.theirs(**batch.padded)
    pair_logits = theirs.sop_logits if "sop_logits" in theirs else theirs.seq_relationship_logits
    last_TD = pair.ours(batch.tokens).last_TD
    head = pair.ours.head("sop" if "sop" in pair.ours.heads else "nsp")
    ours = [pair.ours.mlm_logits(last_TD), head(pair.ours.pool(last_TD, batch.tokens))]
    return ours, [theirs.prediction_logits[batch.is_real], pair_logits]


def masked_lm_logits(pair: Pair, batch: RaggedBatch) -> tuple[list[Tensor], list[Tensor]]:
    theirs = pair.theirs(**batch.padded).logits[batch.is_real]
    return [pair.ours.mlm_logits(pair.ours(batch.tokens).last_TD)], [theirs]


def classification_logits(pair: Pair, batch: RaggedBatch) -> tuple[list[Tensor], list[Tensor]]:
    pooled = pair.ours.pool(pair.ours(batch.tokens).last_TD, batch.tokens)
    return [pair.ours.head("classification")(pooled)], [pair.theirs(**batch.padded).logits]


def token_classification_logits(pair: Pair, batch: RaggedBatch) -> tuple[list[Tensor], list[Tensor]]:
    ours = pair.ours.head("token_classification")(pair.ours(batch.tokens).last_TD)
    return [ours], [pair.theirs(**batch.padded).logits[batch.is_real]]


def span_logits(pair: Pair, batch: RaggedBatch) -> tuple[list[Tensor], list[Tensor]]:
    theirs = pair.theirs(**batch.padded)
    ours = pair.ours.head("span")(pair.ours(batch.tokens).last_TD)
    return list(ours), [theirs.start_logits[batch.is_real], theirs.end_logits[batch.is_real]]


def choice_logits(pair: Pair, batch: RaggedBatch) -> tuple[list[Tensor], list[Tensor]]:
    """Eight sequences: two questions of four choices."""
    questions = {name: value.view(2, 4, -1) for name, value in batch.padded.items()}
    pooled = pair.ours.pool(pair.ours(batch.tokens).last_TD, batch.tokens)
    head: Any = pair.ours.head("choice")
    ours = head(pooled).view(-1, 4)
    return [ours], [pair.theirs(**questions).logits]


HEADS: dict[str, tuple[str, Forward, dict[str, Any]]] = {
    "pretraining": ("ForPreTraining", pretraining_logits, {}),
    "masked words": ("ForMaskedLM", masked_lm_logits, {}),
    "classification": ("ForSequenceClassification", classification_logits, {"num_labels": 3}),
    "regression": ("ForSequenceClassification", classification_logits, {"num_labels": 1}),
    "token classification": ("ForTokenClassification", token_classification_logits, {"num_labels": 5}),
    "spans": ("ForQuestionAnswering", span_logits, {}),
    "choices": ("ForMultipleChoice", choice_logits, {}),
}


def check(pair: Pair, batch: RaggedBatch, forward: Forward) -> None:
    ours, theirs = forward(pair, batch)
    for our_logits, their_logits in zip(ours, theirs, strict=True):
        assert_close(our_logits, their_logits)
    assert_same_gradients(pair, ours, theirs)


@pytest.mark.parametrize("changes", SHAPES.values(), ids=SHAPES)
def test_albert_of_every_shape(changes, tmp_path):
    pair = build_pair(transformers.AlbertForPreTraining, albert_config(**changes), tmp_path)
    check(pair, ragged_batch(RAGGED, 211), pretraining_logits)


@pytest.mark.parametrize(("their_class", "forward", "changes"), HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("family", ["Albert", "Bert"])
def test_every_head(family, their_class, forward, changes, tmp_path):
    config = albert_config(**changes) if family == "Albert" else bert_config(**changes)
    pair = build_pair(getattr(transformers, family + their_class), config, tmp_path)
    check(pair, ragged_batch(RAGGED, 211), forward)


@pytest.mark.parametrize(
    ("depth", "vocab_size"), [(2, 1000), pytest.param(12, 30_000, marks=pytest.mark.slow)]
)
def test_albert_at_base_width(tmp_path, depth, vocab_size):
    config = transformers.AlbertConfig(
        hidden_size=768, num_attention_heads=12, intermediate_size=3072, num_hidden_layers=depth,
        vocab_size=vocab_size,
    )  # fmt: skip
    pair = build_pair(transformers.AlbertForPreTraining, config, tmp_path)
    check(pair, ragged_batch((40, 1, 9, 512, 9, 2), vocab_size), pretraining_logits)


@pytest.mark.parametrize("family", ["Albert", "Bert"])
def test_hidden_states_and_attention_of_every_layer(family, tmp_path):
    config = albert_config(num_hidden_groups=2) if family == "Albert" else bert_config()
    config._attn_implementation = "eager"
    pair = build_pair(getattr(transformers, f"{family}Model"), config, tmp_path)
    batch = ragged_batch(RAGGED, 211)
    theirs = pair.theirs(**batch.padded, output_hidden_states=True, output_attentions=True)
    ours = pair.ours(batch.tokens, with_hidden_states=True, with_attentions=True)
    assert len(ours.hidden_states) == 7
    for our_states, their_states in zip(ours.hidden_states, theirs.hidden_states, strict=True):
        assert_close(our_states, their_states[batch.is_real])
    for our_layer, their_layer in zip(ours.attentions, theirs.attentions, strict=True):
        for index, (length, probabilities) in enumerate(zip(RAGGED, our_layer, strict=True)):
            assert_close(probabilities, their_layer[index, :, :length, :length])


def test_padded_calls_give_the_outputs_of_transformers(tmp_path):
    pair = build_pair(transformers.AlbertModel, albert_config(), tmp_path)
    batch = ragged_batch(RAGGED, 211)
    theirs = pair.theirs(**batch.padded)
    ours = PaddedModel(pair.ours)(**batch.padded)
    assert_close(ours.last_hidden_state[batch.is_real], theirs.last_hidden_state[batch.is_real])
    assert not ours.last_hidden_state[~batch.is_real].any()
    assert_close(ours.pooler_output, theirs.pooler_output)
