"""The folder of a quickstart: what stays, what goes and in which order, and what a killed process left."""

import multiprocessing
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from albert.app.quickstart import folder as folder_module
from albert.app.quickstart.folder import open_quickstart
from albert.errors import AlbertError, FileFormatError, InputError, WriteError
from albert.files import format_json, read_json
from tests.conftest import read_tree
from tests.training.conftest import Listener


def begin(out: Path, *, seed: int = 0, part: str = "fine-tuning") -> list[str]:
    listener = Listener()
    with (
        open_quickstart(out) as folder,
        folder.begin(part, {"seed": seed}, folders=["reviews"], reporter=listener),
    ):
        pass
    return listener.lines


def write_results(out: Path) -> None:
    """A part, and a report on it."""
    for name in ("reviews", "figures", "tables", "layers"):
        (out / name).mkdir()
        (out / name / "file").touch()
    (out / "report.html").touch()
    (out / "report.md").touch()


def list_names(out: Path) -> set[str]:
    return {path.name for path in out.iterdir()} - {".lock", "quickstart.json"}


def test_a_setting_that_is_null_now_and_was_not_there_before_is_named(tmp_path: Path) -> None:
    listener = Listener()
    with open_quickstart(tmp_path / "out") as folder:
        stamps: list[dict[str, Any]] = [{"settings": {"dropout": None}}, {"settings": {}}]
        for stamp in stamps:
            with folder.begin("fine-tuning", stamp, folders=[], reporter=listener):
                pass
    (told,) = listener.lines
    assert told == "begins the fine-tuning anew: settings.dropout is not what it was the last time"


def test_a_part_that_begins_anew_takes_the_report_with_it(tmp_path: Path) -> None:
    begin(tmp_path)
    write_results(tmp_path)
    before = list_names(tmp_path)
    assert begin(tmp_path) == [f"goes on with the fine-tuning of the last time in {tmp_path}"]
    assert list_names(tmp_path) == before
    assert begin(tmp_path, seed=1) == ["begins the fine-tuning anew: seed is not what it was the last time"]
    assert list_names(tmp_path) == set()


def test_what_was_removed_in_part_is_never_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    begin(tmp_path)
    write_results(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", interrupt)
        with pytest.raises(KeyboardInterrupt):
            begin(tmp_path, seed=1)
    assert read_json(tmp_path / "quickstart.json") == {"fine-tuning": {"seed": 1}}
    begin(tmp_path)  # with the first seed again
    assert list_names(tmp_path) == set()


@pytest.mark.parametrize("error", [InputError("too little text"), KeyboardInterrupt()], ids=type)
def test_what_is_refused_or_stopped_before_it_is_under_way_costs_nothing(
    error: BaseException, tmp_path: Path
) -> None:
    def begin_in_vain(*, is_under_way: bool) -> None:
        with open_quickstart(tmp_path) as folder:
            begun = folder.begin(
                "fine-tuning",
                {"seed": 1},
                folders=["reviews"],
                reporter=Listener(),
                is_under_way=lambda: is_under_way,
            )
            with begun:
                (tmp_path / "reviews").mkdir()
                (tmp_path / "reviews" / "new").touch()
                raise error

    begin(tmp_path)
    write_results(tmp_path)
    before = read_tree(tmp_path)
    with pytest.raises(type(error)):
        begin_in_vain(is_under_way=False)
    assert read_tree(tmp_path) == before
    with pytest.raises(type(error)):
        begin_in_vain(is_under_way=True)
    assert list_names(tmp_path) == {"reviews"}
    assert read_json(tmp_path / "quickstart.json") == {"fine-tuning": {"seed": 1}}


def test_what_cannot_be_put_back_is_not_removed_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin_in_vain() -> None:
        with (
            open_quickstart(tmp_path) as folder,
            folder.begin("fine-tuning", {"seed": 1}, folders=["reviews"], reporter=Listener()),
        ):
            monkeypatch.setattr(folder_module, "_put_back", refuse)
            raise InputError("too little text")

    def refuse(*_: object) -> None:
        raise WriteError(13, "Permission denied", "reviews")

    begin(tmp_path)
    write_results(tmp_path)
    with pytest.raises(WriteError):
        begin_in_vain()
    assert len(list(tmp_path.glob(".before.*/reviews/file"))) == 1


def test_a_part_that_began_for_the_first_time_is_gone_on_with_after_an_interrupt(tmp_path: Path) -> None:
    def begin_and_stop() -> None:
        with (
            open_quickstart(tmp_path) as folder,
            folder.begin("corpus", {"seed": 0}, folders=["corpus"], reporter=Listener()),
        ):
            (tmp_path / "corpus").mkdir()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        begin_and_stop()
    assert begin(tmp_path, part="corpus") == [f"goes on with the corpus of the last time in {tmp_path}"]
    assert list_names(tmp_path) == {"corpus"}


def test_what_cannot_be_removed_is_told_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    begin(tmp_path)
    write_results(tmp_path)
    before = read_tree(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refuse)
        patch.setattr(folder_module, "write_json", write_plainly)
        with pytest.raises(WriteError, match="reviews: cannot be written"):
            begin(tmp_path, seed=1)
    assert read_tree(tmp_path) == before
    assert begin(tmp_path) == [f"goes on with the fine-tuning of the last time in {tmp_path}"]


def write_plainly(path: Path, values: Any) -> None:
    """Without a file aside that is moved into place."""
    path.write_text(format_json(values), encoding="utf-8")


def test_what_a_killed_process_left_is_swept_and_a_users_files_are_not(tmp_path: Path) -> None:
    left = (".quickstart.json.abcd_123", ".report.html.12345678")
    for name in left:
        (tmp_path / name).touch()
    (tmp_path / ".before.zzzzzzzz").mkdir()
    begin(tmp_path)
    assert list_names(tmp_path) == set()
    (tmp_path / "text" / ".king-james.txt.12345678").mkdir(parents=True)
    begin(tmp_path)
    (tmp_path / "text").rmdir()
    (tmp_path / ".bashrc.original").touch()
    begin(tmp_path)
    assert list_names(tmp_path) == {".bashrc.original"}
    (tmp_path / "quickstart.json").unlink()
    with pytest.raises(InputError, match="holds .bashrc.original, which is no quickstart"):
        begin(tmp_path)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"corpus": 1}'])
def test_a_damaged_mark_is_refused_with_a_cure(content: str, tmp_path: Path) -> None:
    (tmp_path / "quickstart.json").write_text(content, encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"json: is not what a quickstart writes; choose another --out"):
        begin(tmp_path)


def test_two_quickstarts_at_a_time_are_refused(tmp_path: Path) -> None:
    begin(tmp_path)
    with multiprocessing.get_context("spawn").Pool(1) as pool, open_quickstart(tmp_path):
        told = pool.apply(tell_refusal, [tmp_path])
    assert told == f"{tmp_path}: another quickstart is at work there; wait for it, or choose another --out"


def tell_refusal(out: Path) -> str:
    try:
        begin(out)
    except AlbertError as error:
        return str(error)
    return "none"
