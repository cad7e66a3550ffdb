"""On the novels: the published shares within binomial bounds, and an order that lengths do not reveal."""

import numpy as np
import pytest

from albert.data.corpus import open_corpus
from albert.data.prepare import prepare_corpus
from albert.examples.batches import build_source
from albert.examples.settings import ExampleSettings
from albert.settings import build_settings
from albert.text.folder import load_tokenizer
from tests.real_data import find_vocabulary, unpack

from .test_masking import check_shares, within
from .test_pairs import guess_order

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def novels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("novels")
    unpack("novels", folder / "texts")
    vocab = find_vocabulary()
    prepare_corpus([folder / "texts"], vocab=vocab, out=folder / "corpus", num_workers=2)
    return open_corpus(folder / "corpus"), load_tokenizer(vocab)


@pytest.mark.parametrize("max_length", [128, 512])
def test_the_shares_are_the_published_ones(novels, max_length):
    corpus, tokenizer = novels
    settings = build_settings(ExampleSettings, values={"max_length": max_length})
    source = build_source(corpus, tokenizer, settings=settings)
    batches = [
        source.build(np.arange(start, min(start + 4096, source.num_examples)), epoch=0)
        for start in range(0, source.num_examples, 4096)
    ]
    assert sum(int(batch.lengths.sum()) for batch in batches) > 10_000_000
    check_shares(source, batches, deviations=3)
    labels = np.concatenate([batch.labels_B for batch in batches])
    assert within(labels.sum(), len(labels), 0.5, deviations=3)


@pytest.mark.parametrize("max_length", [128, 512])
def test_the_order_cannot_be_predicted_from_lengths_and_borders(novels, max_length):
    """Trained on 100,000 pairs and tested on 100,000: the 95% interval is below 51%."""
    corpus, tokenizer = novels
    right, total = guess_order(corpus, tokenizer, num_pairs=200_000, max_length=max_length)
    share = right / total
    assert total == 100_000
    assert share + 1.96 * (share * (1 - share) / total) ** 0.5 < 0.51
