"""Only the module of a task type knows its type: no other module branches on it."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

import albert
from albert.tasks.catalogue import TASK_TYPES
from albert.tasks.classification import LabelKind

ROOT = Path(albert.__file__).parent
TYPE_MODULES = {Path(f"tasks/{each.__module__.rpartition('.')[2]}.py") for each in TASK_TYPES}
CLASSES = {
    node.name
    for path in TYPE_MODULES
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8")))
    if isinstance(node, ast.ClassDef)
}
# The values of each attribute, since sources of text and charts have a `kind` as well.
VALUES = {
    "task_type": {str(each.config_class.model_fields["task_type"].default) for each in TASK_TYPES},
    "label_kind": set(get_args(LabelKind)),
    "method": {"classify", "find_labels", "rate", "tag", "answer", "choose", "embed"},
}
BELOW = ("tasks", "study", "cli")  # the packages that can have a config; model weights have a `kind` as well
TABLE = "_TYPES"  # of the catalogue


def find_branches(source: str, path: Path) -> list[str]:
    """Find the lines of a module that branch on a task type."""
    return [f"{path}:{line}: {text}" for line, text in sorted(set(_iter_branches(ast.parse(source), path)))]


def _iter_branches(tree: ast.AST, path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if _is_branch(node, path):
            assert isinstance(node, ast.expr | ast.stmt)
            yield node.lineno, ast.unparse(node).partition("\n")[0]


def _is_branch(node: ast.AST, path: Path) -> bool:
    match node:
        case ast.Call(func=ast.Name("isinstance" | "issubclass"), args=[_, classes]):
            return _names_class(classes)
        case ast.Compare(left=left, comparators=comparators):
            sides = [left, *comparators]
            is_type = any(isinstance(each, ast.Call) and ast.unparse(each.func) == "type" for each in sides)
            return any(_has_value(sides, name) for name in VALUES) or (
                is_type and any(map(_names_class, sides))
            )
        case ast.Match(subject=subject, cases=cases):
            patterns = [each for case in cases for each in ast.walk(case.pattern)]
            literals = [each.value for each in patterns if isinstance(each, ast.MatchValue)]
            return any(_has_value([subject, *literals], name) for name in VALUES) or any(
                _names_class(each.cls) for each in patterns if isinstance(each, ast.MatchClass)
            )
        case ast.Subscript(value=table, slice=key):
            return _is_keyed(table, key, path)
        case ast.Call(func=ast.Attribute(value=table, attr="get"), args=[key, *_]):
            return _is_keyed(table, key, path)
        case ast.Dict(keys=keys):
            return any(key is not None and _is_keyed(node, key, path) for key in keys)
    return False


def _names_class(node: ast.AST) -> bool:
    """Whether a class of a task type is named, alone, in a tuple or in a union."""
    match node:
        case ast.Name(name) | ast.Attribute(attr=name):
            return name in CLASSES
        case ast.Tuple(elts=parts):
            return any(map(_names_class, parts))
        case ast.BinOp(left=left, right=right):
            return _names_class(left) or _names_class(right)
    return False


def _has_value(sides: list[ast.expr], name: str) -> bool:
    """Whether an attribute or variable of this name is beside one of its values."""
    is_named = any(_name(side) == name for side in sides)
    literals = {each.value for side in sides for each in ast.walk(side) if isinstance(each, ast.Constant)}
    return is_named and not literals.isdisjoint(VALUES[name])


def _name(node: ast.AST) -> str:
    match node:
        case ast.Name(name) | ast.Attribute(attr=name):
            return name
    return ""


def _is_keyed(table: ast.AST, key: ast.AST, path: Path) -> bool:
    is_catalogue = path == Path("tasks/catalogue.py") and _name(table) == TABLE
    is_key = isinstance(key, ast.Attribute) and key.attr in ("task_type", "label_kind")
    return is_key and path.parts[0] in BELOW and not is_catalogue


def test_no_other_module_branches_on_a_task_type():
    paths = [path.relative_to(ROOT) for path in sorted(ROOT.rglob("*.py"))]
    others = [path for path in paths if path not in TYPE_MODULES]
    assert len(others) == len(paths) - len(TASK_TYPES) > 100
    found = [each for path in others for each in find_branches((ROOT / path).read_text("utf-8"), path)]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "isinstance(example, SpanExample)",
        "isinstance(config, (int, classification.ClassificationConfig))",
        "isinstance(item, WordWindow | EncodedText)",
        "issubclass(task_class, EmbeddingTask)",
        "type(task) is MultipleChoiceTask",
        "config.task_type == 'classification'",
        "'question-answering' != task.config.task_type",
        "config.task_type in ('classification', 'token-classification')",
        "label_kind == 'number'",
        "task.method != 'embed'",
        "names[config.task_type]",
        "names.get(self.config.label_kind)",
        "{config.task_type: 1}",
        "match config.task_type:\n    case 'classification' | 'token-classification':\n        pass",
        "match example:\n    case TextExample():\n        pass",
    ],
)
def test_branches_are_found(line):
    source = f"first = 1\n{line}\n"
    assert find_branches(source, Path("tasks/made_up.py")) == [
        f"tasks/made_up.py:2: {ast.unparse(ast.parse(line)).partition(chr(10))[0]}"
    ]


@pytest.mark.parametrize(
    "line",
    [
        "isinstance(example, Example)",
        "source.kind == 'txt'",
        "config.task_type != other.task_type",
        "task.method != method",
        "_TYPES[config.task_type]",
        "ClassificationConfig(task='classification', label_kind='one')",
    ],
)
def test_other_lines_are_no_branches(line):
    assert find_branches(line, Path("tasks/catalogue.py")) == []
