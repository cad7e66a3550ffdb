"""Text vectors: the sets are read as published, and retrieval is ranked."""

import json

import numpy as np
import pytest

from bench.vectors import Retrieval, main, read_retrieval, read_similarity, score_bm25, score_retrieval

TEXTS = ("the old ship", "the cold sea", "the town")


@pytest.fixture
def data(tmp_path):
    stsb, similarity, squad = (tmp_path / name for name in ("glue/STS-B", "similarity", "squad"))
    for folder in (stsb, similarity, squad):
        folder.mkdir(parents=True)
    pairs = [("the ship", "the ship", 5), ("the town", "a cold sea", 1), ("the sea", "the sea was cold", 3)]
    rows = [f"0\tnews\t{first}\t{second}\t{score}.0" for first, second, score in pairs]
    (stsb / "dev.tsv").write_text("\n".join(["index\tgenre\tsentence1\tsentence2\tscore", *rows]) + "\n")
    rows = [f"{number}\t{first}\t{second}\t{score}" for number, (first, second, score) in enumerate(pairs)]
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score"
    (similarity / "sick-dev.tsv").write_text("\n".join([header, *rows]) + "\n")
    scored = [f"{score}\t{first}\t{second}" for first, second, score in pairs]
    (similarity / "sts2012-news.tsv").write_text("\n".join([*scored, "\tno score\tof this one"]) + "\n")
    for name, texts in (("train-v1.1.json", TEXTS[:2]), ("dev-v1.1.json", TEXTS[1:3])):
        paragraphs = [{"context": text * 40, "qas": [{"question": text}]} for text in texts]
        (squad / name).write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    return tmp_path


def test_sets_are_read_and_pairs_without_a_score_skipped(data):
    sets = {each.name: each for each in read_similarity(data, split="dev")}
    assert {name: len(each.scores) for name, each in sets.items()} == {
        "sts-b": 3, "sick": 3, "sts2012-news": 3
    }  # fmt: skip
    assert sets["sick"].second[1] == "a cold sea"


def test_questions_are_of_one_file_and_paragraphs_of_all(data):
    found = read_retrieval(data / "squad", split="dev")
    assert len(found.paragraphs) == 3  # one is in both files
    assert [found.paragraphs[i].startswith(q) for i, q in zip(found.gold, found.questions, strict=True)] == [
        True, True
    ]  # fmt: skip


def test_recall_counts_ties_as_errors():
    similarities = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
    assert score_retrieval(similarities, np.array([0, 0, 0])) == pytest.approx(
        {"recall@1": 100 / 3, "recall@10": 100.0}
    )


def test_bm25_prefers_rare_words():
    paragraphs = ["the sea the sea the sea", "the ship of the queen", "the town", "the hill"]
    questions = ["where is the queen", "the town"]
    assert score_bm25(Retrieval(questions, paragraphs, np.array([1, 2])))["recall@1"] == 100.0


def test_a_table_has_a_row_for_each_model_and_depth(data, tiny_folder, capsys):
    assert main([str(tiny_folder), "--data", str(data), "--depth", "1", "--depth", "2", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert list(rows) == ["BM25", f"{tiny_folder}, 1 layers", f"{tiny_folder}, 2 layers"]
    assert {"sts-b", "sick", "sts2012", "similarity", "recall@1"} <= set(rows[f"{tiny_folder}, 2 layers"])
