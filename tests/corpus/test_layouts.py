from collections import Counter

import pytest

from albert.data.documents import ReadOptions, read_sample
from albert.data.layouts import Layout, choose_layout, detect_layout
from albert.data.sources import find_sources
from albert.text.sentences import iter_sentences
from tests.corpus.conftest import PARAGRAPHS, wrap
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
    assert detect_layout(SAMPLES[name] + "\n").name == name.partition(",")[0]


def test_the_measure_of_wrapped_lines_is_found():
    assert 66 <= detect_layout(SAMPLES["dense"]).width <= 70
    assert 43 <= detect_layout(SAMPLES["wrapped, narrow"]).width <= 47
    assert not detect_layout(SAMPLES["dense"]).is_indented
    assert detect_layout(SAMPLES["dense, indented"]).is_indented


@pytest.mark.parametrize("sentence", ["यह वाक्य {} है।", "یہ جملہ {} ہے۔", "ما هو {}؟", "ይህ {} ነው።"])
def test_sentences_of_other_scripts_are_no_wrapped_lines(sentence):
    documents = ("\n".join(sentence.format(10 * k + n) for n in range(5)) for k in range(10))
    assert detect_layout("\n\n".join(documents) + "\n").name == "sentences"


@pytest.mark.parametrize("text", ["", "\n\n\n", "word", "One line.\n", "你好。\n"])
def test_next_to_nothing_has_a_layout_too(text):
    assert detect_layout(text).name in ("paragraphs", "spaced")


@pytest.mark.slow
def test_the_novels_are_laid_out_as_their_makers_say(tmp_path):
    unpack("novels", tmp_path)
    found = Counter(
        detect_layout(read_sample(source, ReadOptions())).name for source in find_sources([tmp_path])
    )
    # 44% one paragraph per line, 39% hard-wrapped with blank lines, 17% hard-wrapped without.
    assert found == {"spaced": 39, "paragraphs": 3, "wrapped": 37, "dense": 16}


@pytest.mark.parametrize("indent", ["", "   "])
def test_a_layout_that_is_named_is_measured_like_one_that_is_found(indent):
    """`--layout dense` must not make paragraphs of lines that the detected one keeps together."""
    lines = [line for text in PARAGRAPHS for line in wrap(indent + text)]
    sample = "\n".join(lines)
    found = detect_layout(sample)
    assert found.name == "dense"
    assert choose_layout("dense", sample) == found
    assert choose_layout(None, sample) == found
    assert choose_layout("wrapped", sample) == Layout("wrapped", found.width)
    assert choose_layout("sentences", sample) == Layout("sentences")
    assert choose_layout("dense", "One line.") == Layout("dense")
