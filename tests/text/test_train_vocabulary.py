"""Vocabularies are trained with the published settings, reproducibly, from a bounded sample."""

import re
import unicodedata

import pytest
from sentencepiece import sentencepiece_model_pb2

from albert.errors import InputError
from albert.text.normalize import PUBLISHED, Normalization
from albert.text.train_vocabulary import (
    USER_SYMBOLS,
    SentenceSample,
    VocabularySettings,
    build_options,
    cut_bytes,
    limit_copies,
    run_trainer,
    train_sentencepiece,
)
from tests.conftest import rejects
from tests.text.conftest import LINES, TEXT

SMALL = VocabularySettings(size=150)


@pytest.fixture(scope="module")
def trained():
    return train_sentencepiece(TEXT, settings=SMALL)


def parse(model_bytes):
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model_bytes)
    return proto


def sample(texts, *, num_sentences=10**9, num_bytes=10**9, seed=0, rules=PUBLISHED) -> list[str]:
    settings = VocabularySettings(
        max_sample_sentences=num_sentences, max_sample_bytes=num_bytes, seed=seed, normalization=rules
    )
    found = SentenceSample(settings)
    for text in texts:
        found.read(text)
    return [sentence.decode() for sentence in found.take()]


def test_the_size_is_exact_and_the_special_tokens_have_the_published_ids(trained):
    assert trained.vocab_size == 150
    assert [trained.token(i) for i in range(5)] == ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    assert [trained.token(i) for i in range(5, 13)] == list(USER_SYMBOLS)


# The settings in the published 30k-clean.model.
PUBLISHED_TRAINER = {
    "model_type": 1, "pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1,
    "control_symbols": ["[CLS]", "[SEP]", "[MASK]"], "user_defined_symbols": list(USER_SYMBOLS),
    "character_coverage": pytest.approx(0.99995), "input_sentence_size": 10_000_000,
    "shuffle_input_sentence": True, "max_sentence_length": 4192, "max_sentencepiece_length": 16,
    "split_by_unicode_script": True, "split_by_number": True, "split_by_whitespace": True,
    "seed_sentencepiece_size": 1_000_000, "shrinking_factor": 0.75, "num_sub_iterations": 2,
    "hard_vocab_limit": True, "unk_piece": "<unk>", "pad_piece": "<pad>", "num_threads": 16,
}  # fmt: skip


def list_trainer(proto):
    return {name: getattr(proto.trainer_spec, name) for name in PUBLISHED_TRAINER}


def test_the_settings_are_the_published_ones(trained):
    assert list_trainer(parse(trained.vocab_bytes)) == PUBLISHED_TRAINER
    assert build_options(VocabularySettings())["vocab_size"] == 30_000


def test_the_published_vocabulary_has_these_settings_and_symbols(published_path, trained):
    published, ours = parse(published_path.read_bytes()), parse(trained.vocab_bytes)
    assert published.trainer_spec.vocab_size == 30_000
    assert list_trainer(published) == PUBLISHED_TRAINER
    first = [[(piece.piece, piece.type) for piece in model.pieces[:13]] for model in (ours, published)]
    assert first[0] == first[1]
    for name in ("name", "add_dummy_prefix", "remove_extra_whitespaces", "escape_whitespaces"):
        assert getattr(ours.normalizer_spec, name) == getattr(published.normalizer_spec, name), name


def test_the_same_texts_and_seed_give_the_same_bytes(trained):
    assert train_sentencepiece(iter(TEXT), settings=SMALL).vocab_bytes == trained.vocab_bytes


def test_the_text_is_normalized_before_training():
    lines = ["THE CAFÉ of René", "the ``CAFÉ'' of Åse"] * 30
    lower = train_sentencepiece(lines, settings=VocabularySettings(size=32))
    tokens = "".join(lower.token(i) for i in range(5, 32))
    assert tokens == unicodedata.normalize("NFC", tokens).lower()
    assert lower.unk_id not in lower.encode("THE CAFÉ").ids
    rules = Normalization(do_lower_case=False, keep_accents=True)
    cased = train_sentencepiece(lines, settings=VocabularySettings(size=32, normalization=rules))
    assert cased.options == rules
    assert cased.encode("CAFÉ").ids != cased.encode("cafe").ids
    assert cased.unk_id not in cased.encode("THE CAFÉ").ids


@pytest.mark.parametrize("size", [30_000, 20])
def test_a_size_that_does_not_fit_the_corpus_is_rejected_with_one_that_does(size):
    with pytest.raises(InputError, match=rf"{size:,} .* --size (\d+)") as caught:
        train_sentencepiece(TEXT, settings=VocabularySettings(size=size))
    suggested = int(re.search(r"--size (\d+)", str(caught.value))[1])
    assert train_sentencepiece(TEXT, settings=VocabularySettings(size=suggested)).vocab_size == suggested


def test_a_corpus_without_text_is_rejected():
    for texts in ([], ["", " \n\t\r\n"]):
        with rejects(InputError, "corpus"):
            train_sentencepiece(texts)


def test_repeated_text_is_removed_and_ordinary_text_is_kept():
    line = b"the ship left the harbour and the children watched it go"
    text = " ".join(f"w{i}{'abcdefgt'[i % 8]}" for i in range(200))
    assert limit_copies([line] * 1000) == [line]
    ordinary = [text.encode(), b"short", b"short", line, line]
    assert limit_copies(ordinary) is ordinary


GERMAN = ["Es war ein schöner Tag und schon spät.", "Über die Brücke führt kein Weg.", "Der Bär schläft."]


def test_a_warning_names_letters_that_lose_their_accents():
    warnings: list[str] = []
    train_sentencepiece(GERMAN * 10, settings=VocabularySettings(size=48), warn=warnings.append)
    (warning,) = warnings
    assert "10.3%" in warning
    assert "ä → a" in warning
    cased = VocabularySettings(size=48, normalization=Normalization(keep_accents=True))
    train_sentencepiece(GERMAN * 10, settings=cased, warn=warnings.append)
    english = [*(f"{i} {LINES[9]}" for i in range(60)), "the café"]
    train_sentencepiece(english, settings=VocabularySettings(size=44), warn=warnings.append)
    assert len(warnings) == 1


def test_long_lines_are_split_at_spaces_and_nothing_is_lost():
    words = [f"word{i}" for i in range(5000)]
    parts = sample([" ".join(words)])
    assert max(len(part) for part in parts) <= 4192
    assert sorted(" ".join(parts).split()) == sorted(words)
    chinese = "".join(chr(0x4E00 + i) for i in range(5000))  # no spaces, three bytes each
    parts = sample([chinese])
    assert max(len(part.encode()) for part in parts) <= 4192
    assert sorted("".join(parts)) == sorted(chinese)
    assert set("".join(sample(["각" * 3000]))) == set(unicodedata.normalize("NFKD", "각"))
    assert list(cut_bytes(b" a  b ", 2)) == [b"a", b"b"]


@pytest.mark.parametrize("bad", ["a\0b", "a\tb", "a▅b", "a\ud800b"])
def test_sentences_that_sentencepiece_would_skip_are_kept(bad):
    rules = Normalization(remove_space=False)
    assert len(sample([bad], rules=rules)) == 1
    settings = VocabularySettings(size=60, normalization=rules)
    tokenizer = train_sentencepiece([f"{bad} {line}" for line in LINES] * 5, settings=settings)
    assert "▁" in "".join(tokenizer.token(i) for i in range(13, 60))


def test_the_sample_is_bounded_and_uniform():
    lines = [f"{i:0>50}" for i in range(20_000)]
    few = sample(lines, num_sentences=500)
    assert len(set(few)) == 500
    small = sample(lines, num_bytes=50_000)
    assert len(set(small)) == 1000
    assert few == small[:500]  # the same draws, whatever the bound
    indices = [int(line) for line in small]
    assert indices != sorted(indices)
    quarters = [sum(index // 5000 == quarter for index in indices) for quarter in range(4)]
    assert all(abs(count - 250) < 5 * (1000 * 0.25 * 0.75) ** 0.5 for count in quarters)
    assert sample(lines, num_sentences=500) == few
    assert sample(lines, num_sentences=500, seed=1) != few


def test_an_interrupt_stops_the_trainer_at_once():
    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_trainer([b"a b c"] * 1000, options=build_options(SMALL), on_log=interrupt)
