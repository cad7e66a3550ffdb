"""What is checked before a commit: the project's own commands, all there, and the same as in `make check`."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
HOOKS = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
COMMANDS = [shlex.split(hook["entry"]) for repo in HOOKS for hook in repo["hooks"]]


def test_nothing_is_fetched_from_another_host():
    assert [repo["repo"] for repo in HOOKS] == ["local"]
    assert {hook["language"] for hook in HOOKS[0]["hooks"]} == {"system"}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_commands_are_there(command):
    tool = Path(command[0])
    assert tool.parent == Path(".venv/bin")  # what `make setup` makes
    known = Path(sys.executable).with_name(tool.name)
    assert known.exists()
    assert all((ROOT / word).exists() for word in command[1:] if word.endswith(".py"))


@pytest.mark.parametrize("command", [words for words in COMMANDS if "ruff" in words[0]], ids=" ".join)
def test_ruff_knows_what_it_is_asked(command):
    found = [str(Path(sys.executable).with_name("ruff")), *command[1:], "--check", str(Path(__file__))]
    if command[1] == "check":
        found.remove("--check")
    assert subprocess.run(found, cwd=ROOT, capture_output=True, check=False).returncode == 0


def test_all_that_make_check_runs_is_run():
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ncheck:")[2].partition("\n\n")[0]
    checked = re.findall(r"\$\(BIN\)/(\w+)(?: (check|format))?", recipe)
    assert checked
    hooked = {(Path(words[0]).name, next(iter(words[1:2]), "")) for words in COMMANDS}
    assert set(checked) <= hooked
