"""Pairs are neighbours of one document; only the order, or the second document, is the secret."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from albert.errors import InputError
from albert.examples.batches import build_source
from albert.examples.pairs import build_pairs
from albert.examples.randomness import derive
from albert.examples.settings import ExampleSettings
from albert.settings import build_settings

from .conftest import random_documents, write_corpus
from .test_masking import within


def make(corpus, tokenizer, *, epochs=1, seed=0, **values):
    settings = build_settings(ExampleSettings, values={"max_length": 128, **values})
    source = build_source(corpus, tokenizer, settings=settings, seed=seed)
    return source, [source.build(np.arange(source.num_examples), epoch=epoch) for epoch in range(epochs)]


def iter_examples(source, batch):
    """(first segment, second segment, label) of each example, unmasked."""
    ids = batch.ids_T.copy()
    ids[batch.masked_M] = batch.targets_M
    for sequence, label in zip(np.split(ids, np.cumsum(batch.lengths)[:-1]), batch.labels_B, strict=True):
        borders = np.flatnonzero(sequence == source.table.sep_id)
        assert sequence[0] == source.table.cls_id
        assert borders[-1] == len(sequence) - 1
        yield sequence[1 : borders[0]], sequence[borders[0] + 1 : borders[-1]], int(label)


@pytest.fixture(scope="module")
def texts(corpus):
    """Every document's pieces as one text, so that a run of pieces can be looked up."""
    found = []
    for part in corpus.parts:
        for a, b in zip(part.document_starts[:-1], part.document_starts[1:], strict=True):
            pieces = part.tokens[part.sentence_starts[a] : part.sentence_starts[b]]
            found.append(" " + " ".join(map(str, pieces)) + " ")
    return found


def find(texts, pieces):
    """Where a run of pieces stands: (document, character)."""
    needle = " " + " ".join(map(str, pieces)) + " "
    for number, text in enumerate(texts):
        place = text.find(needle)
        if place >= 0:
            return number, place
    raise AssertionError("not in the corpus")


def test_half_of_the_pairs_are_swapped_and_both_halves_come_from_one_document(corpus, tokenizer, texts):
    source, batches = make(corpus, tokenizer)
    labels = batches[0].labels_B
    assert within(labels.sum(), len(labels), 0.5)
    for first, second, label in list(iter_examples(source, batches[0]))[:150]:
        if min(len(first), len(second)) < 3:
            continue  # too short to be found in one place only
        (document, place), (other, other_place) = find(texts, first), find(texts, second)
        assert document == other
        assert (place > other_place) == (label == 1)


def test_next_sentence_takes_half_of_the_seconds_from_another_document(corpus, tokenizer, texts):
    source, batches = make(corpus, tokenizer, objective="nsp", epochs=2)
    labels = np.concatenate([batch.labels_B for batch in batches])
    assert within(labels.sum(), len(labels), 0.5)
    for first, second, label in list(iter_examples(source, batches[0]))[:150]:
        if min(len(first), len(second)) < 3:
            continue
        (document, place), (other, other_place) = find(texts, first), find(texts, second)
        assert (document != other) == (label == 1)
        if label == 0:
            assert place < other_place


def test_without_a_sentence_objective_pairs_are_in_order_and_carry_no_label(corpus, tokenizer, texts):
    source, batches = make(corpus, tokenizer, objective="none")
    assert not batches[0].has_labels
    for first, second, label in list(iter_examples(source, batches[0]))[:60]:
        assert label == 0
        if min(len(first), len(second)) >= 3:
            assert find(texts, first) < find(texts, second)


def test_no_sequence_is_longer_than_asked_and_most_are_full(corpus, tokenizer):
    _, batches = make(corpus, tokenizer)
    assert batches[0].lengths.max() == 128
    assert batches[0].lengths.min() >= 5
    _, short = make(corpus, tokenizer, short_share=1.0)
    _, full = make(corpus, tokenizer, short_share=0.0)
    assert short[0].lengths.mean() < 0.7 * full[0].lengths.mean()


def test_single_sentences_are_pairs_of_neighbours(corpus, tokenizer, texts):
    source, batches = make(corpus, tokenizer, unit="sentences", max_length=512)
    assert batches[0].lengths.max() <= 2 * 40 + 3
    labels = batches[0].labels_B
    assert within(labels.sum(), len(labels), 0.5)
    for first, second, label in list(iter_examples(source, batches[0]))[:150]:
        in_order = np.concatenate([second, first] if label else [first, second])
        find(texts, in_order)  # one after the other in one document


def test_a_document_of_one_sentence_is_never_paired(tmp_path, tokenizer):
    alone = [6, 7, 9, 10] * 30
    small = write_corpus(tmp_path, [[alone]] * 50 + random_documents(50), tokenizer)
    for objective in ("sop", "nsp"):
        source, batches = make(small, tokenizer, objective=objective)
        assert batches[0].num_dropped > 20
        for first, second, label in iter_examples(source, batches[0]):
            lonely = [set(segment.tolist()) <= set(alone) for segment in (first, second)]
            assert not lonely[0] or min(len(first), len(second)) < 4
            assert not lonely[1] or label == 1  # the random second of next-sentence pairs may be such a one
    _, unlabelled = make(small, tokenizer, objective="none")
    assert unlabelled[0].num_dropped == 0


def test_a_window_of_one_sentence_takes_in_its_neighbour(tmp_path, tokenizer):
    """Sentences longer than the sequence: each window would be one, and becomes two, both of them cut."""
    documents = [[[6, 7] * 100, [9, 10] * 100]] * 20
    small = write_corpus(tmp_path, documents, tokenizer)
    source, batches = make(small, tokenizer, short_share=0.0)
    for first, second, label in iter_examples(source, batches[0]):
        assert {6, 7} == set((second if label else first).tolist())
        assert {9, 10} == set((first if label else second).tolist())
        assert abs(len(first) - len(second)) <= 1


def test_of_a_short_document_the_window_is_all(tmp_path, tokenizer):
    """Wherever in it the example was found: half of a review would be half of what there is to learn."""
    documents = random_documents(60, seed=3)
    short = [document for document in documents if sum(map(len, document)) <= 500 and len(document) > 1]
    assert len(short) > 10
    small = write_corpus(tmp_path, short, tokenizer)
    source, batches = make(small, tokenizer, max_length=512, short_share=0.0)
    sizes = {sum(map(len, document)) for document in short}
    for first, second, _ in iter_examples(source, batches[0]):
        assert len(first) + len(second) in sizes


@pytest.mark.parametrize("sizes", [(3000, 300), (300, 10), (2000, *[25] * 20)])
def test_beside_one_long_document_half_of_the_seconds_are_still_from_another(tmp_path, tokenizer, sizes):
    draw = np.random.default_rng(1)
    documents = [[(5 + draw.integers(0, 90, size=12)).tolist() for _ in range(size)] for size in sizes]
    _, batches = make(write_corpus(tmp_path, documents, tokenizer), tokenizer, objective="nsp", epochs=6)
    labels = np.concatenate([batch.labels_B for batch in batches])
    assert within(labels.sum(), len(labels), 0.5)


def test_next_sentence_over_a_single_document_is_refused(tmp_path, tokenizer):
    small = write_corpus(tmp_path, random_documents(1), tokenizer)
    with pytest.raises(InputError, match="one document"):
        make(small, tokenizer, objective="nsp")


def test_an_example_is_the_same_alone_and_in_any_batch(corpus, tokenizer):
    source, _ = make(corpus, tokenizer)
    together = source.build(np.array([5, 900, 17, 3]), epoch=2)
    rows = np.split(together.ids_T, np.cumsum(together.lengths)[:-1])
    for number, row in zip((5, 900, 17, 3), rows, strict=True):
        alone = source.build(np.array([number]), epoch=2)
        assert np.array_equal(alone.ids_T, row)
        assert not np.array_equal(alone.ids_T, source.build(np.array([number]), epoch=3).ids_T)


@pytest.mark.parametrize("objective", ["sop", "nsp"])
@pytest.mark.parametrize(
    "values", [{}, {"unit": "sentences"}, {"short_share": 1.0}, {"max_length": 512}], ids=str
)
def test_the_answer_cannot_be_guessed_from_the_cut(corpus, tokenizer, objective, values):
    """From the two lengths and whether each segment begins and ends with a sentence, nothing is learned.

    Of random segments next to nothing: a document that is hardly longer than a window cannot give one.
    """
    right, total = guess_order(corpus, tokenizer, num_pairs=60_000, values={"objective": objective, **values})
    noise = 4 * (0.25 / total) ** 0.5
    assert abs(right / total - 0.5) < (noise if objective == "sop" else 0.03)


@pytest.mark.parametrize("max_length", [64, 512])
def test_random_second_segments_begin_and_end_in_their_documents_as_true_ones_do(
    corpus, tokenizer, max_length
):
    """A true one never begins a document, and of a short document it is always the end."""
    settings = build_settings(ExampleSettings, values={"objective": "nsp", "max_length": max_length})
    positions = np.random.default_rng(3).integers(0, corpus.num_tokens - 1000, size=4000)
    pairs = build_pairs(corpus, positions, derive(np.uint64(3), np.arange(4000)), settings)
    begins, ends = (
        is_document_border(corpus, pairs.second.part, at) for at in (pairs.second.start, pairs.second.end)
    )
    true, random = (pairs.is_valid & (pairs.label == label) for label in (0, 1))
    assert not begins[true].any()
    assert not begins[random].any()
    assert abs(ends[true].mean() - ends[random].mean()) < 0.1


@pytest.mark.parametrize("unit", ["segments", "sentences"])
def test_a_random_second_segment_is_as_long_as_a_true_one(corpus, tokenizer, unit):
    _, batches = make(corpus, tokenizer, objective="nsp", unit=unit, epochs=4, short_share=0.0)
    lengths: list[list[int]] = [[], []]
    for batch in batches:
        seconds = np.add.reduceat(batch.segments_T, np.cumsum(batch.lengths) - batch.lengths)
        for label in (0, 1):
            lengths[label] += seconds[batch.labels_B == label].tolist()
    true, random = (np.array(found) for found in lengths)
    assert abs(true.mean() - random.mean()) < 0.15 * true.mean()
    assert abs(np.median(true) - np.median(random)) < 0.2 * np.median(true)


def guess_order(corpus, tokenizer, *, num_pairs, max_length=128, seed=9, values=None):
    """Train a classifier on pairs of one half of the corpus; right answers and pairs of the other half.

    The halves have no text in common: the same window seen in both would be recognised by its lengths.
    """
    sets = []
    for half in (0, 1):
        draw = np.random.default_rng(seed + half)
        middle = corpus.num_tokens // 2
        positions = half * middle + draw.integers(0, middle - 20 * max_length, size=num_pairs // 2)
        settings = {"max_length": max_length, **(values or {})}
        sets.append(order_features(corpus, tokenizer, positions, settings, seed=seed + half))
    (features, labels), (unseen, truth) = sets
    classifier = HistGradientBoostingClassifier(max_iter=60, random_state=0).fit(features, labels)
    return int((classifier.predict(unseen) == truth).sum()), len(truth)


def order_features(corpus, tokenizer, positions, values, *, seed):
    """Lengths and borders of each segment, read off the corpus by the ranges that the pairs are made of."""
    settings = build_settings(ExampleSettings, values=values)
    source = build_source(corpus, tokenizer, settings=settings, seed=seed)
    keys = derive(np.uint64(seed), np.arange(len(positions)))
    pairs = build_pairs(corpus, positions, keys, source.settings)
    columns = []
    for ranges in (pairs.first, pairs.second):
        columns.append(ranges.length)
        columns += [is_border(corpus, ranges.part, offsets) for offsets in (ranges.start, ranges.end)]
    return np.stack(columns, axis=1)[pairs.is_valid], pairs.label[pairs.is_valid]


def is_document_border(corpus, parts, offsets):
    found = np.zeros(len(parts), dtype=bool)
    for number in np.unique(parts):
        here, part = parts == number, corpus.parts[number]
        found[here] = np.isin(offsets[here], part.sentence_starts[part.document_starts])
    return found


def is_border(corpus, parts, offsets):
    found = np.zeros(len(parts), dtype=bool)
    for number in np.unique(parts):
        here = parts == number
        starts = corpus.parts[number].sentence_starts
        found[here] = starts[np.searchsorted(starts, offsets[here])] == offsets[here]
    return found
