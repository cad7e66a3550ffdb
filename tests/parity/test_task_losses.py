"""Losses and gradients of the other task types are those of `transformers`."""

import pytest
import torch
import transformers
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.nn.utils.rnn import pad_sequence
from transformers.models.xlm.modeling_xlm import XLMSQuADHead

from albert.model.albert_model import build_model
from albert.model.config import ModelConfig
from albert.pretrained.folder import load_vocabulary
from albert.tasks.multiple_choice import ChoiceExample, MultipleChoiceConfig, MultipleChoiceTask
from albert.tasks.token_classification import TokenClassificationConfig, TokenClassificationTask, TokenExample
from albert.text.tokenizer import Tokenizer
from tests.conftest import WORDS
from tests.tasks.questions import build_qa, write_questions

from .pairs import assert_same_gradients, build_pair, pad
from .test_transformers import albert_config

SMALL = {
    "vocab_size": len(WORDS), "embedding_size": 24, "hidden_size": 48, "num_hidden_layers": 3,
    "num_attention_heads": 4, "intermediate_size": 96,
}  # fmt: skip
IGNORED = -100


@pytest.fixture(scope="module")
def vocabulary(tiny_folder) -> Tokenizer:
    return load_vocabulary(tiny_folder)


@pytest.mark.parametrize("weights", [None, (0.5, 2.0, 1.0)])
def test_token_classification(vocabulary, weights, tmp_path):
    """Their loss is a mean over the first tokens of words."""
    config = transformers.AlbertConfig(**SMALL, num_labels=3)
    pair = build_pair(transformers.AlbertForTokenClassification, config, tmp_path)
    names = ("x", "y", "z")
    task = TokenClassificationTask(
        TokenClassificationConfig(
            task="token-classification", labels=names, max_length=12, class_weights=weights
        )
    )
    texts = [
        TokenExample("a", ("the", "dogs", "went", "to", "ships"), (0, 1, 2, 0, 1)),
        TokenExample("b", ("seas",), (2,)),
        TokenExample("c", ("older", "houses", "and", "the", "new", "towns") * 3, (0, 1, 2, 2, 0, 1) * 3),
    ]
    items = task.encode(texts, vocabulary)
    assert len(items) > len(texts)  # one is split into windows
    padded = pad([item.sequence for item in items])
    labels = torch.full_like(padded["input_ids"], IGNORED)
    for row, item in zip(labels, items, strict=True):
        row[list(item.positions)] = torch.tensor(item.labels)
    theirs = pair.theirs(**padded, labels=labels)
    batch = task.build_batch(items)
    total, num_correct = task.compute_losses(pair.ours, batch)["task"]
    num_words = task.count_labels(batch)["task"]
    assert num_words == sum(len(text.words) for text in texts)
    assert num_correct == (theirs.logits.argmax(-1) == labels).sum()
    if weights is None:
        expected = theirs.loss
    else:
        weigh = torch.nn.CrossEntropyLoss(torch.tensor(weights), reduction="sum")
        expected = weigh(theirs.logits.view(-1, 3), labels.view(-1)) / num_words
    assert (total / num_words).item() == pytest.approx(expected.item(), abs=1e-5)
    assert_same_gradients(pair, [total / num_words], [expected])


def test_multiple_choice(vocabulary, tmp_path):
    """Their loss is a mean over questions with the same number of options."""
    config = transformers.AlbertConfig(**SMALL)
    pair = build_pair(transformers.AlbertForMultipleChoice, config, tmp_path)
    task = MultipleChoiceTask(MultipleChoiceConfig(task="multiple-choice", max_length=24, max_ending=12))
    options = ("old", "small and new", "cold", "a big house by the sea")
    questions = [
        ChoiceExample("a", "the ship was old .", "it was _ .", options, 0),
        ChoiceExample("b", "she saw the dog and went to the town . " * 5, "what was it ?", options, 3),
        ChoiceExample("c", "", "they had _", options[::-1], 1),
    ]
    batch = task.build_batch(items := task.encode(questions, vocabulary))
    padded = pad([sequence for item in items for sequence in item.sequences])
    theirs = pair.theirs(
        **{name: value.view(3, 4, -1) for name, value in padded.items()}, labels=torch.tensor([0, 3, 1])
    )
    total, num_correct = task.compute_losses(pair.ours, batch)["task"]
    assert (total / 3).item() == pytest.approx(theirs.loss.item(), abs=1e-5)
    assert num_correct == (theirs.logits.argmax(-1) == torch.tensor([0, 3, 1])).sum()
    assert_same_gradients(pair, [total / 3], [theirs.loss])


# Theirs: ours. Both follow XLNet.
BEAM_NAMES = {
    "start_logits.dense": "start",
    "end_logits.dense_0": "end_dense",
    "end_logits.LayerNorm": "end_norm",
    "end_logits.dense_1": "end",
    "answer_class.dense_0": "answer_dense",
    "answer_class.dense_1": "answer",
}


def test_starts_and_ends_of_squad_1_1(vocabulary, tmp_path):
    """In windows of one length, because their softmax includes padding."""
    task = build_qa(max_length=24)
    examples = write_questions(8, seed=1, num_others=9)
    windows = [window for window in task.encode(examples, vocabulary) if window.num_tokens == 24]
    pair = build_pair(transformers.AlbertForQuestionAnswering, albert_config(), tmp_path)
    answers = torch.tensor([window.answer or (0, 0) for window in windows])
    assert 0 < int((answers[:, 0] > 0).sum()) < len(windows)
    theirs = pair.theirs(
        input_ids=torch.tensor([window.sequence.ids for window in windows]),
        token_type_ids=torch.from_numpy(task.build_batch(windows).segments_T).view(len(windows), 24),
        start_positions=answers[:, 0],
        end_positions=answers[:, 1],
    ).loss
    total, _ = task.compute_losses(pair.ours, task.build_batch(windows))["span"]
    assert total.item() / len(windows) == pytest.approx(theirs.item(), rel=1e-5)


@torch.no_grad()
def test_starts_and_ends_of_squad_2_0_and_odds_for_no_answer(vocabulary):
    """The odds are compared in prediction: in training theirs use the true start, ours the likely one."""
    task = build_qa(has_impossible=True)
    examples = write_questions(8, seed=1, num_others=2, impossible_share=0.5)
    windows = task.encode(examples, vocabulary)
    config = ModelConfig(
        vocab_size=len(WORDS), embedding_size=8, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=40, initializer_range=0.5,
    )  # fmt: skip
    model = build_model(config, heads=task.heads, seed=3)
    theirs = XLMSQuADHead(transformers.XLMConfig(emb_dim=16, layer_norm_eps=config.layer_norm_eps)).eval()
    ours = model.head("beam_span").state_dict()
    theirs.load_state_dict(
        {name: ours[f"{BEAM_NAMES[name.rpartition('.')[0]]}.{name.rpartition('.')[2]}"]
         for name in theirs.state_dict()}
    )  # fmt: skip
    batch = task.build_batch(windows)
    tokens = batch.build_tokens()
    states = pad_sequence(list(model(tokens).last_TD.split(tokens.lengths)), batch_first=True)
    answers = torch.from_numpy(batch.labels.answers_B2)
    mask = torch.ones(states.shape[:2])
    for row, window in zip(mask, windows, strict=True):
        row[window.context_start : window.context_end] = 0
        row[0] = 0
    (loss,) = theirs(states, start_positions=answers[:, 0], end_positions=answers[:, 1], p_mask=mask)
    losses = {name: total.item() for name, (total, _) in task.compute_losses(model, batch).items()}
    assert losses["span"] / len(windows) == pytest.approx(loss.item(), rel=1e-5)
    first = torch.zeros(len(windows), dtype=torch.long)
    odds = theirs(states, cls_index=first, p_mask=mask)[-1]
    assert [output.null_odds for output in task.predict(model, batch)] == pytest.approx(
        odds.tolist(), abs=1e-5
    )
    missing = torch.tensor([float(window.answer is None) for window in windows])
    half = binary_cross_entropy_with_logits(odds, missing, reduction="sum") / 2
    assert losses["answerable"] == pytest.approx(half.item(), rel=1e-4)
