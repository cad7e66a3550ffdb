"""What is wrong with single rows of a file comes in; an error with the line, or counts to tell, go out."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from albert.errors import FileFormatError

# A file of which more than this share is left out is not what it was taken for.
MAX_SKIPPED_SHARE = 0.1
_MAX_QUOTED = 40  # characters


class BadRow(Exception):  # noqa: N818 - no error yet: it may be counted and left out
    """A row that makes no example: the reason, the same for all such rows, and the detail of this one.

    One that `is_fatal` tells of a mistake in more than this row, and is never merely counted.
    """

    def __init__(self, reason: str, detail: str = "", *, is_fatal: bool = False) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
        self.is_fatal = is_fatal


@dataclass(frozen=True, slots=True)
class _First:
    """The first place at which something was found."""

    line: int
    detail: str


class Problems:
    """What was wrong in one file: rows that were left out, and oddities of rows that were kept.

    `unit` is what is counted: lines, or the rows of Parquet, unless it is given. With `is_strict` the first
    row that would be left out is an error: where every row must be answered. `columns` are those that a table
    turned out to have.
    """

    def __init__(self, path: Path | str, *, unit: str = "", is_strict: bool = False) -> None:
        self.path = path
        self.unit = unit or ("row" if ".parquet" in Path(path).suffixes else "line")
        self.is_strict = is_strict
        self.skipped: Counter[str] = Counter()
        self.noted: Counter[str] = Counter()
        self._first: dict[str, _First] = {}
        self._columns: dict[str, None] = {}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that were found, in their order."""
        return tuple(self._columns)

    def find_columns(self, names: Iterable[str]) -> None:
        """Keep in mind that the table has these columns."""
        self._columns.update(dict.fromkeys(names))

    @property
    def num_skipped(self) -> int:
        """How many rows were left out."""
        return self.skipped.total()

    def skip(self, bad: BadRow, *, line: int) -> None:
        """Count a row as left out, or refuse it."""
        if self.is_strict or bad.is_fatal:
            detail = f" ({bad.detail})" if bad.detail else ""
            raise FileFormatError(
                f"{self.path}: {self.unit} {line}: {bad.reason}{detail}; mend it, or take it out"
            )
        self.skipped[bad.reason] += 1
        self._first.setdefault(bad.reason, _First(line, bad.detail))

    def note(self, reason: str, *, line: int, detail: str = "") -> None:
        """Count an oddity of a row that is kept."""
        self.noted[reason] += 1
        self._first.setdefault(reason, _First(line, detail))

    def check(self, num_good: int) -> None:
        """Refuse a file without a single example, or with too many rows left out."""
        if not num_good and not self.num_skipped:
            raise FileFormatError(f"{self.path}: holds no examples; check the path")
        total = num_good + self.num_skipped
        if self.num_skipped > MAX_SKIPPED_SHARE * total:
            reason = self.skipped.most_common(1)[0][0]
            raise FileFormatError(
                f"{self.path}: {self.num_skipped:,} of {total:,} {self.unit}s cannot be read, and at most "
                f"{MAX_SKIPPED_SHARE:.0%} may be left out: {self._describe(reason)}; mend them, or check the "
                "file"
            )

    def describe(self) -> list[str]:
        """A line for each kind of trouble, for a person."""
        left_out = [
            f"{self.path}: left out {number:,} {self.unit}{'s' * (number > 1)}: {self._describe(reason)}"
            for reason, number in self.skipped.most_common()
        ]
        kept = [
            f"{self.path}: {number:,} {self.unit}{'s' * (number > 1)} with {self._describe(reason)}"
            for reason, number in self.noted.most_common()
        ]
        return left_out + kept

    def _describe(self, reason: str) -> str:
        first = self._first[reason]
        return f"{reason} (first in {self.unit} {first.line}{': ' * bool(first.detail)}{first.detail})"


class HasLine(Protocol):
    """Anything that knows where it begins."""

    @property
    def line(self) -> int:
        """The line, counted from 1."""


R = TypeVar("R", bound=HasLine)
T = TypeVar("T")


def iter_good(rows: Iterable[R], build: Callable[[R], T], *, problems: Problems) -> Iterator[T]:
    """What `build` makes of each row; a `BadRow` that it raises is left out and counted."""
    for row in rows:
        try:
            built = build(row)
        except BadRow as bad:  # noqa: PERF203 - each row is judged by itself
            problems.skip(bad, line=row.line)
        else:
            yield built


def quote(text: str) -> str:
    """A text as an error shows it: in quotes, and not all of a long one."""
    return repr(text if len(text) <= _MAX_QUOTED else text[: _MAX_QUOTED - 1] + "…")
