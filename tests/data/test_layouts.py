"""Layouts are detected, and paragraphs are the same in every layout."""

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

DOCUMENTS = ["\n".join(PARAGRAPHS[k : k + 6]) for k in range(0, 60, 6)]


SAMPLES = {
    "sentences": "\n\n".join("\n".join(iter_sentences(text)) for text in DOCUMENTS),
    "paragraphs": "\n\n".join(DOCUMENTS),
    "paragraphs, one document": "\n".join(PARAGRAPHS),
    "spaced": "\n\n".join(PARAGRAPHS),
    "spaced, around headings only": "\n\n".join(f"CHAPTER {k}\n\n{text}" for k, text in enumerate(DOCUMENTS)),
    "spaced, some of it wrapped": "\n\n".join(
        [*PARAGRAPHS, *("\n".join(wrap(text)) for text in PARAGRAPHS[:2])]
    ),
    "wrapped": "\n\n".join("\n".join(wrap(text)) for text in PARAGRAPHS),
    "wrapped, narrow": "\n\n".join("\n".join(wrap(text, 45)) for text in PARAGRAPHS),
    "dense": "\n".join("\n".join(wrap(text)) for text in PARAGRAPHS),
    "dense, indented": "\n".join("    " + "\n".join(wrap(text)) for text in PARAGRAPHS),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_each_layout_is_detected(name):
    assert choose_layout(None, SAMPLES[name] + "\n").name == name.partition(",")[0]


@pytest.mark.parametrize("sentence", ["यह वाक्य {} है।", "یہ جملہ {} ہے۔", "ما هو {}؟", "ይህ {} ነው።"])
def test_sentences_of_other_scripts_are_not_wrapped_lines(sentence):
    documents = ("\n".join(sentence.format(10 * k + n) for n in range(5)) for k in range(10))
    assert choose_layout(None, "\n\n".join(documents) + "\n").name == "sentences"


@pytest.mark.slow
def test_the_layouts_of_the_novels_are_detected(tmp_path):
    unpack("novels", tmp_path)
    sources = find_sources([tmp_path])
    found = Counter(choose_layout(None, read_sample(source, ReadOptions())).name for source in sources)
    # 44% one paragraph per line, 39% hard-wrapped with blank lines, 17% hard-wrapped without.
    assert found == {"spaced": 39, "paragraphs": 3, "wrapped": 37, "dense": 16}


@pytest.mark.parametrize("indent", ["", "   "])
def test_a_layout_from_the_settings_is_measured_like_a_detected_one(indent):
    lines = [line for text in PARAGRAPHS for line in wrap(indent + text)]
    sample = "\n".join(lines)
    found = choose_layout(None, sample)
    assert found.name == "dense"
    assert choose_layout("dense", sample) == found
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
def test_paragraphs_are_the_same_in_every_layout(name):
    assert read(SAMPLES[name] + "\n") == [PARAGRAPHS]


def test_other_layouts_give_nearly_the_same_paragraphs():
    (dense,) = read(SAMPLES["dense"] + "\n")
    assert " ".join(dense) == " ".join(PARAGRAPHS)
    assert len(set(PARAGRAPHS) & set(dense)) > 0.75 * len(PARAGRAPHS)  # the last line may be full
    assert read(SAMPLES["paragraphs"] + "\n") == [PARAGRAPHS[k : k + 6] for k in range(0, 60, 6)]
    assert read(SAMPLES["spaced, some of it wrapped"] + "\n") == [[*PARAGRAPHS, *PARAGRAPHS[:2]]]


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
def test_words_split_by_wrapping_are_joined(lines, text):
    assert WORDS.join(lines) == text


def test_a_page_break_inside_a_sentence_is_removed():
    pages = ["He opened the door and", "went in.", "She stayed.", "however, he said"]
    assert list(join_page_breaks(pages)) == [" ".join(pages[:2]), *pages[2:]]


def test_a_document_that_is_too_long_is_split_between_paragraphs(monkeypatch):
    monkeypatch.setattr(module, "MAX_DOCUMENT_CHARACTERS", 3000)
    for name in ("paragraphs, one document", "spaced", "wrapped", "dense"):
        documents = read(SAMPLES[name] + "\n", chunk=5)
        assert len(documents) > 3
        assert " ".join(" ".join(texts) for texts in documents) == " ".join(PARAGRAPHS)


LINE = st.sampled_from(
    ["", "  ", "A line.", "continues", "He said so, and", "«Oui», dit-il", "x" * 200, "well-"]
)


@given(
    st.lists(LINE, max_size=30), st.sampled_from(["sentences", "paragraphs", "spaced", "wrapped", "dense"])
)
def test_chunks_and_layouts_change_no_word(lines, name):
    text = "".join(f"{line}\n" for line in lines)
    whole = read(text, Layout(name, 70))
    chunks = [f"{line}\n" for line in lines]
    in_chunks = [list(d.paragraphs) for d in iter_raw_documents(chunks, Layout(name, 70), WORDS)]
    assert whole == in_chunks
    words = " ".join(" ".join(texts) for texts in whole).split()
    assert "".join(words).replace("-", "") == "".join(text.split()).replace("-", "")


def test_passages_are_complete_paragraphs_of_at_least_so_many_characters():
    book = RawDocument(["a" * 30, "b" * 80, "c" * 120, "d" * 50, "e" * 60, "f" * 10])
    passages = [[text[0] for text in passage.paragraphs] for passage in cut_passages([book], 100)]
    assert passages == [["a", "b"], ["c"], ["d", "e", "f"]]
    short = RawDocument(["a", "b"])
    assert list(cut_passages([short], 100)) == [short]
    assert list(cut_passages([book], None)) == [book]


def test_ornaments_are_dropped_and_text_is_kept():
    lines = ["* * *", "———", "★ ★ ★", "1815", "नमस्ते", "⠓⠑⠇⠇⠕", "👍👍"]
    counts = Counter()
    assert list(drop_ornaments(RawDocument(lines), counts).paragraphs) == lines[3:]
    assert counts == {"ornaments": 3}
