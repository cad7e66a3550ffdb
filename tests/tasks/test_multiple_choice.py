"""Multiple choice: sequences, labels, losses over any number of options, and scores."""

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from albert.data.rows import BadRow
from albert.errors import InputError
from albert.pretrained.folder import load_vocabulary
from albert.tasks.models import predict_items
from albert.tasks.multiple_choice import (
    ChoiceExample,
    MultipleChoiceConfig,
    MultipleChoiceTask,
    fill_blank,
    find_lettered_option,
    find_option,
    iter_encoded_choices,
)
from albert.tasks.task import Floats

from .learning import finetune, load_for

NOUNS, SIZES = ("dog", "man", "house", "ship"), ("big", "small", "old", "new", "cold", "warm")
PASSAGE = "The ship left the harbour in 1990, and nobody on the quay waved. " * 20


def build_task(**values: Any) -> MultipleChoiceTask:
    return MultipleChoiceTask(
        MultipleChoiceConfig(**{"task": "multiple-choice", "max_length": 32, "max_ending": 12, **values})
    )


TASK = build_task()


def encode(tokenizer, example: ChoiceExample, max_length: int = 140):
    (encoded,) = iter_encoded_choices([example], tokenizer=tokenizer, max_length=max_length, max_ending=128)
    return encoded


@pytest.mark.parametrize(
    ("question", "filled"),
    [
        ("The ship  _  in 1990.", "The ship  \\1 left  in 1990."),
        ("from _ to _ .", "from \\1 left to \\1 left ."),
        ("It was ____", "It was \\1 left"),
        ("They came by_.", "They came by\\1 left."),
        ("the _s of the ship", "the \\1 lefts of the ship"),
        ("What is my_var, or a__b?", "What is my_var, or a__b? \\1 left"),
        ("my_var is ___ .", "my_var is \\1 left ."),
        ("What happened?", "What happened? \\1 left"),
        ("", " \\1 left"),
    ],
)
def test_the_option_replaces_blanks(question, filled):
    assert fill_blank(question, "\\1 left") == filled


@pytest.mark.parametrize(
    ("level", "ending"), [("high", "The ship andthe dogwas"), ("", "The ship and_was the dog")]
)
def test_questions_of_race_may_have_a_blank_inside_a_word(tokenizer, level, ending):
    example = ChoiceExample("a", "The ship left.", "The ship and_was", ("the dog", "the sea"), 1, level)
    assert encode(tokenizer, example).endings[0] == tuple(tokenizer.encode_ids([ending])[0])


def test_each_option_is_a_sequence_after_the_passage(tokenizer):
    example = ChoiceExample("a", "The ship left.", "The dog _ .", ("walked", "was cold"), 1, "high")
    encoded = encode(tokenizer, example)
    assert (encoded.id, encoded.label, encoded.is_truncated) == ("a", 1, False)
    for option, sequence in zip(example.options, encoded.sequences, strict=True):
        passage, ending = (tokenizer.encode(text) for text in (example.passage, f"The dog {option} ."))
        expected = tokenizer.build_sequence(passage, ending)
        assert (sequence.ids, sequence.num_first) == (expected.ids, expected.segments.count(0))


def test_questions_keep_their_last_tokens_and_passages_their_first(tokenizer):
    question = "the dog and the dog and " * 30
    example = ChoiceExample("a", PASSAGE, question, ("the ship", "the gate with the dog"))
    encoded = encode(tokenizer, example, max_length=200)
    passage = tokenizer.encode_ids([PASSAGE])[0]
    endings = tokenizer.encode_ids([fill_blank(question, option) for option in example.options])
    for sequence, ending in zip(encoded.sequences, endings, strict=True):
        assert len(sequence.ids) == 200
        assert sequence.ids[-129:-1] == tuple(ending[-128:])
        assert sequence.ids[1 : sequence.num_first - 1] == tuple(passage[: 197 - 128])
    assert encoded.is_truncated
    assert encoded.num_lost == sum(len(ending) - 128 for ending in endings)
    with pytest.raises(InputError, match=r"128.* 132\b.*max_ending"):
        encode(tokenizer, example, max_length=128)


def test_the_number_of_tokens_is_known_before_sequences_are_built(tiny_folder):
    questions = [
        ChoiceExample("a", "the dog was old . " * times, "it was _ " * blanks, ("big", "old and new", ""))
        for times in (0, 1, 4, 30)
        for blanks in (1, 20)
    ]
    items = TASK.encode(questions, load_vocabulary(tiny_folder))
    lengths = [sum(len(sequence.ids) for sequence in item.sequences) for item in items]
    assert [item.num_tokens for item in items] == lengths
    assert max(lengths) == 3 * 32


def write_questions(
    number: int, *, seed: int, num_options: Sequence[int] = (2, 3, 4), level: str = ""
) -> list[ChoiceExample]:
    """The right option is the one in the passage."""
    draw = random.Random(seed)
    questions = []
    for index in range(number):
        options = draw.sample(SIZES, draw.choice(num_options))
        label = draw.randrange(len(options))
        passage = f"the {draw.choice(NOUNS)} was {options[label]} ."
        questions.append(ChoiceExample(str(index), passage, "it was _ .", tuple(options), label, level))
    return questions


def as_logits(question: ChoiceExample) -> Floats:
    """The logits of a perfect model."""
    return np.where(np.arange(len(question.options)) == question.label, 9.0, 0.0)


def test_any_number_of_options_is_learned(tiny_folder, tmp_path):
    train, dev = write_questions(400, seed=1), write_questions(100, seed=2)
    outcome, _ = finetune(tiny_folder, tmp_path, TASK, train=train, dev=dev, num_steps=250)
    assert outcome.progress.figures["score"] > 90


def test_predictions_do_not_depend_on_the_batch(tiny_folder):
    model = load_for(TASK, tiny_folder)
    questions = write_questions(30, seed=3, num_options=(2, 5, 3))
    items = TASK.encode(questions, load_vocabulary(tiny_folder))
    alone, together = (predict_items(model, TASK, items, max_tokens=size) for size in (1, 100_000))
    assert [len(answer) for answer in alone] == [len(question.options) for question in questions]
    for one, other in zip(alone, together, strict=True):
        assert np.allclose(one, other, atol=1e-5)


def test_the_loss_is_a_softmax_over_the_options_of_each_question(tiny_folder):
    model = load_for(TASK, tiny_folder)
    questions = [write_questions(1, seed=seed, num_options=(seed,))[0] for seed in (2, 4, 3)]
    items = TASK.encode(questions, load_vocabulary(tiny_folder))
    batch = TASK.build_batch(items)
    assert len(batch.lengths) == 2 + 4 + 3
    total, num_correct = TASK.compute_losses(model, batch)["task"]
    expected, expected_correct = 0.0, 0
    for item, question in zip(items, questions, strict=True):
        (answer,) = TASK.predict(model, TASK.build_batch([item]))
        logits = answer.tolist()
        assert question.label is not None
        expected += math.log(sum(map(math.exp, logits))) - logits[question.label]
        expected_correct += max(logits) == logits[question.label]
    assert total.item() == pytest.approx(expected, rel=1e-5)
    assert num_correct.item() == expected_correct
    assert TASK.count_labels(batch) == {"task": 3}
    total.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_scores_are_also_given_for_each_level_of_race():
    middle, high = (write_questions(10, seed=5, level=level) for level in ("middle", "high"))
    golds = [as_logits(question) for question in middle]
    wrong = [-answer for answer in golds]
    scores = TASK.score([*golds, *golds, *wrong], [*middle, *middle, *high])
    assert scores == {
        "accuracy": pytest.approx(200 / 3),
        "middle": 100.0,
        "high": 0.0,
        "score": scores["accuracy"],
    }
    assert TASK.score(golds, middle) == {"accuracy": 100.0, "middle": 100.0, "score": 100.0}
    assert TASK.score(golds, write_questions(10, seed=5)) == {"accuracy": 100.0, "score": 100.0}
    with pytest.raises(InputError, match="'x'"):
        TASK.score([np.zeros(2)], [ChoiceExample("x", "", "", ("a", "b"))])


def test_a_choice_is_described_by_its_letter_and_its_text():
    question = ChoiceExample("q", "", "what was it ?", ("a ship", "a dog", "a man"))
    described = build_task(temperature=2.0).describe(np.log([1.0, 9.0, 4.0]), question)
    assert described.pop("probabilities") == pytest.approx([1 / 6, 3 / 6, 2 / 6])
    assert described == {"id": "q", "choice": "B", "option": "a dog"}


@pytest.mark.parametrize(("index", "name"), [(0, "A"), (25, "Z"), (26, "26"), (29, "29")])
def test_names_of_options_are_read_as_they_are_written(index, name):
    options = tuple(f"option {number}" for number in range(30))
    described = TASK.describe(np.eye(30)[index], ChoiceExample("q", "", "", options))
    assert described["choice"] == name
    assert find_option(name, options) == index


def test_a_label_that_means_two_options_is_rejected():
    assert find_option("a dog", ("a ship", "a dog")) == 1
    assert find_option("3", ("0", "1", "2", "3")) == 3  # the same either way
    with pytest.raises(BadRow) as caught:
        find_option("2", ("1", "2", "3", "4"))
    assert caught.value.is_fatal
    assert "'2' is the text of option 1 and the index of option 2" in caught.value.detail
    assert find_lettered_option("A", ("B", "A", "C", "D")) == 0  # in RACE a letter is a letter
