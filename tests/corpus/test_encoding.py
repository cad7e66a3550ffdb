"""Documents on their way into a shard: whole, in their order, in record batches of a bounded size."""

from collections import Counter

from albert.data import encoding
from albert.data.paragraphs import RawDocument
from albert.data.units import Tally, iter_parts
from albert.text.folder import load_tokenizer


def test_batches_are_bounded_and_hold_whole_documents(tiny_folder, monkeypatch):
    tokenizer = load_tokenizer(tiny_folder)
    monkeypatch.setattr(encoding, "_BATCH_SENTENCES", 1)
    monkeypatch.setattr(encoding, "MAX_BATCH_PIECES", 10)
    texts = [f"The ship left the harbour in {year}." for year in range(1980, 2000)]
    tally = Tally(Counter())
    parts = list(iter_parts([RawDocument([text]) for text in texts], tokenizer, language="en", tally=tally))
    assert len(parts) > 5
    assert [piece for part in parts for piece in part.pieces.tolist()] == [
        piece for ids in tokenizer.encode_ids(texts) for piece in ids
    ]
    longest = max(map(len, tokenizer.encode_ids(texts)))
    assert all(10 <= len(part.pieces) < 10 + longest for part in parts[:-1])
    assert sum(len(part.document_starts) - 1 for part in parts) == len(texts)
    assert tally.num_characters == sum(map(len, texts))
