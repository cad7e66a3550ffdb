"""The command line: the table of commands, their common options, and exit codes.

Exit codes: 0 success; 1 a bug in albert; 2 a user error, reported in one line; 130 interrupted; 143 stopped
by SIGTERM. The modules of commands import torch inside their functions, so that help is fast.
"""

import importlib
import inspect
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Annotated, Any, NoReturn

import typer

from albert import __version__, threads
from albert.cli.command import INTERRUPTED, TERMINATED, CommandResult, print_result
from albert.errors import AlbertError, EchoError, TerminatedError, one_line

# The module of each command in albert.cli.commands; its function has the name of the command. The first of
# two words is a group.
COMMANDS = {
    "quickstart": "quickstart",
    "params": "params",
    "convert": "convert",
    "export int8": "export",
    "fill-mask": "ask",
    "sentence-order": "ask",
    "embed": "ask",
    "vocab train": "vocab",
    "vocab tokenize": "vocab",
    "corpus prepare": "corpus",
    "corpus show": "corpus",
    "corpus overlap": "corpus",
    "pretrain": "pretrain",
    "distill": "distill",
    "finetune": "finetune",
    "evaluate": "evaluate",
    "predict": "predict",
    "export onnx": "export",
    "study": "study",
    "doctor": "doctor",
}
SAVING_COMMANDS = {
    "corpus prepare",
    "pretrain",
    "distill",
    "finetune",
    "study",
}  # they handle SIGTERM themselves
GROUPS = {
    "vocab": "Train a vocabulary, or tokenize texts.",
    "corpus": "Prepare a corpus for pretraining, or inspect one.",
    "export": "Write a model for other runtimes, and verify it.",
}

# click's class for a wrong command line; typer has a click of its own and exports only subclasses.
UsageError: Any = typer.BadParameter.__base__

VersionFlag = Annotated[bool, typer.Option("--version", help="Show the version and exit.")]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
DebugFlag = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def build_app() -> typer.Typer:
    """Build the typer application from the table of commands."""
    app = typer.Typer(
        name="albert",
        help="Train and use ALBERT models: prepare text, pretrain, fine-tune, evaluate and predict.",
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        rich_markup_mode=None,  # plain help starts faster and keeps brackets
    )
    app.callback(invoke_without_command=True)(_show_version)
    groups = {"": app}
    for command, module in COMMANDS.items():
        group, _, name = command.rpartition(" ")
        target = getattr(importlib.import_module(f"albert.cli.commands.{module}"), name.replace("-", "_"))
        if group not in groups:
            groups[group] = typer.Typer(help=GROUPS[group], rich_markup_mode=None)
            app.add_typer(groups[group], name=group)
        groups[group].command(name)(_add_common_options(target, command in SAVING_COMMANDS))
    return app


def _show_version(version: VersionFlag = False) -> None:
    if version:
        print(f"albert {__version__}")
        raise typer.Exit


def _add_common_options(function: Callable[..., CommandResult], handles_sigterm: bool) -> Callable[..., int]:
    """Wrap a command: add --json and --debug, print its result, return its exit code."""

    def run(*, as_json: bool, debug: bool, **arguments: Any) -> int:
        try:
            with nullcontext() if handles_sigterm else _raise_on_sigterm():
                result = function(**arguments)
        except TerminatedError:  # typer would treat both as Ctrl-C in its own code
            return _fail("stopped by SIGTERM", TERMINATED, debug)
        except KeyboardInterrupt:
            return _fail("interrupted", INTERRUPTED, debug)
        if not result.is_silent:
            print_result(result, as_json=as_json)
        return result.exit_code

    parameters = list(inspect.signature(function).parameters.values())
    for name, annotation in (("as_json", JsonFlag), ("debug", DebugFlag)):
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(name, kind, default=False, annotation=annotation))
    run.__doc__ = function.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


@contextmanager
def _raise_on_sigterm() -> Iterator[None]:
    """Raise TerminatedError at SIGTERM, so that temporary files are removed; a second SIGTERM kills."""

    def end(*_: object) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise TerminatedError

    previous = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit with its code."""
    threads.set_variables()  # before torch is loaded
    warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
    sys.exit(_run(list(sys.argv[1:] if arguments is None else arguments)))


def _run(words: list[str]) -> int:
    is_debugging = "--debug" in words
    try:
        needs_help = " ".join(words) in ("", *GROUPS)
        code = build_app()(args=[*words, "--help"] if needs_help else words, standalone_mode=False)
        sys.stdout.flush()  # a full disk or a closed pipe raises here
        return code if isinstance(code, int) else 0
    except EchoError:
        return 2
    except AlbertError as error:
        return _fail(str(error), 2, is_debugging)
    except UsageError as error:
        return _fail(f"{error.format_message()} (see --help)", 2, is_debugging)
    except (BrokenPipeError, SystemExit) as error:
        # `albert … | head` is not an error; typer raises SystemExit for it.
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise
        _discard_output()
        return 0
    except OSError as error:
        _discard_output()
        path = error.filename2 or error.filename or "system error"
        return _fail(f"{path}: {error.strerror or error}", 2, is_debugging)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        return _fail(f"{text} (a bug in albert; --debug shows the traceback)", 1, is_debugging)


def _discard_output() -> None:
    """Redirect stdout to the null device if it cannot be written, which Python would report again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, code: int, is_debugging: bool) -> int:
    if is_debugging:
        traceback.print_exc()
    print(f"error: {one_line(message)}", file=sys.stderr)
    return code
