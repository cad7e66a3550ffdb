"""Collect what is wrong with the rows of a file: skipped rows, and warnings about rows that were kept."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

from albert.errors import FileFormatError

# If more rows than this are skipped, the file is probably not what the user thinks it is.
MAX_SKIPPED_SHARE = 0.1
_MAX_QUOTED = 40  # characters


class BadRow(Exception):  # noqa: N818 - not an error yet: the row may be skipped and counted
    """A row that cannot be used: the reason, the same for all such rows, and the detail of this one.

    If `is_fatal`, more than this row is wrong, and the row is never skipped silently.
    """

    def __init__(self, reason: str, detail: str = "", *, is_fatal: bool = False) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
        self.is_fatal = is_fatal


class Problems:
    """What was wrong in one file.

    Args:
        path: The file, as messages name it.
        unit: What is counted: by default lines, or the rows of Parquet.
        is_strict: Raise at the first row that would be skipped, for files whose every row needs an answer.
    """

    def __init__(self, path: Path | str, *, unit: str = "", is_strict: bool = False) -> None:
        self.path = path
        self.unit = unit or ("row" if ".parquet" in Path(path).suffixes else "line")
        self.is_strict = is_strict
        self.skipped: Counter[str] = Counter()
        self.noted: Counter[str] = Counter()
        self._first: dict[str, str] = {}  # where a reason occurred first
        self._columns: dict[str, None] = {}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the file has, in their order."""
        return tuple(self._columns)

    def find_columns(self, names: Iterable[str]) -> None:
        """Record that the file has these columns."""
        self._columns.update(dict.fromkeys(names))

    @property
    def num_skipped(self) -> int:
        """The number of skipped rows."""
        return self.skipped.total()

    def skip(self, bad: BadRow, *, line: int) -> None:
        """Count a row as skipped, or raise `FileFormatError`."""
        if self.is_strict or bad.is_fatal:
            detail = f" ({bad.detail})" if bad.detail else ""
            raise FileFormatError(
                f"{self.path}: {self.unit} {line}: {bad.reason}{detail}; mend it, or take it out"
            )
        self._count(self.skipped, bad.reason, line, bad.detail)

    def note(self, reason: str, *, line: int, detail: str = "") -> None:
        """Count a warning about a row that is kept."""
        self._count(self.noted, reason, line, detail)

    def _count(self, counts: Counter[str], reason: str, line: int, detail: str) -> None:
        counts[reason] += 1
        self._first.setdefault(reason, f"{self.unit} {line}{': ' * bool(detail)}{detail}")

    def check(self, num_good: int) -> None:
        """Raise `FileFormatError` if the file has no examples, or too many rows were skipped."""
        if not num_good and not self.num_skipped:
            raise FileFormatError(f"{self.path}: holds no examples; check the path")
        total = num_good + self.num_skipped
        if self.num_skipped > MAX_SKIPPED_SHARE * total:
            reason = self.skipped.most_common(1)[0][0]
            raise FileFormatError(
                f"{self.path}: {self.num_skipped:,} of {total:,} {self.unit}s cannot be read, and at most "
                f"{MAX_SKIPPED_SHARE:.0%} may be left out: {reason} (first in {self._first[reason]}); mend "
                "them, or check the file"
            )

    def describe(self) -> list[str]:
        """Return a line for each reason, skipped rows first."""
        return [
            f"{self.path}: {f'left out {what}:' if counts is self.skipped else f'{what} with'} {reason} "
            f"(first in {self._first[reason]})"
            for counts in (self.skipped, self.noted)
            for reason, number in counts.most_common()
            for what in [f"{number:,} {self.unit}{'s' * (number > 1)}"]
        ]


class _HasLine(Protocol):
    @property
    def line(self) -> int: ...


R = TypeVar("R", bound=_HasLine)
T = TypeVar("T")


def iter_good(rows: Iterable[R], build: Callable[[R], T], *, problems: Problems) -> Iterator[T]:
    """Yield `build(row)` for each row; a row for which it raises `BadRow` is skipped and counted."""
    for row in rows:
        try:
            built = build(row)
        except BadRow as bad:  # noqa: PERF203 - each row is judged by itself
            problems.skip(bad, line=row.line)
        else:
            yield built


def quote(text: str) -> str:
    """Quote a text for an error message, shortened if it is long."""
    return repr(text if len(text) <= _MAX_QUOTED else text[: _MAX_QUOTED - 1] + "…")
