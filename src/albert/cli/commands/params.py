"""`albert params`: count the parameters of presets, without torch."""

import dataclasses
from typing import Annotated, Any

from typer import Argument

from albert.cli.command import CommandResult, print_table


def params(
    presets: Annotated[
        list[str] | None,
        Argument(
            metavar="PRESET|key=value", help="Presets, and settings to change, such as hidden_size=512."
        ),
    ] = None,
) -> CommandResult:
    """Count the parameters of presets. Without arguments: table 1 of the paper, sharing and groups."""
    from albert.model.config import build_preset
    from albert.study import parameters

    names = [word for word in presets or () if "=" not in word]
    overrides = [word for word in presets or () if "=" in word]
    if names or overrides:
        names = names or ["albert-base"]
        rows = [parameters.build_row(name, build_preset(name, overrides=overrides)) for name in names]
        tables = {"models": rows}
    else:
        tables = {
            "models": parameters.list_sizes(),
            "albert-base by sharing": parameters.list_sharing(),
            "albert-base by groups": parameters.list_groups(),
        }

    def render(console: Any) -> None:
        columns = ("model", "layers>", "hidden>", "embedding>", "sharing", "groups>", "with pooler>")
        for title, rows in tables.items():
            console.print(title)
            cells = [
                (row.name, str(row.num_hidden_layers), str(row.hidden_size), str(row.embedding_size),
                 row.sharing, str(row.num_hidden_groups), f"{row.backbone:,}", f"{row.with_heads:,}",
                 "" if row.paper_millions is None else f"{row.paper_millions}M",
                 {True: "yes", False: "no", None: ""}[row.agrees])
                for row in rows
            ]  # fmt: skip
            print_table(console, (*columns, "with heads>", "paper>", "agrees>"), cells)

    data = {
        title: [{**dataclasses.asdict(row), "agrees": row.agrees} for row in rows]
        for title, rows in tables.items()
    }
    return CommandResult(data, render)
