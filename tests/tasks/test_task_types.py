"""Only the module of a task type knows its type: no other module branches on it."""

import ast
import re
from pathlib import Path

import pytest

import albert
from albert.tasks.catalogue import TASK_TYPES

ROOT = Path(albert.__file__).parent
TYPE_MODULES = {ROOT / "tasks" / f"{each.__module__.rpartition('.')[2]}.py" for each in TASK_TYPES}
CLASSES = "|".join(
    node.name
    for path in sorted(TYPE_MODULES)
    for node in ast.parse(path.read_text(encoding="utf-8")).body
    if isinstance(node, ast.ClassDef)
)
VALUE = r"\(?'[a-z_-]+'"
# In the form that `ast.unparse` gives every line.
BRANCH = re.compile(
    rf"(isinstance|issubclass)\(.*\b({CLASSES})\b|type\(.*\) (is|==) ({CLASSES})\b|case [\w.]*({CLASSES})\("
    rf"|\b(task_type|label_kind|method) (==|!=|in|not in) {VALUE}|{VALUE} (==|!=) .*(task_type|label_kind)\b"
    r"|(?<!_TYPES)(\[|\.get\()[\w.]+\.(task_type|label_kind)[\]),]|match [\w.]+\.(task_type|label_kind):"
)


def find_branches(source: str) -> list[str]:
    return [line for line in ast.unparse(ast.parse(source)).splitlines() if BRANCH.search(line)]


def test_no_other_module_branches_on_a_task_type():
    others = [path for path in sorted(ROOT.rglob("*.py")) if path not in TYPE_MODULES]
    found = {str(path): find_branches(path.read_text(encoding="utf-8")) for path in others}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "line",
    [
        "isinstance(example, (int, classification.TextExample))",
        "config.task_type == 'classification'",
        "config.task_type in ('classification', 'token-classification')",
        "names[config.task_type]",
        "match example:\n    case TextExample():\n        pass",
    ],
)
def test_branches_are_found(line):
    assert len(find_branches(line)) == 1
    assert find_branches("config.task_type != other.task_type") == []
