"""Units of work: slices of sources and settings come in; tasks, their keys and their records go out."""

import hashlib
import json
from dataclasses import asdict, dataclass, field

from pydantic import PositiveInt, field_validator

from albert.data.layouts import LAYOUTS
from albert.data.manifest import ShardEntry
from albert.data.survey import Unit
from albert.settings import Settings

RUN_NAME = "run.txt"
# To be raised with every change of what cleaning, splitting or tokenizing gives: results of another version
# are not gone on with.
PREPARE_VERSION = 3


class PrepareSettings(Settings):
    """What changes the bytes of a corpus, besides its sources and its vocabulary.

    With `passage_characters` a document is cut into passages of whole paragraphs, each of so many characters
    or more, and every passage becomes a document.
    """

    language: str = "en"
    text_key: str = "text"
    layout: str | None = None
    # Shorter paragraphs come back by right: "Yes.", "Chapter I", "What do you mean by that?" she asked.
    min_duplicate_characters: PositiveInt = 64
    passage_characters: PositiveInt | None = None

    @field_validator("layout")
    @classmethod
    def _check_layout(cls, layout: str | None) -> str | None:
        if layout is not None and layout not in LAYOUTS:
            raise ValueError(f"unknown; one of {', '.join(LAYOUTS)}")
        return layout


@dataclass(frozen=True)
class UnitTask:
    """A unit with all that is needed to do it; `key` is a hash of everything its result depends on.

    `out` and `scratch` are the places of corpus and scratch files, `run_id` what the run left in the second
    to be known by. `vocabulary` is the fingerprint of the vocabulary in the corpus's folder, `dropped` what
    the first pass cleaned away. With a vocabulary of single characters words may be as long as lines are.
    """

    unit: Unit
    settings: PrepareSettings
    out: str
    scratch: str
    vocabulary: str
    run_id: str = ""
    keeps_long_tokens: bool = False
    key: str = ""
    dropped: dict[str, int] = field(default_factory=dict)

    def name(self, kind: str, suffix: str) -> str:
        """What the unit's file of a kind is called between the passes."""
        return f"{kind}-{self.unit.index:05d}{suffix}"


class HashRecord(Settings):
    """Written after a unit's hashes and its cleaned text: that they are whole, and what was cleaned away."""

    key: str
    num_text_bytes: int
    dropped: dict[str, int]


class UnitRecord(Settings):
    """Written after a unit's shards: what they hold, and what was dropped on the way."""

    key: str
    num_documents: int
    num_sentences: int
    num_pieces: int
    num_unknown: int
    num_characters: int
    dropped: dict[str, int]
    shards: tuple[ShardEntry, ...]


def build_key(*parts: object) -> str:
    """A hash of plain data, and of the version of what is done with it."""
    return hashlib.sha256(
        json.dumps([PREPARE_VERSION, *parts], sort_keys=True, default=str).encode()
    ).hexdigest()


def describe_unit(unit: Unit) -> list[object]:
    """What a unit's documents depend on: contents and borders, not places."""
    return [
        [
            part.source.name,
            part.source.kind,
            part.sha256,
            part.start,
            part.end,
            asdict(part.layout),
            part.heads,
        ]
        for part in unit.slices
    ]
