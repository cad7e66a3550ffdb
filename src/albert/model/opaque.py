"""What torch.compile must not look into: a function comes in and goes out unchanged, with a border around it.

The lengths of sequences are new in every batch. Whatever depends on them stays outside compiled graphs, so
that a new pattern of lengths is no new compilation.

Borders are drawn by torch's compiler, whose import takes as long as that of torch itself. So they are drawn
when somebody imports it, and who never compiles never waits for it.
"""

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, TypeVar, cast

import torch

C = TypeVar("C", bound=Callable[..., object])
_COMPILER = "torch._dynamo"
_PACKAGE = __name__.partition(".")[0]
_open: list[Any] = []  # functions that have no border yet


def opaque(function: C) -> C:
    """Run this function as it is, also inside a compiled model. Methods must be called by their own name."""
    if _COMPILER in sys.modules:
        return cast(C, torch.compiler.disable(function))
    if not _open:
        sys.meta_path.insert(0, _Watch())
    _open.append(function)
    return function


class _Watch(MetaPathFinder):
    """Sees the compiler come, and draws the borders as soon as it is there."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Leave every other module alone."""
        if fullname != _COMPILER:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        found = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((each for each in found if each is not None), None)
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def load_and_draw(module: ModuleType) -> None:
            # Not before it is loaded: who only asks whether there is a compiler may load it later.
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            load(module)
            _draw_borders()

        spec.loader.exec_module = load_and_draw  # type: ignore[method-assign]
        return spec


def _draw_borders() -> None:
    """Put a border around every function that waits for one, wherever our modules know it by name."""
    bordered = {function: torch.compiler.disable(function) for function in _open}
    _open.clear()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == _PACKAGE:
            for place in (module, *(each for each in vars(module).values() if isinstance(each, type))):
                _replace(place, bordered)


def _replace(place: Any, bordered: dict[Any, Any]) -> None:
    for name, value in list(vars(place).items()):
        if isinstance(value, type(_replace)) and value in bordered:
            setattr(place, name, bordered[value])
