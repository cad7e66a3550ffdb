"""On every line of the novels and of GLUE, ids are those of the published models."""

from pathlib import Path

import pytest
import transformers
from sentencepiece import SentencePieceProcessor

from albert.text.folder import load_tokenizer, save_tokenizer
from tests.real_data import unpack

from .conftest import published_ids

pytestmark = pytest.mark.slow


def read_lines(tmp_path: Path, name: str) -> list[str]:
    unpack(name, tmp_path)
    lines: list[str] = []
    for path in sorted(file for file in tmp_path.rglob("*") if file.is_file()):
        lines += path.read_text(encoding="utf-8", errors="replace").splitlines()
    return lines


@pytest.mark.parametrize("name", ["novels", "glue"])
def test_ids_are_those_of_sentencepiece_and_spans_are_inside_the_line(name, tmp_path, published_path):
    tokenizer = load_tokenizer(published_path)
    processor = SentencePieceProcessor(model_file=str(published_path))
    lines = read_lines(tmp_path, name)
    assert len(lines) > 100_000
    for start in range(0, len(lines), 10_000):
        chunk = lines[start : start + 10_000]
        expected = [published_ids(processor, line) for line in chunk]
        assert tokenizer.encode_ids(chunk) == expected
        for line, encoding, ids in zip(chunk, tokenizer.encode_batch(chunk), expected, strict=True):
            assert list(encoding.ids) == ids
            assert all(0 <= a <= b <= len(line) for a, b in encoding.spans)


@pytest.mark.parametrize("name", ["novels", "glue"])
def test_transformers_gives_the_same_ids_from_our_folder_but_for_ties(name, tmp_path, published_path):
    """A tokenizer.json does not say which of two splits with equal scores is chosen (333 33, or 33 333)."""
    processor = SentencePieceProcessor(model_file=str(published_path))
    tokenizer = load_tokenizer(published_path)
    save_tokenizer(tokenizer, tmp_path / "folder")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "folder")
    lines = read_lines(tmp_path / "data", name)
    different: list[tuple[list[int], list[int]]] = []
    for start in range(0, len(lines), 10_000):
        chunk = lines[start : start + 10_000]
        found = theirs(chunk, add_special_tokens=False)["input_ids"]
        different += [
            pair for pair in zip(found, tokenizer.encode_ids(chunk), strict=True) if pair[0] != pair[1]
        ]
    for theirs_ids, ours_ids in different:
        assert sum(map(processor.get_score, theirs_ids)) == pytest.approx(
            sum(map(processor.get_score, ours_ids))
        )
    assert len(different) <= 5, f"{len(different)} of {len(lines)} lines"
