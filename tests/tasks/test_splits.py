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
        ([TextExample(str(n), f"text {n - 1}", f"text {n}", 0) for n in range(60) if n % 3], 4),
        ([TokenExample(str(n), ("the", f"dog{n // 2}"), (0, 1)) for n in range(60)], 6),
        ([ChoiceExample(str(n), "", f"who is {n // 2}?", ("a", "b"), 0) for n in range(60)], 6),
    ],
    ids=["context", "large articles", "either text", "words", "question"],
)
def test_examples_that_share_a_text_stay_together(examples, num_dev):
    train, dev = split(examples)
    assert len(dev) == num_dev
    assert count_shared(train, dev) == 0
    assert count_shared(examples[:1], examples[1:2]) == 1


@pytest.mark.parametrize("is_rare_impossible", [True, False])
def test_the_dev_set_has_questions_with_and_without_an_answer(is_rare_impossible):
    """With one of them only, the best threshold answers nothing or everything."""
    for first in range(40):
        examples = []
        for n in range(100):
            is_impossible = (n in (first, first + 50)) == is_rare_impossible
            answers = () if is_impossible else (Answer("man", 0),)
            examples.append(SpanExample(str(n), "who?", f"man {n}", answers, is_impossible))
        for part in split(examples):
            assert {each.is_impossible for each in part} == {True, False}


@pytest.mark.parametrize(("number", "share"), [(3, 0.1), (10, 0.99), (1, 0.5)])
def test_too_few_examples_for_a_dev_set_are_rejected(number, share):
    with pytest.raises(FileFormatError, match=rf"table: .*of {number} examples.*--dev"):
        split([TextExample(str(n), f"text {n}") for n in range(number)], share)


@pytest.mark.parametrize(
    ("examples", "group_of", "sizes"),
    [
        ([SpanExample(str(n), "who?", str(n), title="abcdef"[n // 4]) for n in range(24)],
         lambda each: each.title, (12, 12)),
        ([ChoiceExample(str(n), f"passage {n // 3}", "?", ("a", "b"), 0) for n in range(12)],
         lambda each: each.passage, (6, 6)),
        # Texts of most rows do not tie them together.
        ([TextExample(str(n), f"first {n // 2}", f"is it {n % 2}?") for n in range(12)],
         lambda each: each.first, (6, 6)),
        ([TextExample(str(n), "same") for n in range(9)], lambda each: each.id, (4, 5)),
    ],
    ids=["articles", "passages", "hypotheses", "one text"],
)  # fmt: skip
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
