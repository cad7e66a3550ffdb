"""The names of labels come in, in any order; a table from names to places and back goes out."""

import difflib
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from albert.data.rows import BadRow, quote
from albert.errors import FileFormatError

MAX_FOUND = 1000
_SHOWN = 12
# A longer one is no number that anybody counted to, and Python refuses to read one of thousands of digits.
_WHOLE = re.compile(r"-?[0-9]{1,18}\.0+")


@dataclass(frozen=True)
class Labels:
    """Names by place: the model's output i is `names[i]`."""

    names: tuple[str, ...]

    @cached_property
    def _places(self) -> dict[str, int]:
        places = {name: place for place, name in enumerate(self.names)}
        for place, name in enumerate(self.names):
            places.setdefault(plain_label(name), place)
        return places

    def place(self, name: str) -> int:
        """The place of a name; one that is not in the table is a mistake in the whole file."""
        place = self._places.get(name)
        if place is None:
            known = f"known: {self.describe()}{self._suggest(name)}"
            raise BadRow(f"the label {quote(name)} is unknown", known, is_fatal=True)
        return place

    def _suggest(self, name: str) -> str:
        plain = {fold_label(known): known for known in self.names}
        close = difflib.get_close_matches(fold_label(name), plain, n=1, cutoff=0.8)
        return f"; did you mean {quote(plain[close[0]])}?" if close else ""

    def find_alike(self) -> list[tuple[str, str]]:
        """Pairs of names that differ in nothing but capitals and white space: one label, spelled twice?"""
        first: dict[str, str] = {}
        pairs = ((first.setdefault(fold_label(name), name), name) for name in self.names)
        return [pair for pair in pairs if pair[0] != pair[1]]

    def describe(self) -> str:
        """The names for a person: all of a few, and how many more."""
        more = f" and {len(self.names) - _SHOWN:,} more" if len(self.names) > _SHOWN else ""
        return ", ".join(self.names[:_SHOWN]) + more


def fold_label(name: str) -> str:
    """A name without what people spell differently by mistake."""
    return " ".join(name.casefold().split())


def plain_label(name: str) -> str:
    """A number or truth value as every format calls it: 1.0 is 1, and True is `true`."""
    if name in ("True", "False"):
        return name.lower()
    return str(int(name.partition(".")[0])) if _WHOLE.fullmatch(name) else name


def build_labels(names: Iterable[str], *, source: str, least: int = 2) -> Labels:
    """The table of all names that were found, numbers by size and words by alphabet, whatever their order.

    Refused: fewer than `least`, and so many that they are no labels but numbers or texts.
    """
    found = set(names)
    if len(found) < least:
        only = f"only the label {quote(next(iter(found)))}" if found else "no label"
        raise FileFormatError(
            f"{source}: has {only}, and at least {least} are needed; check the column of the labels"
        )
    if len(found) > MAX_FOUND:
        raise FileFormatError(
            f"{source}: has {len(found):,} different labels, and {MAX_FOUND:,} are taken to be names; for "
            "numbers ask for regression, or give the names of the labels"
        )
    return Labels(tuple(sorted(found, key=_by_size_or_name)))


def _by_size_or_name(name: str) -> tuple[float, str]:
    try:
        number = float(name)
    except ValueError:
        return math.inf, name
    return (math.inf if math.isnan(number) else number), name
