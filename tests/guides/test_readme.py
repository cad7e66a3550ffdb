"""Every command and every line of Python in the README works on tiny inputs."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from albert.cli.main import _run
from tests.guides.journeys import ROOT
from tests.guides.readme import list_commands, list_scripts
from tests.guides.typed_commands import iter_typed
from tests.tasks.published import TEXTS, write_lines
from tests.training.conftest import tell_stories

# A word of capitals is a placeholder: MODEL, TEXTS…, RUN2.
_PLACEHOLDER = re.compile(r"(?<![\w\[])[A-Z]{3,}[0-9]?…?(?![\w\]])")
FEW_STEPS = "num_steps=4 batch_size=4 num_evaluations=1 held_out.num_examples=8 num_workers=0"
ONE_EPOCH = "num_epochs=1 num_evaluations=1 max_length=32"


@dataclass(frozen=True)
class Filling:
    """The values of a command's placeholders in order; `less` replaces words, and `more` is added."""

    words: str = ""
    less: Mapping[str, str] = field(default_factory=dict)
    more: str = ""

    def fill(self, command: str) -> str:
        """The command that is run."""
        for words, others in self.less.items():
            assert words in command, f"{command!r} has no {words!r}"
            command = command.replace(words, others)
        given = iter(self.words.split())
        filled = _PLACEHOLDER.sub(lambda _: next(given), command)
        assert list(given) == [], f"{command!r} has fewer placeholders than the table has words"
        return f"{filled} {self.more}".strip()


# By the first words of a command; each is run in the README's order, on what those before it have left.
TABLE = {
    "albert quickstart": Filling(
        "texts quick",
        more="--minutes 0.1 vocab_size=200 pretrain.num_steps=12 pretrain.batch_size=4 "
        "pretrain.num_evaluations=2 pretrain.held_out.num_examples=8 "
        "num_train=80 num_dev=20 num_test=30 finetune.num_epochs=1",
    ),
    "albert params": Filling(),
    "albert fill-mask": Filling("nano"),
    "albert sentence-order": Filling("nano"),
    "albert embed": Filling("nano"),
    "albert embed --input": Filling(),
    "albert export int8": Filling("nano small-int8"),
    "albert export onnx": Filling("nano exported"),
    "albert convert": Filling("nano converted"),
    "albert vocab train": Filling("texts vocab", less={"--size 8000": "--size 90"}),
    "albert corpus prepare": Filling("texts vocab corpus"),
    "albert corpus show": Filling("corpus", more="max_length=40"),
    "albert corpus overlap": Filling("corpus questions.txt"),
    "albert pretrain": Filling("corpus run", less={"--budget 1h": FEW_STEPS}),
    "albert distill": Filling(
        "run texts student",
        more="num_steps=2 num_evaluations=1 held_out.num_examples=16 num_workers=0 examples.max_length=32 "
        "batch_size=32 distillation.exit_depths=[]",
    ),
    "albert evaluate pretraining": Filling("run corpus", more="--examples 8"),
    "albert finetune sst-2": Filling("run glue tuned", less={"--seeds 5": "--seeds 2"}, more=ONE_EPOCH),
    "albert finetune classification": Filling(more=ONE_EPOCH),
    "albert evaluate sst-2": Filling("tuned glue"),
    "albert predict sst-2": Filling("tuned questions.csv"),
    "albert study": Filling(
        "corpus study",
        less={"--budget 2h": "--arms all,none num_seeds=1 num_examples=8 has_footprint=false"},
        more="has_agreement=false pretrain.num_steps=2 pretrain.batch_size=4 pretrain.num_evaluations=1 "
        "pretrain.held_out.num_examples=8 pretrain.num_workers=0 pretrain.examples.max_length=40",
    ),
    "albert doctor": Filling("run"),
}
PYTHON = {
    '"path/to/folder"': '"nano"',
    'out="run", budget="1h"': f'out="run", overrides={FEW_STEPS.split()!r}',
    '"columns.label=mood"]': f'"columns.label=mood", *{ONE_EPOCH.split()!r}]',
}


def find_filling(command: str) -> Filling:
    """The longest entry that the command begins with; one that has none is an error."""
    found = [words for words in TABLE if f"{command} ".startswith(f"{words} ")]
    assert found, f"{command!r} is in the README, and no test runs it; give it a line in the table"
    return TABLE[max(found, key=len)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the README assumes: texts, a model, a task's files."""
    (tmp_path / "texts").mkdir()
    stories = "\n\n".join("\n".join(story) for story in tell_stories(200))
    (tmp_path / "texts" / "stories.txt").write_text(stories + "\n", encoding="utf-8")
    rows = [(text, number % 2) for number, text in enumerate(TEXTS)]
    for split in ("train", "dev"):
        write_lines(tmp_path / "glue" / "SST-2" / f"{split}.tsv", [("sentence", "label"), *rows])
    (tmp_path / "questions.txt").write_text("the ship left .\n", encoding="utf-8")
    (tmp_path / "questions.csv").write_text("sentence\na fine film\n", encoding="utf-8")
    lines = [f"{text} {number},{number % 2}\n" for number, text in enumerate(TEXTS * 3)]
    (tmp_path / "reviews.csv").write_text("review,mood\n" + "".join(lines), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_command_has_a_filling_and_every_filling_a_command():
    used = {id(find_filling(command)) for command in list_commands()}
    assert [words for words, filling in TABLE.items() if id(filling) not in used] == []
    filled = [find_filling(command).fill(command) for command in list_commands()]
    assert [command for command in filled if _PLACEHOLDER.search(command)] == []


@pytest.mark.slow
def test_every_command_of_the_readme_works(folder, capsys):
    for command in list_commands():
        filled = find_filling(command).fill(command)
        (words,) = iter_typed(filled)
        code = _run(words)
        captured = capsys.readouterr()
        assert code == 0, f"{filled}\n{captured.out}\n{captured.err}"
    assert (folder / "quick" / "report.html").is_file()
    assert (folder / "study" / "report.html").is_file()
    assert (folder / "answers.jsonl").read_text(encoding="utf-8").count("\n") == 1


@pytest.mark.slow
def test_the_python_of_the_readme_works(folder):
    assert _run(["vocab", "train", "texts", "--out", "vocab", "--size", "90"]) == 0
    assert _run(["corpus", "prepare", "texts", "--vocab", "vocab", "--out", "corpus"]) == 0
    for script in list_scripts():
        for words, others in PYTHON.items():
            assert words in script, f"the README's Python has no {words!r}"
            script = script.replace(words, others)
        names: dict[str, Any] = {}
        exec(compile(script, "README.md", "exec"), names)
        assert [len(states) for states in names["states"]] == [4, 3]


INSTALL = "pip install -c constraints.txt ."

# Python reads this file when it starts: what only the extras and the tests bring cannot be imported.
WITHOUT_EXTRAS = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {extras}:
            raise ImportError(f"{name} comes with an extra")

sys.meta_path.insert(0, Blocker())
""".replace("{extras}", repr({
    "ray", "datasets", "transformers", "accelerate", "sentence_transformers", "pytest", "hypothesis",
    "psutil", "pandas", "aiohttp", "requests", "mypy",
}))  # fmt: skip


@pytest.mark.slow
def test_an_installed_package_has_all_that_it_needs(tmp_path: Path) -> None:
    """From a copy, without its dependencies, which are here: recipes, model and pages come with it."""
    for name in ("pyproject.toml", "README.md", "constraints.txt", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "src" / "albert", tmp_path / "src" / "albert")
    home = tmp_path / "installed"
    words = [*INSTALL.split()[1:], "--quiet", "--no-deps", "--no-build-isolation", "--target", str(home)]
    subprocess.run([sys.executable, "-m", "pip", *words], cwd=tmp_path, check=True)
    shutil.rmtree(tmp_path / "src")
    files = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src" / "albert").rglob("*.*")}
    found = {str(path.relative_to(home)) for path in home.rglob("*.*")}
    assert {name for name in files - found if "__pycache__" not in name} == set()
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_EXTRAS, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{home}"}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "albert", *words]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    assert "pretrain" in run("--help").stdout
    assert "11,683,584" in run("params", "albert-base").stdout
    assert "mask 1:" in run("fill-mask", "--model", "nano", "the [MASK] was dark").stdout
    (tmp_path / "a.txt").write_text("It was dark.\n", encoding="utf-8")
    rejected = run("corpus", "prepare", "a.txt", "--vocab", "nano", "--out", "corpus", "--engine", "ray")
    assert rejected.returncode == 2
    assert "needs the extra `ray`; in the clone, run: pip install" in rejected.stderr
