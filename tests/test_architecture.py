"""Packages import only from packages above them, without cycles, and light modules do not load torch."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import albert

ROOT = Path(albert.__file__).parent
FOUNDATION = ("errors", "settings", "files", "progress", "threads")
# From the top down, as in docs/architecture.md.
PACKAGES = (
    "report", "text", "model", "pretrained", "inference", "data", "examples", "training", "tasks", "export",
    "integrations", "study", "cli",
)  # fmt: skip
WITHOUT_TORCH = (
    *(f"albert.{module}" for module in FOUNDATION),
    "albert.report",
    "albert.text",
    *(f"albert.model.{module}" for module in ("config", "runtime")),
    *(f"albert.tasks.{module}" for module in ("metrics", "bag_of_words", "finetune_settings", "sequences")),
    *(f"albert.cli.{module}" for module in ("main", "command", "commands", "doctor")),
)
OPTIONAL_OR_SLOW = (
    "ray", "fsspec", "jinja2", "matplotlib.pyplot", "transformers", "tensorboard", "onnx", "onnxruntime",
)  # fmt: skip


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the package by its dotted name, `albert` and `albert.__main__` left out."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = ["albert", *path.relative_to(ROOT).with_suffix("").parts]
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return {name: tree for name, tree in found.items() if name not in ("albert", "albert.__main__")}


def iter_imports(tree: ast.AST, *, is_at_once: bool = True) -> Iterator[tuple[str, bool]]:
    """Imported names, and whether they are imported with the module rather than inside a function."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, is_at_once) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            yield from ((f"{node.module}.{alias.name}", is_at_once) for alias in node.names)
        is_later = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or (
            isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        )
        yield from iter_imports(node, is_at_once=is_at_once and not is_later)


def list_at_once(name: str) -> list[str]:
    return [target for target, is_at_once in iter_imports(modules()[name]) if is_at_once]


def belongs(target: str, package: str) -> bool:
    return target == package or target.startswith(f"{package}.")


def find_level(name: str) -> int:
    package = name.split(".")[1]
    return 0 if package in FOUNDATION else 1 + PACKAGES.index(package)


def test_packages_import_only_from_packages_above_them():
    for name, tree in modules().items():
        for target, _ in iter_imports(tree):
            if belongs(target, "albert") and target not in ("albert", "albert.__version__"):
                assert find_level(target) <= find_level(name), f"{name} imports {target}"


def test_modules_have_no_import_cycles():
    graph = {}
    for name in modules():
        targets = [t if t in modules() else t.rpartition(".")[0] for t in list_at_once(name)]
        graph[name] = {target for target in targets if target in modules()}
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_light_modules_do_not_load_torch():
    names = [name for name in modules() if any(belongs(name, package) for package in WITHOUT_TORCH)]
    assert "albert.cli.main" in names
    code = (
        f"import importlib, sys\nfor name in {names}: importlib.import_module(name)\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_optional_and_slow_libraries_are_imported_where_they_are_used():
    for name in modules():
        at_once = list_at_once(name)
        for library in OPTIONAL_OR_SLOW:
            assert not [target for target in at_once if belongs(target, library)], f"{name} imports {library}"
