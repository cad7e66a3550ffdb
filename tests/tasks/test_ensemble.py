"""Choosing the members of an ensemble, halving examples, and merging what members say."""

import numpy as np
import pytest

from albert.errors import InputError
from albert.tasks.ensemble import choose_members, merge_members
from albert.tasks.examples import Answer, ChoiceExample, SpanExample, TextExample, halve_examples
from albert.tasks.kinds.texts import TextKind


def test_the_best_comes_first_and_then_what_helps_most():
    worth = {
        (0,): 60.0, (1,): 70.0, (2,): 65.0, (3,): 10.0,
        (1, 0): 71.0, (1, 2): 70.5, (1, 3): 69.0,
        (1, 0, 2): 71.0, (1, 0, 3): 70.0,
    }  # fmt: skip
    asked = []

    def score(places):
        asked.append(tuple(places))
        return worth[tuple(places)]

    assert choose_members(4, score) == ([1, 0], [70.0, 71.0])
    assert len(asked) == 4 + 3 + 2  # a third that does not help is not taken, and nothing after it is asked


def test_of_equals_the_first_is_enough():
    assert choose_members(3, lambda places: 50.0) == ([0], [50.0])


def test_all_are_taken_where_each_helps():
    assert choose_members(3, len)[0] == [0, 1, 2]


def test_rows_of_one_width_are_merged_at_once_to_the_same_answers():
    kind = TextKind(("a", "b", "c"), ("accuracy",))
    rng = np.random.default_rng(1)
    members = [list(rng.normal(size=(20, 3))) for _ in range(3)]
    merged = merge_members(kind, members)
    one_by_one = [kind.merge(answers) for answers in zip(*members, strict=True)]
    np.testing.assert_allclose(merged, one_by_one)
    assert merge_members(kind, members[:1]) == members[0]


def test_what_belongs_together_stays_in_one_half():
    spans = [
        SpanExample(
            f"{title}-{place}", "who ?", f"about {title} {place % 2}", (Answer("about", 0),), title=title
        )
        for title in "abcdef"
        for place in range(4)
    ]
    first, second = halve_examples(spans, seed=1)
    assert sorted(first + second) == list(range(24))
    assert not {spans[place].title for place in first} & {spans[place].title for place in second}
    one_article = [SpanExample(each.id, each.question, each.context) for each in spans]
    first, second = halve_examples(one_article, seed=1)
    assert not {spans[place].context for place in first} & {spans[place].context for place in second}
    passages = [ChoiceExample(str(place), f"passage {place // 3}", "?", ("a", "b"), 0) for place in range(12)]
    first, second = halve_examples(passages, seed=2)
    assert not {place // 3 for place in first} & {place // 3 for place in second}
    texts = [TextExample(str(place), "same") for place in range(9)]
    assert [len(half) for half in halve_examples(texts, seed=3)] == [4, 5]
    assert halve_examples(texts, seed=3) != halve_examples(texts, seed=4)


def test_pairs_are_halved_by_both_texts_and_a_hypothesis_of_all_rows_is_none():
    pairs = [TextExample(str(place), f"first {place}", f"second {place // 3}") for place in range(12)]
    first, second = halve_examples(pairs, seed=2)
    assert (len(first), len(second)) == (6, 6)
    assert not {place // 3 for place in first} & {place // 3 for place in second}
    tried = [TextExample(str(place), f"first {place // 2}", f"is it {place % 2}?") for place in range(12)]
    first, second = halve_examples(tried, seed=2)
    assert (len(first), len(second)) == (6, 6)
    assert not {place // 2 for place in first} & {place // 2 for place in second}
    asked = [ChoiceExample(str(place), "", "which is right?", ("a", "b"), 0) for place in range(9)]
    assert [len(half) for half in halve_examples(asked, seed=3)] == [4, 5]


def test_one_text_has_no_halves():
    with pytest.raises(InputError, match="cannot be halved"):
        halve_examples([SpanExample("1", "who ?", "a man")] * 3, seed=1)
