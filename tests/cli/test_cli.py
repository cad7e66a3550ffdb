"""The command line: output, exit codes, and the time to start."""

import json
import os
import resource
import signal
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import albert
from albert.cli import main as cli
from albert.cli.command import CommandResult
from albert.files import open_output

NAMES = list(cli.COMMANDS)


def start(*words: str, stdout: Any = subprocess.PIPE) -> "subprocess.CompletedProcess[str]":
    """`python -m albert WORD…` in a process of its own, its output buffered as in a user's."""
    env = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "albert", *words]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, env=env)


@pytest.fixture
def register(monkeypatch) -> Callable[..., None]:
    """Add a command, `albert extra`, to the table."""

    def add(function: Callable[[], CommandResult], *, handles_sigterm: bool = False) -> None:
        module = types.ModuleType("albert.cli.commands.extra")
        module.__dict__["extra"] = function
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(cli.COMMANDS, "extra", "extra")
        if handles_sigterm:
            monkeypatch.setattr(cli, "SAVING_COMMANDS", {*cli.SAVING_COMMANDS, "extra"})

    return add


def test_help_lists_every_command(run_albert):
    done = run_albert("--help")
    assert (done.code, done.err) == (0, "")
    assert done == run_albert()
    assert [name for name in NAMES if f" {name.split()[0]} " not in done.out] == []


@pytest.mark.parametrize("group", cli.GROUPS)
def test_a_group_alone_lists_its_commands(group, run_albert):
    done = run_albert(group)
    assert (done.code, done.err) == (0, "")
    assert done == run_albert(group, "--help")
    members = [name.removeprefix(f"{group} ") for name in NAMES if name.startswith(f"{group} ")]
    assert members
    assert [name for name in members if f" {name} " not in done.out] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_command_explains_itself_and_has_the_common_options(name, run_albert):
    done = run_albert(*name.split(), "--help")
    assert (done.code, done.err) == (0, "")
    assert "--json" in done.out
    assert "--debug" in done.out


def test_the_version_is_the_packages(run_albert):
    done = run_albert("--version")
    assert (done.code, done.out, done.err) == (0, f"albert {albert.__version__}\n", "")


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["parms"], ["parms", "params"]),
        (["params", "--jsn"], ["--jsn", "--json"]),
        (["embed", "--model", "x"], ["TEXT"]),
        (["embed", "text"], ["--model"]),
        (["fill-mask", "--model", "x", "--top", "many", "a [MASK]"], ["--top", "integer"]),
        (["params", "nanoo"], ["nanoo", "nano?"]),
        (["params", "nothing-like-it"], ["nothing-like-it", "albert-base-v1"]),
        (["params", "nano", "hidden_sise=8"], ["hidden_sise", "hidden_size"]),
        (["params", "hidden_size=100"], ["hidden_size 100", "num_attention_heads 12"]),
    ],
)
def test_a_mistake_is_one_line_with_the_value_and_the_fix(words, names, run_albert):
    error = run_albert(*words).error
    assert all(name in error for name in names), error


def test_debug_shows_where_an_error_came_from(run_albert):
    done = run_albert("params", "nanoo", "--debug")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Traceback (most recent call last):")
    assert done.err.splitlines()[-1].startswith("error: ")


def test_a_bug_exits_with_1(register, run_albert):
    def extra() -> CommandResult:
        raise ZeroDivisionError("no such number")

    register(extra)
    done = run_albert("extra")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: ZeroDivisionError: no such number")
    assert "Traceback" in run_albert("extra", "--debug").err


def test_a_file_that_cannot_be_used_is_named(register, run_albert, tmp_path):
    def extra() -> CommandResult:
        raise AssertionError(tmp_path.joinpath("absent").read_text())

    register(extra)
    assert str(tmp_path / "absent") in run_albert("extra").error


@pytest.mark.parametrize("where", ["in a command", "at standard input"])
def test_an_interrupt_exits_with_130(where, register, run_albert, monkeypatch):
    class Terminal:
        buffer = property(lambda self: signal.raise_signal(signal.SIGINT))

    def extra() -> CommandResult:
        raise KeyboardInterrupt

    register(extra)
    monkeypatch.setattr(sys, "stdin", Terminal())
    words = ["extra"] if where == "in a command" else ["embed", "--model", "x", "-"]
    done = run_albert(*words)
    assert (done.code, done.out, done.err) == (130, "", "error: interrupted\n")


@pytest.mark.parametrize("handles_sigterm", [False, True])
def test_sigterm_leaves_nothing_half_written_and_exits_with_143(
    handles_sigterm, register, run_albert, tmp_path
):
    def extra() -> CommandResult:
        with open_output(tmp_path / "answers.jsonl") as file:
            file.write(b"half of the answ")
            signal.raise_signal(signal.SIGTERM)
        return CommandResult({}, lambda console: None)

    register(extra, handles_sigterm=handles_sigterm)
    seen: list[int] = []
    if handles_sigterm:
        signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
    done = run_albert("extra")
    if handles_sigterm:
        assert (done.code, seen) == (0, [signal.SIGTERM])
    else:
        assert (done.code, done.out, done.err) == (143, "", "error: stopped by SIGTERM\n")
        assert not list(tmp_path.iterdir())
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_json_has_stdout_to_itself(register, run_albert):
    def extra() -> CommandResult:
        print("a message", file=sys.stderr)
        data = {"text": "Grüße", "path": Path("a"), "loss": float("nan")}
        return CommandResult(data, lambda console: console.print("a picture"))

    register(extra)
    done = run_albert("extra", "--json")
    assert (done.code, done.err) == (0, "a message\n")
    assert json.loads(done.out) == {"text": "Grüße", "path": "a", "loss": None}
    assert "Grüße" in done.out
    assert run_albert("extra").out == "a picture\n"


def test_a_reader_that_goes_away_is_no_error():
    # What `albert params | head -1` comes to, without the race for who is first.
    reading, writing = os.pipe()
    os.close(reading)
    done = start("params", stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device here is always full")
def test_output_that_cannot_be_written_is_an_error():
    with open("/dev/full", "w") as full:
        done = start("params", "--json", stdout=full)
    assert done.returncode == 2
    assert "No space left on device" in done.stderr


def seconds(*words: str) -> float:
    """Processor seconds of one run of Python."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


@pytest.mark.alone
@pytest.mark.parametrize(
    ("words", "limit"),
    [
        (["-c", "import albert"], 1),
        (["-m", "albert", "--help"], 3),
        (["-m", "albert", "params", "--json"], 4),
    ],
)
def test_help_and_params_are_quick(words, limit):
    """Relative to the import of the library of the command line, whatever machine this is."""
    pairs = [(seconds(*words), seconds("-c", "import typer.rich_utils")) for _ in range(3)]
    ours, theirs = (min(times) for times in zip(*pairs, strict=True))
    assert ours < limit * theirs


def test_help_and_params_do_not_import_torch():
    code = (
        "import sys\nfrom albert.cli.main import _run\n"
        "codes = [_run(words.split()) for words in ('--help', 'finetune --help', 'params --json')]\n"
        "print(codes, 'torch' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[0, 0, 0] False\n"
