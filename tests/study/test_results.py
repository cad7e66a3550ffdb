"""results.json: finished parts are kept, other settings are rejected; and short names of models."""

import json
from dataclasses import dataclass

import pytest

from albert.errors import AlbertError
from albert.settings import Settings
from albert.study.results import name_models, open_results


class Asked(Settings):
    length: int = 8
    rounds: int = 1


@dataclass(frozen=True)
class Inner:
    name: str


@dataclass(frozen=True)
class Found:
    seconds: float
    inner: dict[str, Inner]
    steps: tuple[int, ...] = ()


FOUND = Found(0.25, {"a": Inner("x")}, (1, 2))


def open_some(out, **changes):
    asked = {"study": "speed", "settings": Asked(), "machine": "one"} | changes
    return open_results(out, free_keys=frozenset({"rounds"}), **asked)


def test_a_part_is_measured_once_and_read_back_as_it_was(tmp_path):
    calls = []

    def measure():
        calls.append(1)
        return FOUND

    for _ in range(2):
        with open_some(tmp_path) as results:
            assert results.get_or_measure("base", Found, measure) == FOUND
    with open_some(tmp_path, settings=Asked(rounds=3)) as results:  # nothing depends on it
        assert results.get_or_measure("base", Found, measure) == FOUND
        assert len(calls) == 1
        results.get_or_measure("base", Found, measure, "another text")
        results.get_or_measure("large", Found, measure)
    assert len(calls) == 3
    written = json.loads((tmp_path / "results.json").read_text())
    assert (written["study"], written["settings"]) == ("speed", {"length": 8, "rounds": 3})
    assert set(written["parts"]) == {"base", "large"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"settings": Asked(length=4)}, "length.* 4 .* 8"),
        ({"study": "memory"}, "memory.* speed"),
        ({"machine": "two"}, "two.* one"),
    ],
)
def test_other_settings_and_machines_are_rejected(tmp_path, changes, said):
    with open_some(tmp_path) as results:
        results.get_or_measure("base", Found, lambda: FOUND)
    before = (tmp_path / "results.json").read_bytes()
    with pytest.raises(AlbertError, match=said), open_some(tmp_path, **changes):
        pass
    assert (tmp_path / "results.json").read_bytes() == before


def test_a_file_and_a_busy_folder_are_rejected(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(AlbertError, match="file"), open_some(tmp_path / "file"):
        pass
    busy = pytest.raises(AlbertError, match="out")
    with open_some(tmp_path / "out"), busy, open_some(tmp_path / "out"):
        pass


@pytest.mark.parametrize(
    ("sources", "names"),
    [
        (["runs/a/model", "runs/b/model"], ["a", "b"]),
        (["x/best", "y/best"], ["x", "y"]),
        (["o/arms/all/seed-0/pretrain/model", "o/arms/none/seed-0/pretrain/model"], ["all", "none"]),
        (["runs/a/model", "albert/albert-base-v2"], ["a", "albert-base-v2"]),
        (["x/1/a", "y/1/a", "y/1/b"], ["x/1/a", "y/1/a", "y/1/b"]),
        (["model"], ["model"]),
    ],
)
def test_models_are_named_by_what_their_paths_do_not_share(sources, names):
    assert name_models(sources) == names
