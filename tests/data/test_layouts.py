"""Layouts are detected, and the paragraphs of a text come back whatever its layout."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert.data import layouts as module
from albert.data.layouts import (
    Joiner,
    Layout,
    RawDocument,
    choose_layout,
    cut_passages,
    drop_ornaments,
    iter_raw_documents,
    join_page_breaks,
)
from albert.data.sources import ReadOptions, find_sources, read_sample
from albert.text.sentences import iter_sentences
from tests.data.conftest import PARAGRAPHS, wrap
from tests.real_data import unpack


def by_sentence():
    documents = (PARAGRAPHS[k : k + 6] for k in range(0, 60, 6))
    return "\n\n".join("\n".join(s for text in texts for s in iter_sentences(text)) for texts in documents)


def chapters():
    return "\n\n".join(f"CHAPTER {k}\n\n" + "\n".join(PARAGRAPHS[k : k + 6]) for k in range(0, 60, 6))


def indented():
    return "\n".join("    " + "\n".join(wrap(text)) for text in PARAGRAPHS)


SAMPLES = {
    "sentences": by_sentence(),
    "paragraphs": "\n\n".join("\n".join(PARAGRAPHS[k : k + 6]) for k in range(0, 60, 6)),
    "paragraphs, one document": "\n".join(PARAGRAPHS),
    "spaced": "\n\n".join(PARAGRAPHS),
    "spaced, around headings only": chapters(),
    "spaced, some of it wrapped": "\n\n".join(
        [*PARAGRAPHS, *("\n".join(wrap(text)) for text in PARAGRAPHS[:2])]
    ),
    "wrapped": "\n\n".join("\n".join(wrap(text)) for text in PARAGRAPHS),
    "wrapped, narrow": "\n\n".join("\n".join(wrap(text, 45)) for text in PARAGRAPHS),
    "dense": "\n".join("\n".join(wrap(text)) for text in PARAGRAPHS),
    "dense, indented": indented(),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_each_layout_is_told_from_the_others(name):
    assert choose_layout(None, SAMPLES[name] + "\n").name == name.partition(",")[0]


@pytest.mark.parametrize("sentence", ["यह वाक्य {} है।", "یہ جملہ {} ہے۔", "ما هو {}؟", "ይህ {} ነው።"])
def test_sentences_of_other_scripts_are_no_wrapped_lines(sentence):
    documents = ("\n".join(sentence.format(10 * k + n) for n in range(5)) for k in range(10))
    assert choose_layout(None, "\n\n".join(documents) + "\n").name == "sentences"


@pytest.mark.slow
def test_the_novels_are_laid_out_as_their_makers_say(tmp_path):
    unpack("novels", tmp_path)
    found = Counter(
        choose_layout(None, read_sample(source, ReadOptions())).name for source in find_sources([tmp_path])
    )
    # 44% one paragraph per line, 39% hard-wrapped with blank lines, 17% hard-wrapped without.
    assert found == {"spaced": 39, "paragraphs": 3, "wrapped": 37, "dense": 16}


@pytest.mark.parametrize("indent", ["", "   "])
def test_a_layout_that_is_named_is_measured_like_one_that_is_found(indent):
    """`--layout dense` must not make paragraphs of lines that the detected one keeps together."""
    lines = [line for text in PARAGRAPHS for line in wrap(indent + text)]
    sample = "\n".join(lines)
    found = choose_layout(None, sample)
    assert found.name == "dense"
    assert choose_layout("dense", sample) == found
    assert choose_layout(None, sample) == found
    assert choose_layout("wrapped", sample) == Layout("wrapped", found.width)
    assert choose_layout("sentences", sample) == Layout("sentences")
    assert choose_layout("dense", "One line.") == Layout("dense")


WORDS = Joiner(lambda: "a beautiful drawing-room; the well known draw of a room")


def read(text, layout=None, *, chunk=10**9):
    lines = text.splitlines(keepends=True)
    chunks = ["".join(lines[k : k + chunk]) for k in range(0, len(lines), chunk)]
    return [
        list(d.paragraphs) for d in iter_raw_documents(chunks, layout or choose_layout(None, text), WORDS)
    ]


@pytest.mark.parametrize(
    "name", ["paragraphs, one document", "spaced", "wrapped", "wrapped, narrow", "dense, indented"]
)
def test_the_paragraphs_of_a_book_come_back_whatever_its_layout(name):
    assert read(SAMPLES[name] + "\n") == [PARAGRAPHS]


def test_dense_paragraphs_come_back_but_for_those_that_fill_their_last_line():
    (found,) = read(SAMPLES["dense"] + "\n")
    assert " ".join(found) == " ".join(PARAGRAPHS)
    kept = set(PARAGRAPHS) & set(found)
    assert len(kept) > 0.75 * len(PARAGRAPHS)


def test_blank_lines_part_documents_where_each_line_is_a_paragraph():
    assert read(SAMPLES["paragraphs"] + "\n") == [PARAGRAPHS[k : k + 6] for k in range(0, 60, 6)]


def test_a_stretch_of_wrapped_lines_is_joined_where_other_paragraphs_have_one_line():
    (found,) = read(SAMPLES["spaced, some of it wrapped"] + "\n")
    assert found == [*PARAGRAPHS, *PARAGRAPHS[:2]]


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["a beau-", "tiful day"], "a beautiful day"),
        (["the drawing-", "room door"], "the drawing-room door"),
        (["a well-", "known man"], "a well-known man"),
        (["an inter-", "national one"], "an international one"),
        (["he went -", "and came"], "he went - and came"),
        (["Anglo-", "Saxon"], "Anglo- Saxon"),
        (["one", "two"], "one two"),
        (["云腾致", "雨，", "露结为霜。", "Albert"], "云腾致雨，露结为霜。Albert"),
        (["人工知能は", "カタカナ"], "人工知能はカタカナ"),
        (["ภาษา", "ไทย"], "ภาษาไทย"),
        (["한국어", "문장"], "한국어 문장"),
        (["das schöne", "Haus"], "das schöne Haus"),
    ],
)
def test_words_cut_by_the_wrapping_are_whole_again(lines, text):
    assert WORDS.join(lines) == text


def test_a_page_break_in_mid_sentence_is_mended():
    pages = ["He opened the door and", "went in.", "She stayed.", "however, he said"]
    assert list(join_page_breaks(pages)) == [
        "He opened the door and went in.",
        "She stayed.",
        "however, he said",
    ]


def test_a_document_too_long_to_hold_is_cut_between_paragraphs(monkeypatch):
    monkeypatch.setattr(module, "MAX_DOCUMENT_CHARACTERS", 3000)
    for name in ("paragraphs, one document", "spaced", "wrapped", "dense"):
        documents = read(SAMPLES[name] + "\n", chunk=5)
        assert len(documents) > 3
        assert " ".join(" ".join(texts) for texts in documents) == " ".join(PARAGRAPHS)


LINE = st.sampled_from(
    ["", "  ", "A line.", "goes on", "He said so, and", "«Oui», dit-il", "x" * 200, "well-"]
)


@given(
    st.lists(LINE, max_size=30), st.sampled_from(["sentences", "paragraphs", "spaced", "wrapped", "dense"])
)
def test_no_word_is_lost_or_made_whatever_the_layout_and_wherever_the_chunks_end(lines, name):
    text = "".join(f"{line}\n" for line in lines)
    whole = read(text, Layout(name, 70))
    chunks = [f"{line}\n" for line in lines]
    in_chunks = [list(d.paragraphs) for d in iter_raw_documents(chunks, Layout(name, 70), WORDS)]
    assert whole == in_chunks
    words = " ".join(" ".join(texts) for texts in whole).split()
    assert "".join(words).replace("-", "") == "".join(text.split()).replace("-", "")


def test_passages_are_whole_paragraphs_of_so_many_characters():
    book = RawDocument(["a" * 30, "b" * 80, "c" * 120, "d" * 50, "e" * 60, "f" * 10])
    cut = list(cut_passages([book], 100))
    assert [[text[0] for text in passage.paragraphs] for passage in cut] == [
        ["a", "b"],
        ["c"],
        ["d", "e", "f"],
    ]


def test_a_short_document_stays_one_passage_and_none_cuts_nothing():
    short, book = RawDocument(["a", "b"]), RawDocument(["c" * 500, "d" * 500])
    assert list(cut_passages([short], 100)) == [short]
    assert list(cut_passages([book], None)) == [book]


def test_ornaments_go_and_what_says_something_stays():
    lines = ["* * *", "———", "★ ★ ★", "1815", "नमस्ते", "⠓⠑⠇⠇⠕", "👍👍"]
    counts = Counter()
    assert list(drop_ornaments(RawDocument(lines), counts).paragraphs) == lines[3:]
    assert counts == {"ornaments": 3}
