"""Pairs are neighbors in one document; only the order, or the second document, depends on the label."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from albert.errors import InputError
from albert.examples.batches import build_source
from albert.examples.pairs import build_pairs
from albert.examples.randomness import derive
from albert.examples.settings import ExampleSettings
from albert.settings import build_settings
from tests.conftest import rejects

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
    """The ids of every document as one string, to search in."""
    found = []
    for part in corpus.parts:
        for a, b in zip(part.document_starts[:-1], part.document_starts[1:], strict=True):
            ids = part.tokens[part.sentence_starts[a] : part.sentence_starts[b]]
            found.append(" " + " ".join(map(str, ids)) + " ")
    return found


def find(texts, ids):
    """The (document, offset) of a segment in the corpus."""
    needle = " " + " ".join(map(str, ids)) + " "
    for number, text in enumerate(texts):
        offset = text.find(needle)
        if offset >= 0:
            return number, offset
    raise AssertionError("not in the corpus")


def find_pairs(texts, source, batch):
    """The places of both segments and the label of 150 pairs that are long enough to be unique."""
    for first, second, label in list(iter_examples(source, batch))[:150]:
        if min(len(first), len(second)) >= 3:
            yield find(texts, first), find(texts, second), label


def test_half_of_the_pairs_of_one_document_are_swapped(corpus, tokenizer, texts):
    source, (batch,) = make(corpus, tokenizer)
    assert within(batch.labels_B.sum(), len(batch.labels_B), 0.5)
    for first, second, label in find_pairs(texts, source, batch):
        assert first[0] == second[0]
        assert (first > second) == (label == 1)


def test_half_of_the_second_segments_of_nsp_are_from_another_document(corpus, tokenizer, texts):
    source, batches = make(corpus, tokenizer, objective="nsp", epochs=2)
    labels = np.concatenate([batch.labels_B for batch in batches])
    assert within(labels.sum(), len(labels), 0.5)
    for first, second, label in find_pairs(texts, source, batches[0]):
        assert (first[0] != second[0]) == (label == 1)
        assert label == 1 or first < second


def test_without_a_sentence_objective_pairs_are_in_order_without_labels(corpus, tokenizer, texts):
    source, (batch,) = make(corpus, tokenizer, objective="none")
    assert not batch.has_labels
    for first, second, label in find_pairs(texts, source, batch):
        assert label == 0
        assert first < second


def test_no_sequence_is_longer_than_max_length_and_most_are_full(corpus, tokenizer):
    _, batches = make(corpus, tokenizer)
    assert batches[0].lengths.max() == 128
    assert batches[0].lengths.min() >= 5
    _, short = make(corpus, tokenizer, short_share=1.0)
    _, full = make(corpus, tokenizer, short_share=0.0)
    assert short[0].lengths.mean() < 0.7 * full[0].lengths.mean()


def test_single_sentences_are_pairs_of_neighbors(corpus, tokenizer, texts):
    source, (batch,) = make(corpus, tokenizer, unit="sentences", max_length=512)
    assert batch.lengths.max() <= 2 * 40 + 3
    assert within(batch.labels_B.sum(), len(batch.labels_B), 0.5)
    for first, second, label in list(iter_examples(source, batch))[:150]:
        find(texts, np.concatenate([second, first] if label else [first, second]))


def test_a_document_of_one_sentence_is_never_paired(tmp_path, tokenizer):
    alone = [6, 7, 9, 10] * 30
    small = write_corpus(tmp_path, [[alone]] * 50 + random_documents(50), tokenizer)
    for objective in ("sop", "nsp"):
        source, batches = make(small, tokenizer, objective=objective)
        assert batches[0].num_dropped > 20
        for first, second, label in iter_examples(source, batches[0]):
            lonely = [set(segment.tolist()) <= set(alone) for segment in (first, second)]
            assert not lonely[0] or min(len(first), len(second)) < 4
            assert not lonely[1] or label == 1  # it may be the random second segment of nsp
    _, unlabelled = make(small, tokenizer, objective="none")
    assert unlabelled[0].num_dropped == 0


def test_sentences_longer_than_the_sequence_are_truncated_to_pairs(tmp_path, tokenizer):
    documents = [[[6, 7] * 100, [9, 10] * 100]] * 20
    small = write_corpus(tmp_path, documents, tokenizer)
    source, batches = make(small, tokenizer, short_share=0.0)
    for first, second, label in iter_examples(source, batches[0]):
        assert {6, 7} == set((second if label else first).tolist())
        assert {9, 10} == set((first if label else second).tolist())
        assert abs(len(first) - len(second)) <= 1


def test_an_example_has_all_of_a_short_document(tmp_path, tokenizer):
    documents = random_documents(60, seed=3)
    short = [document for document in documents if sum(map(len, document)) <= 500 and len(document) > 1]
    assert len(short) > 10
    small = write_corpus(tmp_path, short, tokenizer)
    source, batches = make(small, tokenizer, max_length=512, short_share=0.0)
    sizes = {sum(map(len, document)) for document in short}
    for first, second, _ in iter_examples(source, batches[0]):
        assert len(first) + len(second) in sizes


@pytest.mark.parametrize("sizes", [(3000, 300), (300, 10), (2000, *[25] * 20)])
def test_with_one_long_document_half_of_the_second_segments_are_from_another(tmp_path, tokenizer, sizes):
    draw = np.random.default_rng(1)
    documents = [[(5 + draw.integers(0, 90, size=12)).tolist() for _ in range(size)] for size in sizes]
    _, batches = make(write_corpus(tmp_path, documents, tokenizer), tokenizer, objective="nsp", epochs=6)
    labels = np.concatenate([batch.labels_B for batch in batches])
    assert within(labels.sum(), len(labels), 0.5)


def test_nsp_rejects_a_single_document(tmp_path, tokenizer):
    small = write_corpus(tmp_path, random_documents(1), tokenizer)
    with rejects(InputError, "one document"):
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
def test_the_label_cannot_be_predicted_from_lengths_and_borders(corpus, tokenizer, objective, values):
    """The features are both lengths and whether each segment begins and ends with a sentence.

    For nsp a small effect remains: a document hardly longer than a window cannot give a random segment.
    """
    right, total = guess_order(corpus, tokenizer, num_pairs=60_000, values={"objective": objective, **values})
    noise = 4 * (0.25 / total) ** 0.5
    assert abs(right / total - 0.5) < (noise if objective == "sop" else 0.03)


@pytest.mark.parametrize("max_length", [64, 512])
def test_random_second_segments_begin_and_end_a_document_as_often_as_true_ones(corpus, tokenizer, max_length):
    """A true one never begins a document, and that of a short document ends it."""
    settings = build_settings(ExampleSettings, values={"objective": "nsp", "max_length": max_length})
    positions = np.random.default_rng(3).integers(0, corpus.num_tokens - 1000, size=4000)
    pairs = build_pairs(corpus, positions, derive(np.uint64(3), np.arange(4000)), settings)
    begins, ends = (
        is_border(corpus, pairs.second.part, at, of_documents=True)
        for at in (pairs.second.start, pairs.second.end)
    )
    true, random = (pairs.is_valid & (pairs.label == label) for label in (0, 1))
    assert not begins[true].any()
    assert not begins[random].any()
    assert abs(ends[true].mean() - ends[random].mean()) < 0.1


def guess_order(corpus, tokenizer, *, num_pairs, max_length=128, seed=9, values=None):
    """Train a classifier on pairs of one half of the corpus; return its correct and all pairs of the other.

    The halves have no text in common, because a window could be recognized by its lengths.
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
    """Lengths and borders of each segment, and the labels."""
    settings = build_settings(ExampleSettings, values=values)
    source = build_source(corpus, tokenizer, settings=settings, seed=seed)
    keys = derive(np.uint64(seed), np.arange(len(positions)))
    pairs = build_pairs(corpus, positions, keys, source.settings)
    columns = []
    for ranges in (pairs.first, pairs.second):
        columns.append(ranges.length)
        columns += [is_border(corpus, ranges.part, offsets) for offsets in (ranges.start, ranges.end)]
    return np.stack(columns, axis=1)[pairs.is_valid], pairs.label[pairs.is_valid]


def is_border(corpus, parts, offsets, *, of_documents=False):
    found = np.zeros(len(parts), dtype=bool)
    for number in np.unique(parts):
        here, part = parts == number, corpus.parts[number]
        starts = part.sentence_starts[part.document_starts] if of_documents else part.sentence_starts
        found[here] = np.isin(offsets[here], starts)
    return found
