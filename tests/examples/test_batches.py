"""Batches are the same with any number of workers; an example can be shown."""

import multiprocessing

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
from albert.examples.settings import PAIR_OBJECTIVES, ExampleSettings
from albert.model.heads import HEADS
from albert.pretrained.names import ROWS
from albert.settings import build_settings
from tests.conftest import rejects


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


def test_batches_are_the_same_with_any_number_of_workers_and_from_any_step(corpus, tokenizer):
    expected = flat(steps(corpus, tokenizer, num_workers=0))
    assert len(expected) == 12
    assert any(len(step) == 2 for step in expected)  # an epoch ends inside a step
    for workers in (1, 4):
        assert flat(steps(corpus, tokenizer, num_workers=workers)) == expected
    assert flat(steps(corpus, tokenizer, num_workers=1, first_step=7, num_steps=5)) == expected[7:]


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


def test_both_segments_are_shown_with_their_predictions(source, tokenizer):
    view = describe_example(source, tokenizer, 7)
    tokens = view.first + view.second
    assert len(tokens) + 3 == view.num_tokens
    assert sum(token.span > 0 for token in tokens) == view.num_predicted > 0
    for token in tokens:
        assert token.shown == token.original or token.span
        assert token.original.startswith(("p", "##p"))
    assert view.answer == ANSWERS["sop"][view.label]
    with rejects(InputError, source.num_examples - 1):
        describe_example(source, tokenizer, 10**9)


def test_spans_are_shown_in_braces():
    tokens = [("a", "a", 0), ("[MASK]", "b", 1), ("c", "c", 1), ("[MASK]", "d", 2)]
    views = tuple(TokenView(*token) for token in tokens)
    assert format_segment(views) == "a {[MASK] c = b c} {[MASK] = d}"


@pytest.mark.parametrize("name", PAIR_OBJECTIVES)
def test_an_objective_has_a_head_names_of_its_weights_and_answers(name):
    assert (HEADS[name].num_outputs, HEADS[name].is_pooled) == (2, True)
    (row,) = [row for row in ROWS if row.ours.startswith(f"heads.{name}.")]
    assert row.albert
    assert row.bert
    assert len(set(ANSWERS[name])) == 2
