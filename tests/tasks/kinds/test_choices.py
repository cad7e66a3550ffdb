"""Options compete within their question, however many there are of them, and whatever the batch."""

import math
import random
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from albert.tasks.answering import ask_items
from albert.tasks.examples import ChoiceExample
from albert.tasks.kinds.choices import ChoiceKind
from albert.tasks.kinds.logits import Floats
from albert.tasks.readers.columns import place_letter, place_option
from albert.tasks.task_facts import TaskConfig, build_kind

from albert.data.rows import BadRow
from albert.errors import InputError
from albert.pretrained.folder import load_vocabulary

from .learning import finetune, load_for

NOUNS, SIZES = ("dog", "man", "house", "ship"), ("big", "small", "old", "new", "cold", "warm")
KIND = ChoiceKind(max_length=32, max_ending=12)


def write_questions(
    number: int, *, seed: int, num_options: Sequence[int] = (2, 3, 4), level: str = ""
) -> list[ChoiceExample]:
    """The right option is the one that the passage has; of how many options, differs."""
    draw = random.Random(seed)
    questions = []
    for place in range(number):
        options = draw.sample(SIZES, draw.choice(num_options))
        label = draw.randrange(len(options))
        passage = f"the {draw.choice(NOUNS)} was {options[label]} ."
        questions.append(ChoiceExample(str(place), passage, "it was _ .", tuple(options), label, level))
    return questions


def as_logits(question: ChoiceExample) -> Floats:
    """What a model that knows the answer would say."""
    assert question.label is not None
    places = np.arange(len(question.options))
    return np.where(places == question.label, 9.0, 0.0)


def test_options_of_any_number_are_learned(tiny_folder, tmp_path):
    outcome, _ = finetune(
        tiny_folder,
        tmp_path,
        KIND,
        train=write_questions(400, seed=1),
        dev=write_questions(100, seed=2),
        num_steps=250,
    )
    assert outcome.progress.figures["score"] > 90


def test_answers_do_not_depend_on_the_batch(tiny_folder):
    model = load_for(KIND, tiny_folder)
    questions = write_questions(30, seed=3, num_options=(2, 5, 3))
    items = KIND.encode(questions, load_vocabulary(tiny_folder))
    alone, together = (ask_items(model, KIND, items, max_tokens=size) for size in (1, 100_000))
    assert [len(answer) for answer in alone] == [len(question.options) for question in questions]
    for one, other in zip(alone, together, strict=True):
        assert np.allclose(one, other, atol=1e-5)


def test_the_loss_of_two_four_and_three_options_in_one_batch(tiny_folder):
    """For each question: the logarithm of the sum over its own options, less the right option's logit."""
    model, tokenizer = load_for(KIND, tiny_folder), load_vocabulary(tiny_folder)
    questions = [write_questions(1, seed=seed, num_options=(seed,))[0] for seed in (2, 4, 3)]
    items = KIND.encode(questions, tokenizer)
    batch = KIND.build_batch(items)
    assert len(batch.lengths) == 2 + 4 + 3
    total, num_right = KIND.compute_terms(model, batch)["task"]
    expected, hits = 0.0, 0
    for item, question in zip(items, questions, strict=True):
        logits = [float(logit) for logit in KIND.predict(model, KIND.build_batch([item]))[0]]
        assert question.label is not None
        expected += math.log(sum(map(math.exp, logits))) - logits[question.label]
        hits += max(logits) == logits[question.label]
    assert total.item() == pytest.approx(expected, rel=1e-5)
    assert num_right.item() == hits
    assert KIND.count(batch) == {"task": 3}
    total.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for _, p in model.named_parameters())


def test_questions_without_an_answer_are_asked_and_count_nothing(tiny_folder):
    model, tokenizer = load_for(KIND, tiny_folder), load_vocabulary(tiny_folder)
    known = write_questions(1, seed=4)[0]
    unknown = ChoiceExample("b", "the sea was cold .", "it was _ .", ("cold", "warm"))
    items = KIND.encode([known, unknown], tokenizer)
    assert [KIND.teaches(item) for item in items] == [True, False]
    alone, both = (KIND.build_batch(part) for part in (items[:1], items))
    assert KIND.count(alone) == KIND.count(both) == {"task": 1}
    losses = [KIND.compute_terms(model, batch)["task"][0].item() for batch in (alone, both)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_a_length_is_known_without_the_sequences(tiny_folder):
    """Of short passages and of such that are cut, beside questions that are cut."""
    questions = [
        ChoiceExample("a", "the dog was old . " * times, "it was _ " * blanks, ("big", "old and new", ""))
        for times in (0, 1, 4, 30)
        for blanks in (1, 20)
    ]
    items = KIND.encode(questions, load_vocabulary(tiny_folder))
    lengths = [sum(len(sequence.ids) for sequence in item.sequences) for item in items]
    assert [KIND.measure(item) for item in items] == lengths
    assert max(lengths) == 3 * 32


def test_gold_answers_score_100_in_every_level():
    middle, high = (write_questions(10, seed=5, level=level) for level in ("middle", "high"))
    golds = [as_logits(question) for question in middle]
    assert KIND.score([*golds, *golds], [*middle, *high]) == {
        "accuracy": 100.0,
        "middle": 100.0,
        "high": 100.0,
        "score": 100.0,
    }
    wrong = [-answer for answer in golds]
    figures = KIND.score([*golds, *golds, *wrong], [*middle, *middle, *high])
    assert figures == {
        "accuracy": pytest.approx(200 / 3),
        "middle": 100.0,
        "high": 0.0,
        "score": figures["accuracy"],
    }
    assert KIND.score(golds, middle) == {"accuracy": 100.0, "middle": 100.0, "score": 100.0}
    plain = write_questions(10, seed=5)
    assert KIND.score(golds, plain) == {"accuracy": 100.0, "score": 100.0}


def test_several_models_are_the_mean_of_their_probabilities():
    members = [torch.randn(3, generator=torch.Generator().manual_seed(seed)).double() for seed in range(4)]
    merged = torch.from_numpy(KIND.merge([member.numpy() for member in members]))
    mean = torch.stack([member.softmax(-1) for member in members]).mean(0)
    assert torch.allclose(merged.softmax(-1), mean, atol=1e-12)


def test_a_choice_is_described_by_its_letter_and_its_text():
    question = ChoiceExample("q", "", "what was it ?", ("a ship", "a dog", "a man"))
    kind = ChoiceKind(temperature=2.0)
    described = kind.describe(np.log([1.0, 9.0, 4.0]), question)
    assert described.pop("probabilities") == pytest.approx([1 / 6, 3 / 6, 2 / 6])
    assert described == {"id": "q", "choice": "B", "option": "a dog"}


@pytest.mark.parametrize(("place", "name"), [(0, "A"), (25, "Z"), (26, "26"), (29, "29")])
def test_the_name_of_a_choice_is_read_as_that_choice(place, name):
    options = tuple(f"option {number}" for number in range(30))
    described = KIND.describe(np.eye(30)[place], ChoiceExample("q", "", "", options))
    assert described["choice"] == name
    assert place_option(name, options) == place


def test_a_label_that_is_the_text_of_one_option_and_the_place_of_another_is_refused():
    assert place_option("a dog", ("a ship", "a dog")) == 1
    assert place_option("3", ("0", "1", "2", "3")) == 3  # both ways the same
    with pytest.raises(BadRow) as caught:
        place_option("2", ("1", "2", "3", "4"))
    assert caught.value.is_fatal
    assert "'2' is the text of option 1 and the place of option 2" in caught.value.detail
    assert place_letter("A", ("B", "A", "C", "D")) == 0  # RACE's letters are letters


def test_a_question_without_an_answer_is_not_scored():
    with pytest.raises(InputError, match="question 'x' has no right option"):
        KIND.score([np.zeros(2)], [ChoiceExample("x", "", "", ("a", "b"))])


def test_the_facts_beside_a_model_make_the_kind():
    facts = TaskConfig(task="race", kind="choices", max_length=512, max_ending=100, temperature=1.5)
    assert build_kind(facts) == ChoiceKind(max_length=512, max_ending=100, temperature=1.5)
