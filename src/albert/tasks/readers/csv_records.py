"""The lines of a CSV file come in; its records go out, each known by its first line.

A quote that is opened and not closed makes a reader of CSV take all lines up to the next quote for one text,
or all of the file. Here a record may be long but not endless, and of one that turns out to be broken only its
first line is lost: reading goes on with the line after it.
"""

import csv
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from albert.files import MAX_CSV_FIELD
from albert.tasks.problems import BadRow, Problems
from albert.tasks.readers.lines import Line

MAX_RECORD_LINES = 10_000
MAX_RECORD_CHARACTERS = 1 << 24
# From so many lines on, a record is told of: two stray quotes may enclose what was meant to be many.
LONG_RECORD_LINES = 100
_NEVER_CLOSED = "a quote that is opened and never closed"


@dataclass(frozen=True, slots=True)
class Record:
    """The fields of a record, and the line at which it begins."""

    line: int
    fields: list[str]


class _EndlessRecordError(Exception):
    """A record that goes on for longer than any text."""


class _Feed:
    """Lines for a reader of CSV; those of a record can be taken back."""

    def __init__(self, lines: Iterator[Line]) -> None:
        self._lines = lines
        self._waiting: deque[Line] = deque()
        self.taken: list[Line] = []
        self._num_characters = 0

    def __iter__(self) -> "_Feed":
        return self

    def __next__(self) -> str:
        line = self._waiting.popleft() if self._waiting else next(self._lines)
        self.taken.append(line)
        self._num_characters += len(line.text)
        if len(self.taken) > MAX_RECORD_LINES or self._num_characters > MAX_RECORD_CHARACTERS:
            raise _EndlessRecordError
        return line.text + line.end  # inside quotes it is text: places in it are counted with its ends

    def begin_record(self) -> None:
        """What was taken is done with."""
        self.taken, self._num_characters = [], 0

    def give_up_first(self) -> Line:
        """Take back all lines of the record but its first, which goes out."""
        first, *others = self.taken
        self._waiting.extendleft(reversed(others))
        self.begin_record()
        return first


def iter_records(lines: Iterator[Line], *, delimiter: str, problems: Problems) -> Iterator[Record]:
    """The records below the header; a line with which a broken one begins is counted and left out."""
    csv.field_size_limit(MAX_CSV_FIELD)
    feed = _Feed(lines)
    reader = csv.reader(feed, delimiter=delimiter, strict=True)
    while True:
        feed.begin_record()
        try:
            fields = next(reader)
        except StopIteration:
            return
        except (csv.Error, _EndlessRecordError) as error:
            line = feed.give_up_first().line
            problems.skip(_explain(error), line=line)
            reader = csv.reader(feed, delimiter=delimiter, strict=True)
        else:
            if not fields:
                continue
            first = feed.taken[0].line
            if len(feed.taken) >= LONG_RECORD_LINES:
                problems.note(
                    "a text over very many lines; is a quote missing?",
                    line=first,
                    detail=f"it ends in line {feed.taken[-1].line}",
                )
            yield Record(first, fields)


def _explain(error: Exception) -> BadRow:
    if isinstance(error, _EndlessRecordError) or "end of data" in str(error):
        return BadRow(_NEVER_CLOSED, "double or close it")
    return BadRow("not valid CSV", str(error))
