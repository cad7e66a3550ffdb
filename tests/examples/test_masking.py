"""What is masked has the published shares, within binomial bounds, and never touches a special token."""

import numpy as np
import pytest

from albert.examples.batches import build_source
from albert.examples.settings import ExampleSettings
from albert.settings import build_settings


def within(count: float, total: float, share: float, deviations: float = 5) -> bool:
    """Whether a count out of a total is what a binomial of that share gives."""
    return bool(abs(count - share * total) <= deviations * (total * share * (1 - share)) ** 0.5)


@pytest.fixture(scope="module", params=["ngram", "token"])
def made(request, corpus, tokenizer):
    settings = build_settings(ExampleSettings, values={"max_length": 128, "masking": request.param})
    source = build_source(corpus, tokenizer, settings=settings, seed=5)
    batches = [source.build(np.arange(source.num_examples), epoch=epoch) for epoch in range(12)]
    return request.param, source, batches


def test_fifteen_per_cent_of_the_pieces_are_predicted(made):
    _, _, batches = made
    predicted = sum(len(batch.masked_M) for batch in batches)
    pieces = sum(int((batch.lengths - 3).sum()) for batch in batches)
    assert pieces > 500_000
    assert within(predicted, pieces, 0.15)


def test_spans_of_one_two_and_three_words_come_six_to_three_to_two(made):
    masking, _, batches = made
    words = np.concatenate([batch.spans.num_words for batch in batches])
    if masking == "token":
        assert set(words) == {1}
        return
    # A row of fewer words than a span needs gives it all it has: seen apart from the rest.
    for count, share in ((1, 6 / 11), (2, 3 / 11), (3, 2 / 11)):
        assert within(int((words == count).sum()), len(words), share)


def test_of_the_chosen_pieces_80_are_masked_10_random_10_kept(made):
    _, source, batches = made
    shown = np.concatenate([batch.ids_T[batch.masked_M] for batch in batches])
    target = np.concatenate([batch.targets_M for batch in batches])
    is_mask, is_kept = shown == source.table.mask_id, shown == target
    assert within(is_mask.sum(), len(shown), 0.8)
    assert within(is_kept.sum(), len(shown), 0.1 + 0.1 / len(source.table.ordinary))
    random = shown[~is_mask & ~is_kept]
    assert random.min() >= 5  # ordinary pieces only
    assert len(np.unique(random)) > 0.9 * len(source.table.ordinary)


def test_no_span_touches_a_special_token_or_another_span(made):
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


def test_spans_are_whole_words(made, tokenizer):
    masking, source, batches = made
    if masking == "token":
        return
    batch = batches[0]
    ids = batch.ids_T.copy()
    ids[batch.masked_M] = batch.targets_M
    for start, end, num_words in zip(batch.spans.start, batch.spans.end, batch.spans.num_words, strict=True):
        begins = source.table.begins_word[ids[start:end]]
        row_begins = ids[start - 1] in (source.table.cls_id, source.table.sep_id)
        assert begins[0] or row_begins  # what a cut left of a word counts as one
        assert begins[1:].sum() + 1 == num_words
        assert ids[end] == source.table.sep_id or source.table.begins_word[ids[end]]
