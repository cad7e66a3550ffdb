"""What a command gives back: data for a machine and a picture for a person; only one of them is printed."""

import dataclasses
import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from albert.files import dump_json


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
        print(_format_json(result.data))
        return
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal may not know every character
        sys.stdout.reconfigure(errors="backslashreplace")
    # A pipe has no width of its own: wide enough that no table is folded. No markup: the name of a file, of a
    # label or of a column may hold brackets.
    width = None if sys.stdout.isatty() else 140
    console = Console(width=width, markup=False, highlight=False, emoji=False, soft_wrap=False)
    result.render(console)


def _format_json(data: Any) -> str:
    """As it is read best; with escapes where stdout cannot hold it, such as half a surrogate pair."""
    text = dump_json(data, ensure_ascii=False, indent=2, default=_plain)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return dump_json(data, indent=2, default=_plain)
    return text


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return str(value)
