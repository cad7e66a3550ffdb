"""Batches built ahead are those built at once; an example can be shown."""

import multiprocessing
from typing import get_args

import numpy as np
import pytest

from albert.errors import InputError
from albert.examples.batches import (
    ANSWERS,
    TokenView,
    build_source,
    describe_example,
    format_segment,
    iter_steps,
)
from albert.examples.settings import PAIR_OBJECTIVES, ExampleSettings, Objective
from albert.model.heads import HEADS
from albert.pretrained.names import ROWS
from albert.settings import build_settings


def steps(corpus, tokenizer, *, num_workers, first_step=0, num_steps=12):
    settings = build_settings(ExampleSettings, values={"max_length": 64})
    source = build_source(corpus, tokenizer, settings=settings, seed=1)
    return iter_steps(
        source, batch_size=1000, first_step=first_step, num_steps=num_steps, num_workers=num_workers
    )


def flat(made):
    return [
        [(batch.ids_T.tolist(), batch.labels_B.tolist(), batch.masked_M.tolist()) for batch in step]
        for step in made
    ]


def test_zero_one_and_four_workers_make_the_same(corpus, tokenizer):
    expected = flat(steps(corpus, tokenizer, num_workers=0))
    assert len(expected) == 12
    assert any(len(step) == 2 for step in expected)  # an epoch ends inside a step
    for workers in (1, 4):
        assert flat(steps(corpus, tokenizer, num_workers=workers)) == expected


def test_starting_later_continues_the_same_row(corpus, tokenizer):
    whole = flat(steps(corpus, tokenizer, num_workers=0))
    assert flat(steps(corpus, tokenizer, num_workers=1, first_step=7, num_steps=5)) == whole[7:]


def test_workers_end_with_the_iteration(corpus, tokenizer):
    iterator = steps(corpus, tokenizer, num_workers=2, num_steps=1000)
    batches = next(iterator)
    assert np.all(batches[0].lengths <= 64)
    assert multiprocessing.active_children()
    iterator.close()
    for child in multiprocessing.active_children():
        child.join(timeout=10)
    assert not multiprocessing.active_children()


@pytest.fixture(scope="module")
def source(corpus, tokenizer):
    return build_source(
        corpus, tokenizer, settings=build_settings(ExampleSettings, values={"max_length": 64})
    )


def test_both_segments_are_spelled_out_with_what_is_predicted(source, tokenizer):
    view = describe_example(source, tokenizer, 7)
    pieces = view.first + view.second
    assert len(pieces) + 3 == view.num_tokens
    assert sum(piece.span > 0 for piece in pieces) == view.num_predicted > 0
    for piece in pieces:
        assert piece.shown == piece.original or piece.span
        assert piece.original.startswith(("p", "##p"))
    assert view.answer.startswith("swapped" if view.label else "in the order")


def test_spans_stand_in_braces():
    pieces = (
        TokenView("a", "a", 0),
        TokenView("[MASK]", "b", 1),
        TokenView("c", "c", 1),
        TokenView("[MASK]", "d", 2),
    )
    assert format_segment(pieces) == "a {[MASK] c = b c} {[MASK] = d}"


def test_a_number_outside_the_epoch_is_refused(source, tokenizer):
    with pytest.raises(InputError, match=r"must be from 0 to \d+"):
        describe_example(source, tokenizer, 10**9)


@pytest.mark.parametrize("name", PAIR_OBJECTIVES)
def test_an_objective_has_a_head_whose_weights_are_saved_by_name(name):
    assert (HEADS[name].num_outputs, HEADS[name].is_pooled) == (2, True)
    (row,) = [row for row in ROWS if row.ours.startswith(f"heads.{name}.")]
    assert row.albert
    assert row.bert


@pytest.mark.parametrize("name", get_args(Objective))
def test_a_person_is_told_what_the_answer_means(name):
    first, second = ANSWERS[name]
    assert first
    assert (first == second) == (name == "none")
