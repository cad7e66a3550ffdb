"""The drawing in docs/architecture.md is true: its rooms are those of the package, its arrows the imports."""

import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.test_architecture import GROUND, ROOMS, ROOT, belongs, iter_imports, rooms

PAGE = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
DRAWING = PAGE.partition("```mermaid\n")[2].partition("```")[0]
DRAWN = re.findall(r'^ +(\w+)\["<b>(.+?)</b>', DRAWING, flags=re.MULTILINE)
ARROWS = re.findall(r"^ +(\w+) --> (\w+)$", DRAWING, flags=re.MULTILINE)
TABLE = dict(re.findall(r"^\| `(\w+)/` \| (.+) \|$", PAGE, flags=re.MULTILINE))


def room_of(module: str) -> str:
    room = module.split(".")[1]
    return "ground" if room in GROUND else room


@cache
def find_imports() -> set[tuple[str, str]]:
    """Every pair of rooms of which the second imports from the first."""
    return {
        (room_of(imported.target), room_of(module.name))
        for module in rooms()
        for imported in iter_imports(module)
        if belongs(imported.target, "albert") and imported.target != "albert.__version__"
    }


def find_above() -> dict[str, set[str]]:
    """For each room all that the arrows lead from, directly or by way of others."""
    near: dict[str, set[str]] = {name: set() for name, _ in DRAWN}
    for source, target in ARROWS:
        near[target].add(source)
    above: dict[str, set[str]] = {}
    for name in TopologicalSorter(near).static_order():  # raises CycleError
        above[name] = near[name].union(*(above[each] for each in near[name]))
    return above


def test_the_rooms_of_drawing_and_table_are_those_of_the_package():
    found = {room_of(module.name) for module in rooms()} - {"ground"}
    in_order = [room for room in ROOMS if room in found]
    assert [name for name, _ in DRAWN] == ["ground", *in_order]
    assert dict(DRAWN)["ground"].split(" · ") == list(GROUND)
    assert all(words == f"{name}/" for name, words in DRAWN[1:])
    assert list(TABLE) == in_order


def test_every_import_follows_the_arrows():
    above = find_above()
    for source, target in sorted(find_imports()):
        assert source == target or source in above[target], f"no arrow leads from {source} to {target}"


@pytest.mark.parametrize(("source", "target"), ARROWS, ids=" → ".join)
def test_every_arrow_is_an_import_and_says_what_no_others_say(source, target):
    assert (source, target) in find_imports()
    others = [each for each, to in ARROWS if to == target and each != source]
    above = find_above()
    assert not any(source in above[each] for each in others), "others lead there by way of this room already"


@pytest.mark.parametrize("room", TABLE)
def test_what_the_table_names_is_in_the_room(room):
    words = re.findall(r"`(\w+)`", TABLE[room])
    known = {path.stem for path in (ROOT / room).iterdir()}
    assert len(words) >= 3
    assert set(words) <= known


def test_rooms_that_are_planned_are_not_there_yet():
    planned = re.findall(
        r"`(\w+)/`", PAGE.partition("Rooms that are planned")[2].partition(":")[2].partition(".")[0]
    )
    assert planned
    assert not [room for room in planned if (ROOT / room / "__init__.py").exists()]
