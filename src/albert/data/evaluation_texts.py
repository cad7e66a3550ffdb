"""A task's file of any usual kind comes in, all the texts in it go out."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from albert.data.cleaning import looks_binary
from albert.data.decompress import HEAD_BYTES, OPENERS, iter_bytes
from albert.errors import FileFormatError
from albert.files import MAX_CSV_FIELD


def iter_texts(path: Path) -> Iterator[str]:
    """Every text of a task's file, or of all files of a folder.

    These are the cells of .tsv and .csv, the strings of .json and .jsonl, and else the lines.
    """
    path = Path(path)
    if path.is_dir():
        for file in sorted(file for file in path.rglob("*") if file.is_file()):
            if not any(part.startswith(".") for part in file.relative_to(path).parts):
                yield from iter_texts(file)
        return
    data = b"".join(iter_bytes(path))
    if looks_binary(data[:HEAD_BYTES]):
        raise FileFormatError(
            f"{path}: is no text in UTF-8; what is read are .tsv, .csv, .json, .jsonl and lines of text: "
            "convert it, or leave it out"
        )
    text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")
    lines = text.removesuffix("\n").split("\n")  # other characters that end lines may stand inside a text
    suffixes = [suffix for suffix in path.suffixes if suffix not in OPENERS]
    suffix = suffixes[-1] if suffixes else ""
    if suffix == ".tsv":
        yield from (cell for line in lines for cell in line.split("\t"))
    elif suffix == ".csv":
        csv.field_size_limit(MAX_CSV_FIELD)
        yield from (cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row)
    elif suffix == ".jsonl":
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield from _iter_strings(_parse(line, f"{path}: line {number}"))
    elif suffix == ".json" or text.lstrip().startswith("{"):  # RACE keeps JSON in files named .txt
        yield from _iter_strings(_parse(text, str(path)))
    else:
        yield from lines


def _parse(text: str, source: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
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
