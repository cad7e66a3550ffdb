"""Files: what is written appears whole or not at all, even if the writer is killed or the disk is full."""

import errno
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from albert.errors import FileFormatError, InputError, WriteError
from albert.files import (
    atomic_dir,
    atomic_path,
    hold,
    is_held,
    open_output,
    read_json,
    write_json,
    write_text,
    writing_to,
)
from tests.conftest import read_tree


class InterruptedWriteError(Exception):
    """Something that goes wrong in the middle of a write."""


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture
def umask_027() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


def test_a_file_is_written_with_the_folders_that_lead_to_it(tmp_path):
    write_text(tmp_path / "a" / "b" / "note.txt", "Grüße\n")
    assert read_tree(tmp_path) == {"a": None, "a/b": None, "a/b/note.txt": "Grüße\n".encode()}


def test_a_file_has_its_old_content_until_the_block_ends(tmp_path):
    path = tmp_path / "note.txt"
    path.write_text("old")
    with atomic_path(path) as aside:
        aside.write_text("new")
        assert path.read_text() == "old"
        assert aside.parent == path.parent  # one file system, so that the last step is a rename
    assert read_tree(tmp_path) == {"note.txt": b"new"}


def test_an_error_while_writing_a_file_leaves_the_old_one_and_nothing_else(tmp_path):
    path = tmp_path / "note.txt"
    path.write_text("old")
    with pytest.raises(InterruptedWriteError), atomic_path(path) as aside:  # noqa: PT012
        aside.write_text("half of the ne")
        raise InterruptedWriteError
    assert read_tree(tmp_path) == {"note.txt": b"old"}


def test_a_folder_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "model"
    path.mkdir()
    (path / "old.txt").write_text("old")
    with atomic_dir(path) as aside:
        (aside / "deep").mkdir()
        (aside / "deep" / "new.txt").write_text("new")
        assert read_tree(path) == {"old.txt": b"old"}
    assert read_tree(tmp_path) == {"model": None, "model/deep": None, "model/deep/new.txt": b"new"}


def test_an_error_while_writing_a_folder_leaves_the_old_one_and_nothing_else(tmp_path):
    path = tmp_path / "model"
    path.mkdir()
    (path / "old.txt").write_text("old")
    with pytest.raises(InterruptedWriteError), atomic_dir(path) as aside:  # noqa: PT012
        (aside / "new.txt").write_text("new")
        raise InterruptedWriteError
    assert read_tree(tmp_path) == {"model": None, "model/old.txt": b"old"}


def test_a_file_is_not_replaced_by_a_folder(tmp_path):
    path = tmp_path / "note.txt"
    path.write_text("old")
    with pytest.raises(InputError, match=r"note\.txt: is a file.*choose another path"), atomic_dir(path):
        pytest.fail("nothing is to be prepared for a place that cannot be taken")
    assert read_tree(tmp_path) == {"note.txt": b"old"}


def test_an_empty_mount_point_is_filled(tmp_path, monkeypatch):
    path = tmp_path / "out"
    path.mkdir()
    monkeypatch.setattr(os.path, "ismount", lambda place: Path(place) == path)
    identity = path.stat().st_ino
    with atomic_dir(path) as aside:
        assert aside.parent == path  # on its own disk
        for name in ("config.json", "model.safetensors", "tokenizer.json"):
            (aside / name).write_text(name)
    assert set(os.listdir(path)) == {"config.json", "model.safetensors", "tokenizer.json"}
    assert path.stat().st_ino == identity


def test_what_cannot_be_written_is_called_as_it_was_asked_for(tmp_path, monkeypatch):
    (tmp_path / "note.txt").write_text("old")
    monkeypatch.chdir(tmp_path)

    def refuse(**options: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / ".x.12345678"))

    for write in (atomic_path, atomic_dir, open_output):
        said = r"^note\.txt/x: .*Not a directory"
        with pytest.raises(WriteError, match=said), write(Path("note.txt/x")):
            pytest.fail("there is no place for it")
    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    for write in (atomic_path, atomic_dir, open_output):
        with (
            pytest.raises(WriteError, match="^x: .*Permission denied"),
            write(Path("x")),
        ):
            pytest.fail("there is no place for it")


def test_what_cannot_be_read_while_writing_keeps_its_own_name(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent"), atomic_path(tmp_path / "note.txt"):
        (tmp_path / "absent").read_text()
    assert read_tree(tmp_path) == {}


def test_behind_a_link_the_folder_that_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with atomic_dir(tmp_path / "link") as aside:
        (aside / "new.txt").write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert read_tree(tmp_path / "real") == {"new.txt": b"new"}


@pytest.mark.usefixtures("umask_027")
def test_results_are_as_readable_as_the_users_other_files(tmp_path):
    write_text(tmp_path / "note.txt", "x")
    with atomic_dir(tmp_path / "model") as aside:
        write_text(aside / "config.json", "{}")
        (aside / "plain.txt").write_text("x")
    assert mode(tmp_path / "note.txt") == 0o640
    assert mode(tmp_path / "model") == 0o750
    assert mode(tmp_path / "model" / "config.json") == 0o640
    assert mode(tmp_path / "model" / "plain.txt") == 0o640


def start(code: str, *arguments: object) -> "subprocess.Popen[str]":
    words = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def kill(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


WRITE_FOREVER = """
    import sys
    from pathlib import Path
    from albert.files import write_text

    print("started", flush=True)
    for i in range(10**9):
        write_text(Path(sys.argv[1]), "ab"[i % 2] * 500_000)
"""


def test_a_writer_killed_at_any_moment_leaves_one_whole_version(tmp_path):
    path = tmp_path / "place"
    path.write_text("a" * 500_000)
    for round_ in range(4):
        writer = start(WRITE_FOREVER, path)
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(0.02 + 0.013 * round_)
        kill(writer)
        assert path.read_text() in ("a" * 500_000, "b" * 500_000)


# A limit on the size of a file is what a full disk is to its writer: the write fails after some bytes.
WRITE_TOO_MUCH = """
    import resource, sys
    from pathlib import Path
    from albert.files import atomic_dir, write_text

    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    try:
        if sys.argv[1] == "file":
            write_text(Path(sys.argv[2]), "x" * 5000)
        else:
            with atomic_dir(Path(sys.argv[2])) as aside:
                (aside / "content").write_text("x" * 5000)
    except OSError as error:
        print(error.strerror)
"""


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_disk_that_fills_up_leaves_the_old_content_and_nothing_else(kind, tmp_path):
    path = tmp_path / "place"
    old = path if kind == "file" else path / "content"
    old.parent.mkdir(exist_ok=True)
    old.write_text("old")
    before = read_tree(tmp_path)
    said, complaints = start(WRITE_TOO_MUCH, kind, path).communicate()
    assert said == "File too large\n", complaints
    assert read_tree(tmp_path) == before


def test_json_comes_back_as_it_was_written(tmp_path):
    value = {"text": "Grüße 中 \u2028", "numbers": [1, 2.5, None, True], "empty": {}}
    write_json(tmp_path / "value.json", value)
    assert read_json(tmp_path / "value.json") == value
    assert "Grüße 中" in (tmp_path / "value.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"a": 1,\n "b": }\n', "line 2"),
        (b"{}\n\n{}\n", "line 3"),
        (b"ab\xff", "byte 2"),
        (None, "No such file"),
    ],
)
def test_a_broken_json_file_is_rejected_by_name_and_place(content, said, tmp_path):
    path = tmp_path / "config.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FileFormatError, match=rf"config\.json: .*{said}"):
        read_json(path)


def test_locks_share_one_fork_handler_and_children_do_not_keep_them(tmp_path, monkeypatch):
    registered = []
    register = os.register_at_fork
    monkeypatch.setattr(os, "register_at_fork", lambda **words: registered.append(words) or register(**words))
    for number in range(3):
        with hold(tmp_path / f"lock-{number}", busy="busy"):
            pass
    assert len(registered) <= 1
    read_end, write_end = os.pipe()
    with hold(tmp_path / "lock", busy="busy"):
        child = os.fork()
        if not child:
            os.write(write_end, b"!")
            time.sleep(30)
            os._exit(0)
        os.read(read_end, 1)
    try:
        assert not is_held(tmp_path / "lock")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_refusal_to_write_is_told_with_the_hint_that_fits(tmp_path):
    place = tmp_path / "out"
    with pytest.raises(WriteError) as caught, writing_to(place, hint="go on with --resume"):
        raise OSError(errno.ENOSPC, "No space left on device", "elsewhere")
    assert str(caught.value).startswith(f"{place}: ")
    assert str(caught.value).endswith("(No space left on device); go on with --resume")
    assert caught.value.errno == errno.ENOSPC
    # A worker's error comes from another process.
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
