"""Questions are found in any script: sentences are short by their pieces, and a word is what stands alone."""

import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from albert.app.quickstart.questions import MaskQuestion, OrderQuestion, list_questions
from albert.text.tokenizer import Tokenizer
from albert.text.train_vocabulary import VocabularySettings, train_sentencepiece
from tests.examples.conftest import write_corpus


@dataclass(frozen=True)
class Script:
    """Words, what stands between two of them, and what ends a sentence; `size` is of a vocabulary."""

    words: str
    space: str
    end: str
    size: int

    def write(self, count: int, *, num_words: int = 8) -> list[str]:
        draw, words = random.Random(0), self.words.split()
        return [self.space.join(draw.choices(words, k=num_words)) + self.end for _ in range(count)]


SCRIPTS = {
    "English": Script("river children evening house night water stone garden", " ", ".", 45),
    "Chinese": Script("今天 天气 公园 朋友 我们 学校 老师 学生 早上 晚上", "", "。", 60),
    "Hindi": Script("बच्चे नदी किनारे खेलते पानी ठंडा घर जाते शाम सुबह", " ", "।", 45),
    "Thai": Script("วันนี้ อากาศ เพื่อน สวน โรงเรียน ครู นักเรียน เช้า", "", " ฯ", 60),
}
EVERY = pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
ENGLISH = SCRIPTS["English"]


def ask(
    documents: list[list[str]], folder: Path, *, size: int
) -> tuple[list[MaskQuestion], list[OrderQuestion], Tokenizer]:
    texts = [sentence for document in documents for sentence in document]
    tokenizer = train_sentencepiece(texts, settings=VocabularySettings(size=size))
    corpus = write_corpus(folder, [tokenizer.encode_ids(document) for document in documents], tokenizer)
    return *list_questions(corpus, tokenizer), tokenizer


@EVERY
def test_every_script_has_words_to_guess_and_pairs_to_order(script: Script, tmp_path: Path) -> None:
    masks, orders, tokenizer = ask([script.write(400)], tmp_path, size=script.size)
    assert [pair.is_swapped for pair in orders] == 4 * [False, True]
    assert len(masks) == 8
    for mask in masks:
        # One piece is asked about, and all others are what they are without the mask.
        whole = tokenizer.encode(mask.text.replace("[MASK]", mask.word)).ids
        masked = tokenizer.encode(mask.text, masks=True).ids
        place = masked.index(tokenizer.mask_id)
        assert tokenizer.decode([whole[place]]) == mask.word
        assert masked == (*whole[:place], tokenizer.mask_id, *whole[place + 1 :])


def test_documents_of_a_single_sentence_have_words_to_guess_and_no_pair(tmp_path: Path) -> None:
    masks, orders, _ = ask([[sentence] for sentence in ENGLISH.write(400)], tmp_path, size=ENGLISH.size)
    assert len(masks) == 8
    assert not orders


def test_long_sentences_are_not_asked_about(tmp_path: Path) -> None:
    masks, orders, _ = ask([ENGLISH.write(100, num_words=40)], tmp_path, size=ENGLISH.size)
    assert (masks, orders) == ([], [])


def test_short_words_and_parts_of_words_are_not_asked_about(tmp_path: Path) -> None:
    sentences = [f"{sentence[:-1]} by the sea." for sentence in ENGLISH.write(400)]
    masks, _, _ = ask([sentences], tmp_path, size=ENGLISH.size)
    assert {mask.word for mask in masks} <= set(ENGLISH.words.split())
