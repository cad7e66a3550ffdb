"""The house: a room knows the rooms above it and none below, and what must start fast leaves torch be."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import albert

ROOT = Path(albert.__file__).parent
GROUND = ("errors", "settings", "files", "reporting", "fresh_process")
# From the top of the house down: pages know nothing of models, then text comes in; what is typed comes last.
ROOMS = (
    "pages", "text", "model", "pretrained", "inference", "corpus", "examples", "training", "tasks", "export",
    "study", "serving", "app",
)  # fmt: skip
# `albert` itself is the front door: it opens rooms when they are asked for.
DOORS = ("albert", "albert.__main__")
WITHOUT_TORCH = (
    *(f"albert.{module}" for module in GROUND),
    "albert.pages",
    "albert.text",
    *(f"albert.model.{module}" for module in ("config", "presets", "parameters", "sharing", "runtime")),
    "albert.tasks.metrics",
    "albert.study.parameters",
    "albert.app",
)


@dataclass(frozen=True)
class Module:
    name: str
    path: Path
    tree: ast.Module

    @property
    def room(self) -> str:
        return self.name.split(".")[1]

    @property
    def level(self) -> int:
        return 0 if self.room in GROUND else 1 + ROOMS.index(self.room)


@dataclass(frozen=True)
class Import:
    """One imported module, or name of one; `is_at_once` is false inside functions and for types only."""

    target: str
    is_at_once: bool


@cache
def modules() -> tuple[Module, ...]:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        parts = ["albert", *path.relative_to(ROOT).with_suffix("").parts]
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found.append(Module(name, path, ast.parse(path.read_text(encoding="utf-8"))))
    return tuple(found)


def rooms() -> list[Module]:
    return [module for module in modules() if module.name not in DOORS]


def named(module: Module) -> str:
    return module.name


def iter_imports(module: Module) -> Iterator[Import]:
    for node, is_at_once in _walk(module.tree, True):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, is_at_once)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module.name}: relative imports hide which room is meant"
            for alias in node.names:
                yield Import(f"{node.module}.{alias.name}", is_at_once)


def _walk(node: ast.AST, is_at_once: bool) -> Iterator[tuple[ast.AST, bool]]:
    for child in ast.iter_child_nodes(node):
        is_later = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or (
            isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        )
        yield child, is_at_once
        yield from _walk(child, is_at_once and not is_later)


def belongs(target: str, package: str) -> bool:
    return target == package or target.startswith(f"{package}.")


def starts_fast(module: Module) -> bool:
    return module.name in DOORS or any(belongs(module.name, package) for package in WITHOUT_TORCH)


def test_every_module_lives_in_a_room_of_the_list():
    homes = {module.room for module in rooms()}
    assert homes <= {*GROUND, *ROOMS}
    assert {"errors", "settings", "files", "text", "model", "pretrained", "inference", "app"} <= homes


@pytest.mark.parametrize("module", rooms(), ids=named)
def test_imports_point_up_the_house(module):
    for imported in iter_imports(module):
        if not belongs(imported.target, "albert") or imported.target == "albert.__version__":
            continue
        room = imported.target.split(".")[1]
        level = 0 if room in GROUND else 1 + ROOMS.index(room)
        assert level <= module.level, f"{module.name} knows {imported.target}, which lies below it"


def test_no_module_waits_for_itself():
    known = {module.name for module in modules()}
    graph = {}
    for module in rooms():
        targets = {imported.target for imported in iter_imports(module) if imported.is_at_once}
        homes = {target if target in known else target.rpartition(".")[0] for target in targets}
        graph[module.name] = (homes & known) - {"albert"}
    order = list(TopologicalSorter(graph).static_order())  # raises CycleError
    assert order.index("albert.errors") < order.index("albert.files") < order.index("albert.settings")


@pytest.mark.parametrize("module", [m for m in rooms() if m.room == "model"], ids=named)
def test_the_model_knows_no_files_and_no_text(module):
    for imported in iter_imports(module):
        for other in ("albert.text", "albert.files", "pathlib", "json", "os", "io", "shutil", "safetensors"):
            assert not belongs(imported.target, other)
    calls = [node.func for node in ast.walk(module.tree) if isinstance(node, ast.Call)]
    assert "open" not in [func.id for func in calls if isinstance(func, ast.Name)]


@pytest.mark.parametrize("module", [m for m in modules() if starts_fast(m)], ids=named)
def test_what_starts_fast_imports_torch_only_where_it_is_used(module):
    at_once = [imported.target for imported in iter_imports(module) if imported.is_at_once]
    assert not [target for target in at_once if belongs(target, "torch")]


def test_importing_all_that_starts_fast_does_not_load_torch():
    names = ["albert", *(module.name for module in rooms() if starts_fast(module))]
    assert "albert.app.commands.ask" in names
    code = (
        f"import importlib, sys\nfor name in {names}: importlib.import_module(name)\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("module", modules(), ids=named)
def test_every_module_opens_with_a_sentence(module):
    docstring = ast.get_docstring(module.tree) or ""
    first = docstring.split("\n\n")[0]
    assert first.endswith((".", "…")), f"{module.name} opens with {first!r}"


@pytest.mark.parametrize("module", modules(), ids=named)
def test_names_say_what_a_thing_does(module):
    vague = {"util", "utils", "helper", "helpers", "manager", "misc", "common"}
    assert not vague & set(module.path.stem.split("_"))
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert not node.name.lstrip("_").startswith(("process_", "handle_")), f"{module.name}.{node.name}"
        if isinstance(node, ast.ClassDef):
            assert not node.name.endswith(("Manager", "Helper", "Utils")), f"{module.name}.{node.name}"


@pytest.mark.parametrize("module", modules(), ids=named)
def test_a_file_fits_in_one_reading(module):
    assert len(module.path.read_text(encoding="utf-8").splitlines()) <= 450


def test_a_single_process_needs_nothing_of_the_many():
    names = ("distributed", "distributed_checkpoints", "failures", "meeting")
    allowed = {f"albert.training.{name}" for name in names}
    for module in rooms():
        at_once = [imported.target for imported in iter_imports(module) if imported.is_at_once]
        if module.name not in allowed:
            assert not [target for target in at_once if belongs(target, "torch.distributed")], module.name
            assert not [target for target in at_once if ".".join(target.split(".")[:3]) in allowed], (
                module.name
            )


def test_ray_and_stores_are_for_those_who_ask_for_them(tmp_path):
    for module in rooms():
        at_once = [imported.target for imported in iter_imports(module) if imported.is_at_once]
        assert not [target for target in at_once if belongs(target, "ray") or belongs(target, "fsspec")]
        if module.name != "albert.corpus.ray_engine":
            assert not [target for target in at_once if belongs(target, "albert.corpus.ray_engine")]
    (tmp_path / "a.txt").write_text("One sentence. Another one.\n" * 3)
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\none\n")
    code = (
        "import sys\nfrom albert.corpus.prepare import prepare_corpus\n"
        "from albert.corpus.corpus import open_corpus\n"
        "prepare_corpus(['a.txt'], vocab='vocab.txt', out='out')\nopen_corpus('out')\n"
        "print([name for name in ('ray', 'fsspec', 'torch') if name in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_matplotlib_is_for_those_who_draw():
    for module in rooms():
        at_once = [imported.target for imported in iter_imports(module) if imported.is_at_once]
        if not belongs(module.name, "albert.pages.drawing"):
            assert not [target for target in at_once if belongs(target, "matplotlib")], module.name
            assert not [target for target in at_once if belongs(target, "albert.pages.drawing")], module.name
