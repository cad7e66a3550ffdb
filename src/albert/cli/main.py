"""The command line: words come in, an exit code goes out. The table of commands is here and nowhere else.

Exit codes: 0 done; 1 our own mistake; 2 the user's, told in one line; 130 interrupted; 143 stopped by
SIGTERM, where there is something to save after saving it.
"""

import copy
import importlib
import inspect
import os
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn

import typer

from albert import __version__
from albert.cli.options import INTERRUPTED, TERMINATED
from albert.cli.results import CommandResult, print_result
from albert.errors import AlbertError, EchoError, TerminatedError, one_line


@dataclass(frozen=True)
class Command:
    """A command's words and the function behind them, as `module:function` below albert.cli.commands.

    Of two words, the first is a group of commands. Without `is_ended`, SIGTERM is the command's own affair:
    it saves what it has, or its work is found where it lies.
    """

    name: str
    target: str
    is_ended: bool = True


COMMANDS = (
    Command("quickstart", "quickstart:quickstart"),
    Command("params", "params:params"),
    Command("convert", "convert:convert"),
    Command("fill-mask", "ask:fill_mask"),
    Command("sentence-order", "ask:sentence_order"),
    Command("embed", "ask:embed"),
    Command("vocab train", "vocab:train"),
    Command("vocab tokenize", "vocab:tokenize"),
    Command("corpus prepare", "corpus:prepare", is_ended=False),
    Command("corpus show", "corpus:show"),
    Command("corpus overlap", "corpus:overlap"),
    Command("pretrain", "pretrain:pretrain", is_ended=False),
    Command("finetune", "finetune:finetune", is_ended=False),
    Command("evaluate", "evaluate:evaluate"),
    Command("predict", "predict:predict"),
    Command("study", "study:study", is_ended=False),
    Command("doctor", "doctor:doctor"),
)

GROUPS = {
    "vocab": "Vocabularies: train one, see how it cuts a text.",
    "corpus": "Corpora: from untidy text to shards of pieces.",
}

# typer keeps its click in different places from version to version; its public exception leads there.
UsageError: Any = typer.BadParameter.__base__

JsonFlag = Annotated[bool, typer.Option("--json", help="print the result as JSON")]
DebugFlag = Annotated[bool, typer.Option("--debug", help="show the traceback of an error")]

# What rich would take for a style and leave out of a help: [default: 3].
_STYLE_LIKE = re.compile(r"\[(?=[a-z#/@])")


def build_app() -> typer.Typer:
    """The typer application of the table."""
    app = typer.Typer(
        name="albert",
        help="The complete ALBERT: small, strong text encoders on little hardware.",
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_main_options)
    groups = {"": app}
    for command in COMMANDS:
        module, function = command.target.split(":")
        target = getattr(importlib.import_module(f"albert.cli.commands.{module}"), function)
        group, _, name = command.name.rpartition(" ")
        if group not in groups:
            groups[group] = typer.Typer(help=GROUPS[group])
            app.add_typer(groups[group], name=group)
        groups[group].command(name)(_with_common_options(target, is_ended=command.is_ended))
    return app


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        print(f"albert {__version__}")
        raise typer.Exit


def _main_options(
    version: Annotated[
        bool, typer.Option("--version", help="show the version", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Options that come before a command."""


@dataclass(frozen=True)
class _Done:
    """A command that came to its end, or to a stop of its own making."""

    exit_code: int


def _with_common_options(function: Callable[..., CommandResult], *, is_ended: bool) -> Callable[..., _Done]:
    """The function with --json and --debug added, printing its result."""

    def run(*, as_json: bool, debug: bool, **arguments: Any) -> _Done:
        try:
            with _ending_on_sigterm() if is_ended else nullcontext():
                result = function(**arguments)
        except TerminatedError:  # here, for typer would take it for Ctrl-C
            return _Done(_fail("stopped by SIGTERM", TERMINATED, debug))
        if not result.is_silent:
            print_result(result, as_json=as_json)
        return _Done(result.exit_code)

    parameters = [_with_brackets(each) for each in inspect.signature(function).parameters.values()]
    for name, annotation in (("as_json", JsonFlag), ("debug", DebugFlag)):
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(name, kind, default=False, annotation=annotation))
    run.__doc__ = function.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


@contextmanager
def _ending_on_sigterm() -> Iterator[None]:
    """Have SIGTERM end the block as Ctrl-C does, so that nothing half-written is left; a second one kills."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def end(*_: object) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise TerminatedError

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _with_brackets(parameter: inspect.Parameter) -> inspect.Parameter:
    """The parameter with a help, where it has one, whose brackets are shown."""
    hint = parameter.annotation
    if not getattr(hint, "__metadata__", None):
        return parameter
    info = copy.copy(hint.__metadata__[0])
    info.help = info.help and _STYLE_LIKE.sub(r"\\[", info.help)
    return parameter.replace(annotation=Annotated[hint.__origin__, info])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit with its code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by who started us (`>&-`): nobody is to be told
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    warnings.showwarning = _show_warning
    sys.exit(_run(words))


def _run(words: list[str]) -> int:
    is_debugging = "--debug" in words
    try:
        asks_for_help = " ".join(words) in ("", *GROUPS)
        code = build_app()(args=[*words, "--help"] if asks_for_help else words, standalone_mode=False)
        if code == INTERRUPTED:  # typer's answer to Ctrl-C
            raise KeyboardInterrupt
        sys.stdout.flush()  # a reader that has gone or a full disk shows here, and not at the very end
        if isinstance(code, _Done):
            return code.exit_code
        return code if isinstance(code, int) else 0
    except EchoError:
        return 2
    except AlbertError as error:
        return _fail(str(error), 2, is_debugging)
    except UsageError as error:
        return _fail(f"{error.format_message()} (--help lists what there is)", 2, is_debugging)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", INTERRUPTED, is_debugging)
    except (BrokenPipeError, SystemExit) as error:
        # The reader has gone (`albert … | head`), for which typer has an exit of its own: not an error.
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise
        _abandon_output()
        return 0
    except OSError as error:
        _abandon_output()
        place = error.filename2 or error.filename or "the system"
        return _fail(f"{place}: {error.strerror or error}", 2, is_debugging)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        return _fail(f"this is a mistake in albert, not yours ({text}); --debug shows where", 1, is_debugging)


def _abandon_output() -> None:
    """Where the output cannot be written, send the rest nowhere: Python would complain of it once more."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, code: int, is_debugging: bool) -> int:
    if is_debugging:
        traceback.print_exc()
    print(f"error: {one_line(message)}", file=sys.stderr)
    return code


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"warning: {message}", file=sys.stderr)
