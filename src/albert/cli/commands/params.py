"""`albert params`: presets and overrides come in, exact sizes go out, without torch."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from albert.cli.results import CommandResult


def params(
    presets: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PRESET…] [key=value…]", help="presets, and settings to change in them"),
    ] = None,
) -> CommandResult:
    """Exact parameter counts: the paper's table 1, its sharing strategies and groups, or any preset."""
    from albert.model.config import build_preset
    from albert.study import parameters

    names = [word for word in presets or () if "=" not in word]
    overrides = [word for word in presets or () if "=" in word]
    if names or overrides:
        tables = {
            "models": [
                parameters.build_row(name, build_preset(name, overrides=overrides))
                for name in names or ["albert-base"]
            ]
        }
    else:
        tables = {
            "models": parameters.list_sizes(),
            "albert-base by sharing": parameters.list_sharing(),
            "albert-base by groups": parameters.list_groups(),
        }
    return CommandResult(
        data={title: [_row_data(row) for row in rows] for title, rows in tables.items()},
        render=lambda console: _render(console, tables),
    )


def _row_data(row: Any) -> dict[str, Any]:
    return {**dataclasses.asdict(row), "agrees": row.agrees}


def _render(console: Any, tables: Mapping[str, Sequence[Any]]) -> None:
    from rich.table import Table

    for title, rows in tables.items():
        table = Table(title=title, title_justify="left")
        for column in ("model", "layers", "hidden", "embedding", "sharing", "groups"):
            table.add_column(column, justify="left" if column in ("model", "sharing") else "right")
        for column in ("with pooler", "with heads", "paper says", "agrees"):
            table.add_column(column, justify="right")
        for row in rows:
            table.add_row(
                row.name, str(row.num_hidden_layers), str(row.hidden_size), str(row.embedding_size),
                row.sharing, str(row.num_hidden_groups), f"{row.backbone:,}", f"{row.with_heads:,}",
                "" if row.paper_millions is None else f"{row.paper_millions}M",
                {True: "yes", False: "no", None: ""}[row.agrees],
            )  # fmt: skip
        console.print(table)
