"""results.json: what is finished stays, and what was measured otherwise is refused."""

import json
from dataclasses import dataclass

import pytest

from albert.errors import AlbertError
from albert.settings import Settings
from albert.study.results import open_results


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
            assert results.take("base", Found, measure=measure) == FOUND
    with open_some(tmp_path, settings=Asked(rounds=3)) as results:  # nothing depends on it
        assert results.take("base", Found, measure=measure) == FOUND
        assert len(calls) == 1
        results.take("base", Found, measure=measure, stamp="another text")
        results.take("large", Found, measure=measure)
    assert len(calls) == 3
    written = json.loads((tmp_path / "results.json").read_text())
    assert (written["study"], written["settings"]) == ("speed", {"length": 8, "rounds": 3})
    assert set(written["parts"]) == {"base", "large"}


def test_a_failure_is_not_kept_and_tried_again(tmp_path):
    def has_failed(found):
        return not found.steps

    failed = Found(0.5, {})
    for kept in ({}, {"base": {"stamp": "", "found": {"seconds": 0.5, "inner": {}, "steps": []}}}):
        with open_some(tmp_path) as results:
            results.parts.update(kept)  # an earlier version kept failures, too
            assert results.take("base", Found, measure=lambda: failed, has_failed=has_failed) == failed
        assert json.loads((tmp_path / "results.json").read_text())["parts"] == {}
    for measure in (lambda: FOUND, None):
        with open_some(tmp_path) as results:
            assert results.take("base", Found, measure=measure, has_failed=has_failed) == FOUND


def test_a_part_is_on_the_disk_before_the_next_begins(tmp_path):
    def look():
        assert list(json.loads((tmp_path / "results.json").read_text())["parts"]) == ["first"]
        return FOUND

    with open_some(tmp_path) as results:
        results.take("first", Found, measure=lambda: FOUND)
        results.take("second", Found, measure=look)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"settings": Asked(length=4)}, r"length is 4 and was 8; .* Choose another --out$"),
        ({"study": "memory"}, "study is memory and was speed"),
        ({"machine": "two"}, "machine is two and was one"),
    ],
)
def test_other_circumstances_are_refused(tmp_path, changes, said):
    with open_some(tmp_path) as results:
        results.take("base", Found, measure=lambda: FOUND)
    before = (tmp_path / "results.json").read_bytes()
    with pytest.raises(AlbertError, match=said) as caught, open_some(tmp_path, **changes):
        pass
    assert "\n" not in str(caught.value)
    assert (tmp_path / "results.json").read_bytes() == before


@pytest.mark.parametrize("text", ["[]", "{", '{"parts": 3}', '{"study": "speed", "parts": []}'])
def test_a_file_of_something_else_is_refused(tmp_path, text):
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(AlbertError, match="results.json"), open_some(tmp_path):
        pass
    assert (tmp_path / "results.json").read_text() == text


def test_a_damaged_part_is_refused(tmp_path):
    with open_some(tmp_path) as results:
        results.take("base", Found, measure=lambda: FOUND)
    path = tmp_path / "results.json"
    path.write_text(path.read_text().replace("0.25", '"fast"'))
    with pytest.raises(AlbertError, match="part 'base' is not what"), open_some(tmp_path) as results:
        results.take("base", Found, measure=lambda: FOUND)


def test_a_file_and_a_busy_folder_are_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(AlbertError, match="is a file"), open_some(tmp_path / "file"):
        pass
    busy = pytest.raises(AlbertError, match="another process is measuring there")
    with open_some(tmp_path / "out"), busy, open_some(tmp_path / "out"):
        pass
