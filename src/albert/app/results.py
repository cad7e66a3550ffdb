"""What a command gives back: data for a machine and a picture for a person; only one of them is printed."""

import dataclasses
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rich.console import Console


@dataclass(frozen=True)
class CommandResult:
    """`data` is what --json prints on stdout; `render` draws the same for a person.

    `exit_code` is not 0 where the work was stopped before its end. Of several processes that share a job, one
    speaks and the others are silent.
    """

    data: Any
    render: Callable[[Console], None]
    exit_code: int = 0
    is_silent: bool = False


def print_result(result: CommandResult, *, as_json: bool) -> None:
    """Print to stdout; messages and progress belong on stderr."""
    if as_json:
        json.dump(result.data, sys.stdout, ensure_ascii=False, indent=2, default=_plain)
        print()
        return
    # A pipe has no width of its own: wide enough that no table is folded.
    console = Console(
        width=None if sys.stdout.isatty() else 140, highlight=False, emoji=False, soft_wrap=False
    )
    result.render(console)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return str(value)
