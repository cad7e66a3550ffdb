"""Losses and gradients of token classification and multiple choice are those of `transformers`."""

import pytest
import torch
import transformers

from albert.tasks.multiple_choice import ChoiceExample, MultipleChoiceConfig, MultipleChoiceTask
from albert.tasks.token_classification import TokenClassificationConfig, TokenClassificationTask, TokenExample
from albert.text.tokenizer import Tokenizer
from albert.text.wordpiece_tokenizer import WordPieceTokenizer
from tests.conftest import WORDS

from .pairs import assert_same_gradients, build_pair, pad

SMALL = {
    "vocab_size": len(WORDS), "embedding_size": 24, "hidden_size": 48, "num_hidden_layers": 3,
    "num_attention_heads": 4, "intermediate_size": 96,
}  # fmt: skip
IGNORED = -100


@pytest.fixture(scope="module")
def vocabulary() -> Tokenizer:
    return WordPieceTokenizer("".join(f"{word}\n" for word in WORDS).encode())


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
