"""Batches made ahead are the batches made on the spot, and workers leave when they are no longer needed."""

import multiprocessing

import numpy as np

from albert.examples.loader import iter_steps
from albert.examples.settings import ExampleSettings
from albert.examples.source import build_source
from albert.settings import build_settings


def steps(corpus, tokenizer, *, num_workers, first_step=0, num_steps=12):
    settings = build_settings(ExampleSettings, values={"max_length": 64})
    source = build_source(corpus, tokenizer, settings=settings, seed=1)
    return iter_steps(
        source, batch_size=1000, first_step=first_step, num_steps=num_steps, num_workers=num_workers
    )


def flat(made):
    return [
        [(batch.ids_T.tolist(), batch.labels_B.tolist(), batch.places_M.tolist()) for batch in step]
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
