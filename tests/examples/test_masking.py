"""Masking has the published shares, within binomial bounds, and never changes a special token."""

import numpy as np
import pytest

from albert.examples.batches import build_source
from albert.examples.settings import ExampleSettings
from albert.settings import build_settings


def within(count: float, total: float, share: float, deviations: float = 5) -> bool:
    """Whether a count is within so many standard deviations of a binomial."""
    return bool(abs(count - share * total) <= deviations * (total * share * (1 - share)) ** 0.5)


def check_shares(source, batches, *, masking: str = "ngram", deviations: float = 5) -> None:
    """15% are predicted; of these 80% are masked, 10% random, 10% kept; spans are 6:3:2 words long."""
    num_tokens = sum(int((batch.lengths - 3).sum()) for batch in batches)
    shown = np.concatenate([batch.ids_T[batch.masked_M] for batch in batches])
    target = np.concatenate([batch.targets_M for batch in batches])
    is_mask, is_kept = shown == source.table.mask_id, shown == target
    assert num_tokens > 500_000
    assert within(len(target), num_tokens, 0.15, deviations)
    assert within(is_mask.sum(), len(shown), 0.8, deviations)
    assert within(is_kept.sum(), len(shown), 0.1 + 0.1 / len(source.table.ordinary), deviations)
    assert np.isin(shown[~is_mask & ~is_kept], source.table.ordinary).all()
    words = np.concatenate([batch.spans.num_words for batch in batches])
    if masking == "token":
        assert set(words) == {1}
        return
    for count, share in ((1, 6 / 11), (2, 3 / 11), (3, 2 / 11)):
        assert within(int((words == count).sum()), len(words), share, deviations)


@pytest.fixture(scope="module", params=["ngram", "token"])
def made(request, corpus, tokenizer):
    settings = build_settings(ExampleSettings, values={"max_length": 128, "masking": request.param})
    source = build_source(corpus, tokenizer, settings=settings, seed=5)
    batches = [source.build(np.arange(source.num_examples), epoch=epoch) for epoch in range(12)]
    return request.param, source, batches


def test_the_shares_are_the_published_ones(made):
    masking, source, batches = made
    check_shares(source, batches, masking=masking)
    shown = np.concatenate([batch.ids_T[batch.masked_M] for batch in batches])
    assert len(np.unique(shown)) > 0.9 * len(source.table.ordinary)


def test_no_span_contains_a_special_token_or_touches_another_span(made):
    masking, _, batches = made
    for batch in batches[:3]:
        assert batch.targets_M.min() >= 5
        assert np.all(np.diff(batch.masked_M) > 0)
        assert np.all(batch.spans.start < batch.spans.end)
        if masking == "ngram":
            assert np.all(batch.spans.start[1:] > batch.spans.end[:-1])
        starts = np.cumsum(batch.lengths) - batch.lengths
        inside = np.searchsorted(starts, batch.spans.start, side="right")
        assert np.array_equal(inside, np.searchsorted(starts, batch.spans.end - 1, side="right"))


def test_spans_are_complete_words(made, tokenizer):
    masking, source, batches = made
    if masking == "token":
        return
    batch = batches[0]
    ids = batch.ids_T.copy()
    ids[batch.masked_M] = batch.targets_M
    for start, end, num_words in zip(batch.spans.start, batch.spans.end, batch.spans.num_words, strict=True):
        begins = source.table.begins_word[ids[start:end]]
        row_begins = ids[start - 1] in (source.table.cls_id, source.table.sep_id)
        assert begins[0] or row_begins  # a truncated word counts as one
        assert begins[1:].sum() + 1 == num_words
        assert ids[end] == source.table.sep_id or source.table.begins_word[ids[end]]
