"""Vocabularies that are damaged, or another model's: refused in one line with the piece and the hint."""

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
from tests.conftest import WORDS, read_tree, write_vocabulary
from tests.faults.damages import NOISE, Damage, Fault, check_refused, remove, write


def leave_alone(name: str, content: bytes) -> Damage:
    def damage(folder: Path) -> None:
        (folder / "vocab.txt").unlink()
        (folder / name).write_bytes(content)

    return damage


VOCABULARIES = [
    Fault(
        "too many pieces",
        lambda f: write_vocabulary(f / "vocab.txt", [*WORDS, "more"]),
        (f"the vocabulary has {len(WORDS) + 1} tokens", f"embedding table {len(WORDS)} rows", "trained with"),
    ),
    Fault(
        "a piece twice",
        lambda f: write_vocabulary(f / "vocab.txt", [*WORDS[:-1], "ship"]),
        ("vocab.txt", "repeats 'ship'"),
    ),
    Fault(
        "no special tokens",
        lambda f: write_vocabulary(f / "vocab.txt", WORDS[5:]),
        ("vocab.txt", "has no [PAD], [UNK], [CLS], [SEP], [MASK]", "use the model's own vocabulary"),
    ),
    Fault("empty", write("vocab.txt", b""), ("vocab.txt", "empty", "download the vocabulary again")),
    Fault("no text", write("vocab.txt", b"\xff\xfe"), ("vocab.txt", "not UTF-8", "download it again")),
    Fault(
        "no SentencePiece",
        write("spiece.model", NOISE),
        ("spiece.model", "not a SentencePiece model", "download it again"),
    ),
    *(
        Fault(f"{name} of {content!r}", write(name, content), ("malformed", "download them again"))
        for name, content in (
            ("added_tokens.json", b'{"[NEW]": "5"}'),
            ("tokenizer.json", b'{"added_tokens": [7]}'),
            ("tokenizer_config.json", b'{"added_tokens_decoder": {"x": "[NEW]"}}'),
        )
    ),
    Fault(
        "nothing but a tokenizer.json of another structure",
        leave_alone("tokenizer.json", b'{"model": {"type": "WordPiece"}, "normalizer": "x"}'),
        ("malformed", "download them again"),
    ),
    Fault(
        "wrong options",
        write("tokenizer_config.json", b'{"do_lower_case": "yes"}'),
        ("tokenizer_config.json", "do_lower_case is 'yes'", "valid boolean"),
    ),
]


@pytest.mark.parametrize("fault", VOCABULARIES, ids=lambda fault: fault.name)
def test_a_damaged_vocabulary_is_refused_and_nothing_is_written(fault, run_albert, tiny_copy):
    check_refused(fault, run_albert, tiny_copy)


@pytest.mark.parametrize(
    ("num_tokens", "num_rows", "is_right"),
    [(30_000, 30_127, True), (31_102, 32_102, True), (31_102, 33_000, False), (30_000, 29_999, False)],
)
def test_a_table_may_have_a_twentieth_of_its_rows_to_spare(num_tokens, num_rows, is_right):
    """As those of the Italian BERTs (31,102 pieces) do, which were published so."""
    config = ModelConfig(vocab_size=num_rows)
    tokenizer = Mock(vocab_size=num_tokens)
    with nullcontext() if is_right else pytest.raises(WeightsError, match=f"the embedding table {num_rows}"):
        check_vocabulary(config, tokenizer)


def test_a_vocabulary_far_too_small_for_the_table_is_refused(run_albert, tiny_folder, tmp_path):
    shape = load_model(tiny_folder).config.model_dump() | {"vocab_size": 1000}
    save_model(tmp_path / "model", build_model(ModelConfig(**shape), heads={}))
    shutil.copy(tiny_folder / "vocab.txt", tmp_path / "model")
    before = read_tree(tmp_path)
    expected = (
        f"the vocabulary has {len(WORDS)} tokens and the embedding table 1000 rows; "
        "use the vocabulary that the model was trained with"
    )
    assert run_albert("embed", "--model", tmp_path / "model", "a").error == expected
    assert run_albert("convert", tmp_path / "model", tmp_path / "out").error == expected
    assert read_tree(tmp_path) == before


def test_a_folder_without_a_vocabulary_cannot_read_texts(run_albert, tiny_copy):
    remove("vocab.txt", "tokenizer.json", "tokenizer_config.json")(tiny_copy)
    error = run_albert("embed", "--model", tiny_copy, "a").error
    assert error.startswith(
        f"{tiny_copy}: has no vocabulary (spiece.model, vocab.txt, symbols.txt or tokenizer.json); copy"
    )
    assert albert.load_encoder(tiny_copy)([[2, 3]])[0].shape == (2, 32)
