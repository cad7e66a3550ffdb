import json

from albert.data.corpus import open_corpus
from albert.data.summary import summarise_corpus
from tests.corpus.conftest import PARAGRAPHS


def test_the_whole_journey_from_files_to_figures(run_albert, books, vocab_path, tmp_path):
    out = tmp_path / "out"
    done = run_albert(
        "corpus", "prepare", books, "--vocab", vocab_path, "--out", out, "--workers", 1, "--json"
    )
    assert done.code == 0, done.err
    result = json.loads(done.out)
    assert result["documents"] == 22
    assert result["dropped"] == {"byte_order_marks": 1, "duplicate_documents": 1}
    assert "books/b_wrapped.txt: hard-wrapped, blank lines between paragraphs" in done.err
    assert "left alone: 1 × .md" in done.err
    assert "MB/s" in done.err

    shown = json.loads(run_albert("corpus", "show", out, "--json").out)
    assert shown["num_pieces"] == result["pieces"]
    assert shown["layouts"] == {"sentences": 1, "wrapped": 1, "paragraphs": 2}
    text = run_albert("corpus", "show", out).out
    assert "22 documents" in text
    assert "1 duplicate documents" in text

    (tmp_path / "dev.txt").write_text(f"{PARAGRAPHS[1]}\nshort\n")
    found = json.loads(run_albert("corpus", "overlap", out, tmp_path / "dev.txt", "--json").out)
    assert found["files"][0]["num_whole"] == 1
    assert "whole: The old man" in run_albert("corpus", "overlap", out, tmp_path / "dev.txt").out


def test_lengths_are_those_of_the_shards(run_albert, books, vocab_path, tmp_path):
    run_albert("corpus", "prepare", books, "--vocab", vocab_path, "--out", tmp_path / "out", "--workers", 1)
    corpus = open_corpus(tmp_path / "out")
    summary = summarise_corpus(corpus)
    assert summary.document_sentences.at["shortest"] == 8
    assert summary.document_sentences.at["median"] == 8
    longest = max(
        int(part.document_starts[d + 1] - part.document_starts[d])
        for part in corpus.parts
        for d in range(len(part.document_starts) - 1)
    )
    assert summary.document_sentences.at["longest"] == longest
    assert summary.sentence_pieces.mean == corpus.num_pieces / corpus.manifest.num_sentences


def test_every_layout_is_said_in_a_summary_where_there_are_many_sources(run_albert, tmp_path, vocab_path):
    (tmp_path / "many").mkdir()
    for number in range(25):
        (tmp_path / "many" / f"{number}.txt").write_text("\n".join(PARAGRAPHS[number : number + 20]))
    words = ("corpus", "prepare", tmp_path / "many", "--vocab", vocab_path, "--out", tmp_path / "out")
    done = run_albert(*words, "--workers", 1)
    assert "25 sources: one paragraph per line" in done.err


def test_settings_of_an_example_need_an_example(run_albert, tmp_path):
    for words in (["objective=nsp"], ["--epoch", "1"], ["--seed", "0"]):
        done = run_albert("corpus", "show", tmp_path, *words)
        assert done.code == 2
        assert f"{words[0]} is for an example; add --example N, or leave it out" in done.err
