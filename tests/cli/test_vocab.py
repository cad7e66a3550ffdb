import io
import json
import sys

import pytest
from transformers import AutoTokenizer

from albert.text.folder import load_tokenizer
from tests.conftest import read_tree
from tests.text.conftest import TEXT


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "a.txt").write_text("\n".join(TEXT[:50]), encoding="utf-8-sig")
    (folder / "b.txt").write_text("\r\n".join(TEXT[50:]), encoding="utf-8")
    return folder


def test_train_then_tokenize(run_albert, corpus, tmp_path):
    out = tmp_path / "vocab"
    done = run_albert("vocab", "train", corpus, "--out", out, "--size", 150, "--json")
    assert done.code == 0, done
    result = json.loads(done.out)
    assert (result["folder"], result["size"]) == (str(out), 150)
    assert "LOG(INFO)" not in done.err
    tokenizer = load_tokenizer(out)
    assert tokenizer.fingerprint == result["fingerprint"]
    assert set(read_tree(out)) == {"spiece.model", "tokenizer.json", "tokenizer_config.json"}
    text = "The  Café – [MASK] was"
    shown = run_albert("vocab", "tokenize", "--vocab", out, text, "two", "--json")
    first, second = json.loads(shown.out)
    assert (first["text"], second["text"]) == (text, "two")
    ids = [token["id"] for token in first["tokens"]]
    assert ids == list(tokenizer.encode(text, masks=True).ids)
    assert ids == AutoTokenizer.from_pretrained(out)(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.mask_id in ids
    for token in first["tokens"]:
        assert tokenizer.token(token["id"]) in token.values()
        assert token["text"] == text[token["start"] : token["end"]]
    assert "".join(token["text"] for token in first["tokens"]) == text.replace(" ", "")
    assert "[MASK]" in run_albert("vocab", "tokenize", "--vocab", out, text).out


def test_a_dash_reads_lines_as_other_commands_do(run_albert, tiny_folder, monkeypatch):
    words = ("vocab", "tokenize", "--vocab", tiny_folder, "-", "--json")
    for content, name in ((b"caf\xe9\n", "byte 3"), (b"", "standard input")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        assert name in run_albert(*words).error
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\ufeffthe dog\r\na ship\n".encode())))
    assert [row["text"] for row in json.loads(run_albert(*words).out)] == ["the dog", "a ship"]


def test_options_reach_the_vocabulary(run_albert, corpus, tmp_path):
    words = ("vocab", "train", corpus / "a.txt", "--size", 120, "--out")
    assert run_albert(*words, tmp_path / "cased", "--cased", "--accents").code == 0
    config = json.loads((tmp_path / "cased" / "tokenizer_config.json").read_text())
    assert (config["do_lower_case"], config["keep_accents"]) == (False, True)
    assert run_albert(*words, tmp_path / "few", "--sample", 40, "--seed", 3).code == 0
    assert run_albert(*words, tmp_path / "same", "--sample", 40, "--seed", 3).code == 0
    assert read_tree(tmp_path / "few") == read_tree(tmp_path / "same")
    assert run_albert(*words, tmp_path / "other", "--sample", 40, "--seed", 4).code == 0
    assert read_tree(tmp_path / "few") != read_tree(tmp_path / "other")


def test_symbols(run_albert, tmp_path):
    (tmp_path / "phonemes.txt").write_text("DH AH0 SH IH1 P\nDH AH0\n")
    words = ("vocab", "train", tmp_path / "phonemes.txt", "--kind", "symbols", "--out")
    done = run_albert(*words, tmp_path / "v", "--min-count", 2)
    assert (done.code, done.err) == (0, "")
    assert (tmp_path / "v" / "symbols.txt").read_text().split()[5:] == ["AH0", "DH"]
    assert run_albert(*words, tmp_path / "w", "--characters", "--json").code == 0
    assert load_tokenizer(tmp_path / "w").encode("H D").ids == load_tokenizer(tmp_path / "w").encode("HD").ids
    shown = json.loads(run_albert("vocab", "tokenize", "--vocab", tmp_path / "v", "DH ZZ", "--json").out)
    tokenizer = load_tokenizer(tmp_path / "v")
    assert [tokenizer.token(token["id"]) for token in shown[0]["tokens"]] == ["DH", "<unk>"]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--kind", "bpe"], ["bpe", "sentencepiece", "symbols"]),
        (["--kind", "symbols", "--cased"], ["--lower/--cased", "symbols"]),
        (["--min-count", "2"], ["--min-count", "sentencepiece"]),
        (["--size", "5"], ["size", "5", "16"]),
        (["--out", "{corpus}"], ["{corpus}", "--overwrite"]),
        (["--out", "{corpus}", "--overwrite"], ["{corpus}"]),
        (["{corpus}/absent"], ["{corpus}/absent"]),
    ],
)
def test_a_mistake_is_reported_before_any_work(words, names, run_albert, corpus, tmp_path):
    words = [word.format(corpus=corpus) for word in words]
    before = read_tree(tmp_path)
    error = run_albert("vocab", "train", corpus, "--out", tmp_path / "out", *words).error
    assert all(name.format(corpus=corpus) in error for name in names), error
    assert read_tree(tmp_path) == before


def test_a_size_too_large_leaves_nothing_behind(run_albert, corpus, tmp_path):
    before = read_tree(tmp_path)
    done = run_albert("vocab", "train", corpus, "--out", tmp_path / "out")
    assert (done.code, "30,000" in done.err.splitlines()[-1]) == (2, True)
    assert read_tree(tmp_path) == before


def test_a_vocabulary_is_replaced_only_when_asked(run_albert, corpus, tmp_path):
    words = ("vocab", "train", corpus, "--out", tmp_path / "out", "--size")
    assert run_albert(*words, 120).code == 0
    assert "--overwrite" in run_albert(*words, 130).error
    assert run_albert(*words, 130, "--overwrite").code == 0
    assert load_tokenizer(tmp_path / "out").vocab_size == 130
