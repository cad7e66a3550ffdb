"""Held-out dev sets and halves keep examples that share a text together."""

import pytest

from albert.errors import FileFormatError, InputError
from albert.tasks.classification import TextExample
from albert.tasks.multiple_choice import ChoiceExample
from albert.tasks.question_answering import Answer, SpanExample
from albert.tasks.splits import count_shared, halve_examples, hold_out
from albert.tasks.token_classification import TokenExample


def split(examples, share=0.1):
    return hold_out(tuple(examples), share=share, source="table")


def test_the_dev_set_is_a_fixed_random_share():
    examples = tuple(TextExample(str(n), f"text {n}", None, n % 2) for n in range(100))
    train, dev = split(examples, 0.2)
    assert split(examples, 0.2) == (train, dev)
    assert len(dev) == 20
    assert sorted((*train, *dev), key=lambda each: int(each.id)) == list(examples)
    assert list(train) == [each for each in examples if each not in dev]  # in the order of the table
    assert {each.label for each in dev} == {0, 1}


@pytest.mark.parametrize(
    ("examples", "num_dev"),
    [
        ([SpanExample(str(n), "who?", f"house {n // 5}") for n in range(200)], 20),
        # Articles are too large to hold out; contexts are not.
        ([SpanExample(str(n), "who?", f"house {n // 3}", title=f"town {n // 30}") for n in range(60)], 6),
        ([TextExample(str(n), f"premise {n // 3}", f"hypothesis {n}", 0) for n in range(60)], 6),
        ([TextExample(str(n), f"question {n}", f"answer {n // 2}", 0) for n in range(60)], 6),
        ([TextExample(str(n), f"text {n - 1}", f"text {n}", 0) for n in range(60) if n % 3], 4),
        ([TokenExample(str(n), ("the", f"dog{n // 2}"), (0, 1)) for n in range(60)], 6),
        ([ChoiceExample(str(n), "", f"who is {n // 2}?", ("a", "b"), 0) for n in range(60)], 6),
    ],
    ids=["context", "large articles", "first text", "second text", "either text", "words", "question"],
)
def test_examples_that_share_a_text_stay_together(examples, num_dev):
    train, dev = split(examples)
    assert len(dev) == num_dev
    assert count_shared(train, dev) == 0
    assert count_shared(examples[:1], examples[1:2]) == 1


@pytest.mark.parametrize(
    "examples",
    [
        [TextExample(str(n), f"text {n // 30}", f"hypothesis {n}", 0) for n in range(60)],
        [TextExample(str(n), f"premise {n // 3}", f"hypothesis {n % 3}", 0) for n in range(60)],
    ],
    ids=["two texts", "three hypotheses"],
)
def test_a_text_of_most_rows_does_not_tie_them_together(examples):
    train, dev = split(examples)
    assert (len(train), len(dev), count_shared(train, dev)) == (54, 6, 6)
    if examples[-1].first == "premise 19":
        assert {each.first for each in train}.isdisjoint(each.first for each in dev)


def build_questions(is_impossible):
    return [
        SpanExample(
            str(n), "who?", f"man {n}", () if is_impossible(n) else (Answer("man", 0),), is_impossible(n)
        )
        for n in range(100)
    ]


@pytest.mark.parametrize("share", [0.01, 0.1])
@pytest.mark.parametrize("is_rare_impossible", [True, False])
def test_the_dev_set_has_questions_with_and_without_an_answer(share, is_rare_impossible):
    """With one of them only, the best threshold answers nothing or everything."""
    for first in range(40):
        rare = {first, first + 50}
        train, dev = split(build_questions(lambda n, rare=rare: (n in rare) == is_rare_impossible), share)
        assert {each.is_impossible for each in dev} == {True, False}
        assert {each.is_impossible for each in train} == {True, False}
        assert len(dev) == max(2, round(share * 100))
        assert count_shared(train, dev) == 0


def test_the_only_impossible_question_is_held_out_by_chance_alone():
    """Otherwise none would be left for training."""
    num_held_out = 0
    for only in range(100):
        questions = build_questions(lambda n, only=only: n == only)
        num_held_out += questions[only] in split(questions)[1]
    assert num_held_out == 10


@pytest.mark.parametrize(("num_texts", "sizes", "num_shared"), [(1, (4, 6), 6), (2, (5, 5), 0)])
def test_some_examples_are_left_for_training(num_texts, sizes, num_shared):
    examples = [TextExample(str(n), f"text {n % num_texts}", None, n % 2) for n in range(10)]
    train, dev = split(examples, 0.6)
    assert (len(train), len(dev)) == sizes
    assert count_shared(train, dev) == num_shared


@pytest.mark.parametrize(("number", "share"), [(3, 0.1), (10, 0.99), (1, 0.5)])
def test_too_few_examples_for_a_dev_set_are_rejected(number, share):
    with pytest.raises(FileFormatError, match=rf"table: .*of {number} examples.*--dev"):
        split([TextExample(str(n), f"text {n}") for n in range(number)], share)


@pytest.mark.parametrize(
    ("examples", "group_of", "sizes"),
    [
        (
            [SpanExample(str(n), "who?", f"{n % 2} {n // 4}", title="abcdef"[n // 4]) for n in range(24)],
            lambda each: each.title,
            (12, 12),
        ),
        ([SpanExample(str(n), "who?", f"about {n // 2}") for n in range(24)], lambda e: e.context, (12, 12)),
        (
            [ChoiceExample(str(n), f"passage {n // 3}", "?", ("a", "b"), 0) for n in range(12)],
            lambda each: each.passage,
            (6, 6),
        ),
        (
            [TextExample(str(n), f"first {n}", f"second {n // 3}") for n in range(12)],
            lambda each: each.second,
            (6, 6),
        ),
        # Texts of all rows do not tie them together.
        (
            [TextExample(str(n), f"first {n // 2}", f"is it {n % 2}?") for n in range(12)],
            lambda each: each.first,
            (6, 6),
        ),
        ([TextExample(str(n), "same") for n in range(9)], lambda each: each.id, (4, 5)),
        ([ChoiceExample(str(n), "", "which?", ("a", "b"), 0) for n in range(9)], lambda e: e.id, (4, 5)),
    ],
    ids=["articles", "contexts", "passages", "second texts", "hypotheses", "one text", "one question"],
)
def test_halves_keep_groups_together(examples, group_of, sizes):
    first, second = halve_examples(examples, seed=2)
    assert (len(first), len(second)) == sizes
    assert sorted(first + second) == list(range(len(examples)))
    assert not {group_of(examples[row]) for row in first} & {group_of(examples[row]) for row in second}
    assert halve_examples(examples, seed=2) == (first, second)
    assert any(halve_examples(examples, seed=seed) != (first, second) for seed in range(3, 9))


def test_a_single_context_cannot_be_halved():
    with pytest.raises(InputError, match="all share a text"):
        halve_examples([SpanExample("1", "who ?", "a man")] * 3, seed=1)
