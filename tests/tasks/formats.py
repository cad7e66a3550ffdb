"""Write the rows of a task in every format that can be read."""

import csv
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.tasks.tables import write_rows

OPTIONS = ("a", "b", "c", "d")
Rows = list[dict[str, Any]]


def write_table(path: Path, rows: Rows) -> Path:
    """Write a table in the format of its name; a cell of CSV and TSV is one text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".jsonl":
        return write_rows(path, rows)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
        return path
    flat = [flatten(row) for row in rows]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(flat[0]), delimiter="," if path.suffix == ".csv" else "\t")
        writer.writeheader()
        writer.writerows(flat)
    return path


def flatten(row: dict[str, Any]) -> dict[str, Any]:
    """Flatten a row: words joined by spaces, labels by commas, a column for each option."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if name == "options":
            flat |= dict(zip(OPTIONS, value, strict=True))
        elif name == "answers":
            flat["answers"] = "".join(value["text"][:1])
            flat["answer_start"] = value["answer_start"][0] if value["text"] else ""
        elif isinstance(value, list):
            flat[name] = ("," if name == "label" else " ").join(value)
        else:
            flat[name] = value
    return flat


def list_settings(task: str, format: str) -> list[str]:
    """List the settings that such a table needs."""
    is_flat = task == "multiple-choice" and format in ("csv", "tsv")
    return [f"columns.options=[{', '.join(OPTIONS)}]"] if is_flat else []


def name_line(format: str, index: int) -> str:
    """Name a row as messages do; a table with a header begins in line 2."""
    unit = "row" if format == "parquet" else "line"
    return f"{unit} {index + (2 if format in ('csv', 'tsv') else 1)}"
