"""Find the `albert` commands in blocks of shell code, and parse them."""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from typing import Any

import typer

from albert.cli.main import build_app

_HEREDOC = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?")
_BREAKS = {"|", "||", "&&", "&", ";", "(", ")", "<", ">", ">>", "|&", ">&", "<<"}
_MAX_WORDS_BEFORE = 40  # of torchrun


def iter_typed(text: str) -> Iterator[list[str]]:
    """Yield the words after each `albert` of a shell block, and after `-m albert` of a launcher."""
    for line in _iter_commands(text):
        for words in _split_line(line):
            if words[:1] == ["albert"]:
                yield words[1:]
            elif "-m" in words[:_MAX_WORDS_BEFORE] and words[words.index("-m") + 1 :][:1] == ["albert"]:
                yield words[words.index("-m") + 2 :]


def _iter_commands(text: str) -> Iterator[str]:
    """Yield the lines of a block, continued ones joined, without here-documents."""
    lines = iter(text.replace("\\\n", " ").splitlines())
    for line in lines:
        yield _HEREDOC.sub("", line)
        if found := _HEREDOC.search(line):
            while next(lines) != found[1]:
                pass


def _split_line(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in lexer:
        if word in _BREAKS:
            yield words
            words = []
        elif words or not re.fullmatch(r"[A-Z_]+=.*", word):  # variables come before a command
            words.append(word)
    yield words


@cache
def _build_tree() -> Any:
    return typer.main.get_command(build_app())


def check_typed(words: list[str]) -> None:
    """Parse the words of a command as `albert` would, without running it; raise if they are wrong."""
    command = _build_tree()
    path = "albert"
    while hasattr(command, "commands"):
        assert words, f"{path}: a command is missing"
        assert words[0] in command.commands, f"{path} {words[0]}: there is no such command"
        command, path, words = command.commands[words[0]], f"{path} {words[0]}", words[1:]
    command.make_context(path, list(words))
