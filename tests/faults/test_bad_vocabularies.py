"""Vocabularies that are damaged, or of another model, are rejected with the token and the file."""

import shutil
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import pytest

import albert
from albert.errors import WeightsError
from albert.model.albert_model import build_model
from albert.model.config import ModelConfig
from albert.pretrained.folder import check_vocabulary, load_model, save_model
from tests.conftest import WORDS, read_tree, rejects, write_vocabulary
from tests.faults.damages import NOISE, Damage, check_rejected, damages, remove, write


def keep_only(name: str, content: bytes) -> Damage:
    def damage(folder: Path) -> None:
        (folder / "vocab.txt").unlink()
        (folder / name).write_bytes(content)

    return damage


@damages(
    (lambda f: write_vocabulary(f / "vocab.txt", [*WORDS, "more"]), str(len(WORDS) + 1), str(len(WORDS))),
    (lambda f: write_vocabulary(f / "vocab.txt", [*WORDS[:-1], "ship"]), "vocab.txt", "'ship'"),
    (
        lambda f: write_vocabulary(f / "vocab.txt", WORDS[5:]),
        "vocab.txt",
        "[PAD], [UNK], [CLS], [SEP], [MASK]",
    ),
    (write("vocab.txt", b""), "vocab.txt"),
    (write("vocab.txt", b"\xff\xfe"), "vocab.txt", "UTF-8"),
    (write("spiece.model", NOISE), "spiece.model"),
    (write("added_tokens.json", b'{"[NEW]": "5"}'), "download"),
    (write("tokenizer.json", b'{"added_tokens": [7]}'), "download"),
    (write("tokenizer_config.json", b'{"added_tokens_decoder": {"x": "[NEW]"}}'), "download"),
    (keep_only("tokenizer.json", b'{"model": {"type": "WordPiece"}, "normalizer": "x"}'), "download"),
    (
        write("tokenizer_config.json", b'{"do_lower_case": "yes"}'),
        "tokenizer_config.json",
        "do_lower_case is 'yes'",
    ),
)
def test_a_damaged_vocabulary_is_rejected_and_nothing_is_written(damage, values, run_albert, tiny_copy):
    check_rejected(damage, values, run_albert, tiny_copy)


@pytest.mark.parametrize(
    ("num_tokens", "num_rows", "is_accepted"),
    [(30_000, 30_127, True), (31_102, 32_102, True), (31_102, 33_000, False), (30_000, 29_999, False)],
)
def test_up_to_a_twentieth_of_the_table_may_be_unused(num_tokens, num_rows, is_accepted):
    """The published Italian BERTs have such tables."""
    with nullcontext() if is_accepted else rejects(WeightsError, num_rows):
        check_vocabulary(ModelConfig(vocab_size=num_rows), Mock(vocab_size=num_tokens))


def test_a_vocabulary_much_smaller_than_the_table_is_rejected(run_albert, tiny_folder, tmp_path):
    shape = load_model(tiny_folder).config.model_dump() | {"vocab_size": 1000}
    save_model(tmp_path / "model", build_model(ModelConfig(**shape), heads={}))
    shutil.copy(tiny_folder / "vocab.txt", tmp_path / "model")
    before = read_tree(tmp_path)
    for words in (
        ("embed", "--model", tmp_path / "model", "a"),
        ("convert", tmp_path / "model", tmp_path / "out"),
    ):
        error = run_albert(*words).error
        assert f"{len(WORDS)} tokens" in error
        assert "1000 rows" in error
    assert read_tree(tmp_path) == before


def test_a_folder_without_a_vocabulary_encodes_only_ids(run_albert, tiny_copy):
    remove("vocab.txt", "tokenizer.json", "tokenizer_config.json")(tiny_copy)
    error = run_albert("embed", "--model", tiny_copy, "a").error
    assert error.startswith(f"{tiny_copy}: ")
    assert "spiece.model, vocab.txt, symbols.txt or tokenizer.json" in error
    assert albert.load_encoder(tiny_copy)([[2, 3]])[0].shape == (2, 32)
