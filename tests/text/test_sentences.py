"""Sentence boundaries in several languages and scripts."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert.errors import InputError
from albert.text.sentences import RULES, iter_sentences, split_sentences
from bench.sentences import read_sample, score_splitter
from tests.conftest import rejects

LANGUAGES = st.sampled_from(sorted(RULES))
PARTS = st.sampled_from(
    [
        *"...!?…。！？\"'”“’«»)([—- \n\t\u00a0\u3000,;:1aZ我说",
        "--",
        "Mr",
        "U.S",
        "The ",
        "no",
        "3",
        "z. B",
        "word ",
    ]
)
TEXTS = st.lists(PARTS, max_size=60).map("".join) | st.text()


def cut(text, language="en"):
    return list(iter_sentences(text, language=language))


@pytest.mark.parametrize(("language", "least"), [("en", 0.99), ("de", 0.99), ("fr", 0.99), ("zh", 0.985)])
def test_boundaries_of_the_hand_checked_sample(language, least):
    assert sum(map(len, read_sample(language))) >= (100 if language == "en" else 60)
    score = score_splitter(lambda text: cut(text, language), language=language)
    assert score.f1 >= least, score


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Mr. J. R. R. Tolkien of the U.S. Army paid 3.14 for No. 5 at 6 p.m. on Jan. 4."),
        ("en", '"Who is there?" Mrs. Hale softly asked.'),
        ("en", "Alas! poor Yorick."),
        ("en", "He came (at last!) to the door."),
        ("de", "Am 3. Mai sah er, z. B. beim 2. Mal, Ludwig XIV. und Dr. Meier."),
        ("fr", "« Quoi ! » dit-il à M. Dupont."),
        ("fr", "« Où est-il ? », demanda-t-elle."),
        ("zh", "“走吧！”他大声说道。"),
        ("zh", "我……我不知道3.14。"),
        ("xx", "Dr. No lives in no. 5."),
    ],
)
def test_one_sentence_stays_one(language, text):
    assert cut(text, language) == [text]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("यह एक वाक्य है।", "वह दूसरा है।"),
        ("یہ ایک جملہ ہے۔", "وہ دوسرا ہے۔"),
        ("ما هذا؟", "هذا بيت."),
        ("ဤသည်မှာ ဝါကျ ဖြစ်သည်။", "နောက်တစ်ခု ဖြစ်သည်။"),
        ("នេះជាប្រយោគ។", "នេះជាប្រយោគទីពីរ។"),
        ("Սա նախադասություն է։", "Սա երկրորդն է։"),
        ("ይህ ዓረፍተ ነገር ነው።", "ይህ ሁለተኛ ነው።"),
    ],
)
def test_sentences_of_other_scripts_end_at_their_own_marks(first, second):
    assert cut(f"{first} {second}", "xx") == [first, second]
    if first[-1] in "।។":  # no space is needed
        assert cut(first + second, "xx") == [first, second]


def test_a_sentence_ends_inside_its_quotation():
    assert cut('"Go! Now." He went.') == ['"Go!', 'Now."', "He went."]
    assert cut("»Komm!« Er kam.", "de") == ["»Komm!«", "Er kam."]
    assert cut("« Viens ! » Il vint.", "fr") == ["« Viens ! »", "Il vint."]
    assert cut("“来！”“好。”他来了。", "zh") == ["“来！”", "“好。”", "他来了。"]


def test_missing_capitals():
    assert cut("it rained. did it? we left.") == ["it rained.", "did it?", "we left."]
    assert cut("Oh! what a day. The bank paid ten per cent. on it.") == [
        "Oh! what a day.",
        "The bank paid ten per cent. on it.",
    ]


def test_spans_point_into_the_text_and_line_ends_are_spaces():
    text = "  He met Mr.\nBrown.\r\n They left.\n"
    assert split_sentences(text) == [(2, 19), (22, 32)]
    assert text[2:19] == "He met Mr.\nBrown."


def test_an_unknown_language_is_rejected_with_the_known_ones():
    with rejects(InputError, "'tlh'", *RULES):
        split_sentences("nuqneH", language="tlh")
    assert split_sentences("One. Two.", language="en-GB") == split_sentences("One. Two.")


@given(TEXTS, LANGUAGES)
def test_sentences_cover_everything_but_white_space_in_order(text, language):
    spans = split_sentences(text, language=language)
    sentences = [text[start:stop] for start, stop in spans]
    assert all(sentence and sentence == sentence.strip() for sentence in sentences)
    gaps = [0, *(border for span in spans for border in span), len(text)]
    assert gaps == sorted(gaps)
    assert not "".join(text[gaps[i] : gaps[i + 1]] for i in range(0, len(gaps), 2)).strip()


@given(TEXTS, LANGUAGES)
def test_a_sentence_is_not_split_again(text, language):
    for sentence in iter_sentences(text, language=language):
        assert cut(sentence, language) == [sentence]


@pytest.mark.parametrize(
    "unit",
    ["word ", ".", '"', ". ", ".)", ".“", "«", "1.", "a. ", "Mr. ", "I. ", "? a ", '?" Tom ', "。”", "[1]",
     ".[1]", " ", ".\u00a0»", ".--A"],
)  # fmt: skip
def test_time_is_linear_in_one_long_line(unit):
    def measure(length):
        text = "(" + unit * (length // len(unit)) + "x"
        times = []
        for _ in range(3):
            start = time.process_time()
            split_sentences(text, language="fr")
            times.append(time.process_time() - start)
        return min(times)

    measure(1_000)
    # Eight times the text: quadratic work would take 64 times as long.
    assert measure(80_000) < 24 * max(measure(10_000), 0.001)
