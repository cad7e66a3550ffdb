"""A task's file of any usual kind comes in, all the texts in it go out."""

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from albert.corpus.decompress import OPENERS, iter_bytes
from albert.errors import FileFormatError


def iter_texts(path: Path) -> Iterator[str]:
    """Every text of a task's file, or of all files of a folder.

    These are the cells of .tsv and .csv, the strings of .json and .jsonl, and else the lines.
    """
    path = Path(path)
    if path.is_dir():
        for file in sorted(file for file in path.rglob("*") if file.is_file()):
            yield from iter_texts(file)
        return
    text = b"".join(iter_bytes(path)).decode("utf-8-sig", "replace")
    suffixes = [suffix for suffix in path.suffixes if suffix not in OPENERS]
    suffix = suffixes[-1] if suffixes else ""
    if suffix == ".tsv":
        yield from (cell for line in text.splitlines() for cell in line.split("\t"))
    elif suffix == ".csv":
        csv.field_size_limit(sys.maxsize)
        yield from (cell for row in csv.reader(text.splitlines(keepends=True)) for cell in row)
    elif suffix == ".jsonl":
        for number, line in enumerate(text.splitlines(), start=1):
            if line.strip():
                yield from _iter_strings(_parse(line, f"{path}: line {number}"))
    elif suffix == ".json" or text.lstrip().startswith("{"):  # RACE keeps JSON in files named .txt
        yield from _iter_strings(_parse(text, str(path)))
    else:
        yield from text.splitlines()


def _parse(text: str, source: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise FileFormatError(f"{source}: not valid JSON ({error}); mend it or fetch it again") from error


def _iter_strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _iter_strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _iter_strings(inner)
