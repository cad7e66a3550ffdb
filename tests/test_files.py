"""Files appear complete or not at all, even if the writer is killed or the disk is full."""

import errno
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
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
from tests.conftest import read_tree, rejects


class InterruptedWriteError(Exception):
    """An error in the middle of a write."""


def test_a_file_is_written_with_its_folders(tmp_path):
    write_text(tmp_path / "a" / "b" / "note.txt", "Grüße\n")
    assert read_tree(tmp_path) == {"a": None, "a/b": None, "a/b/note.txt": "Grüße\n".encode()}


@pytest.fixture(params=[atomic_path, atomic_dir])
def target(request, tmp_path):
    """A function that opens a file or folder for writing, its path, and a function that writes to a path."""

    def write(path: Path, text: str) -> None:
        (path / "note.txt" if request.param is atomic_dir else path).write_text(text)

    path = tmp_path / "target"
    if request.param is atomic_dir:
        path.mkdir()
    write(path, "old")
    return request.param, path, write


def test_the_old_content_is_there_until_the_block_ends(target, tmp_path):
    opened, path, write = target
    before = read_tree(path.parent)
    with opened(path) as aside:
        write(aside, "new")
        assert {name: read_tree(tmp_path)[name] for name in before} == before
        assert aside.parent == path.parent  # one file system, so that the last step is a rename
    assert read_tree(tmp_path) == {name: content and b"new" for name, content in before.items()}


def test_an_error_leaves_the_old_content_and_nothing_else(target, tmp_path):
    opened, path, write = target
    before = read_tree(tmp_path)
    with pytest.raises(InterruptedWriteError), opened(path) as aside:  # noqa: PT012
        write(aside, "half of the ne")
        raise InterruptedWriteError
    assert read_tree(tmp_path) == before


def test_a_file_is_not_replaced_by_a_folder(tmp_path):
    path = tmp_path / "note.txt"
    path.write_text("old")
    with rejects(InputError, path), atomic_dir(path):
        pytest.fail("there is nothing to write")
    assert read_tree(tmp_path) == {"note.txt": b"old"}


def test_an_empty_mount_point_is_filled(tmp_path, monkeypatch):
    path = tmp_path / "out"
    path.mkdir()
    monkeypatch.setattr(os.path, "ismount", lambda folder: Path(folder) == path)
    identity = path.stat().st_ino
    with atomic_dir(path) as aside:
        assert aside.parent == path  # on its own disk
        for name in ("config.json", "model.safetensors"):
            (aside / name).write_text(name)
    assert set(os.listdir(path)) == {"config.json", "model.safetensors"}
    assert path.stat().st_ino == identity


@pytest.mark.parametrize("opened", [atomic_path, atomic_dir, open_output])
def test_an_unwritable_path_is_named_as_the_user_gave_it(tmp_path, monkeypatch, opened):
    (tmp_path / "note.txt").write_text("old")
    monkeypatch.chdir(tmp_path)

    def deny(**options: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / ".x.12345678"))

    with rejects(WriteError, "note.txt/x", "Not a directory"), opened(Path("note.txt/x")):
        pytest.fail("the file cannot be opened")
    monkeypatch.setattr(tempfile, "mkstemp", deny)
    monkeypatch.setattr(tempfile, "mkdtemp", deny)
    with rejects(WriteError, "x: ", "Permission denied"), opened(Path("x")):
        pytest.fail("the file cannot be opened")


def test_the_target_of_a_link_is_replaced(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with atomic_dir(tmp_path / "link") as aside:
        (aside / "new.txt").write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert read_tree(tmp_path / "real") == {"new.txt": b"new"}


def test_file_modes_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "note.txt", "x")
        with atomic_dir(tmp_path / "model") as aside:
            write_text(aside / "config.json", "{}")
    finally:
        os.umask(before)
    modes = {name: (tmp_path / name).stat().st_mode & 0o777 for name in read_tree(tmp_path)}
    assert modes == {"note.txt": 0o640, "model": 0o750, "model/config.json": 0o640}


def start(code: str, *arguments: object) -> "subprocess.Popen[str]":
    words = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


WRITE_FOREVER = """
    import sys
    from pathlib import Path
    from albert.files import write_text

    print("started", flush=True)
    for i in range(10**9):
        write_text(Path(sys.argv[1]), "ab"[i % 2] * 500_000)
"""


def test_a_killed_writer_leaves_one_complete_version(tmp_path):
    path = tmp_path / "note.txt"
    path.write_text("a" * 500_000)
    for attempt in range(4):
        writer = start(WRITE_FOREVER, path)
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(0.02 + 0.013 * attempt)
        writer.kill()
        writer.communicate()
        assert writer.returncode == -signal.SIGKILL
        assert path.read_text() in ("a" * 500_000, "b" * 500_000)


# A limit on the size of files has the effect of a full disk: writing fails after some bytes.
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


@pytest.mark.parametrize("target", ["file", "folder"])
def test_a_full_disk_leaves_the_old_content_and_nothing_else(target, tmp_path):
    path = tmp_path / "target"
    old = path if target == "file" else path / "content"
    old.parent.mkdir(exist_ok=True)
    old.write_text("old")
    before = read_tree(tmp_path)
    printed, errors = start(WRITE_TOO_MUCH, target, path).communicate()
    assert printed == "File too large\n", errors
    assert read_tree(tmp_path) == before


def test_json_is_read_as_it_was_written(tmp_path):
    value = {"text": "Grüße 中 \u2028", "numbers": [1, 2.5, None, True], "empty": {}}
    write_json(tmp_path / "value.json", value)
    assert read_json(tmp_path / "value.json") == value


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b'{"a": 1,\n "b": }\n', "line 2"),
        (b"{}\n\n{}\n", "line 3"),
        (b"ab\xff", "byte 2"),
        (None, "No such file"),
    ],
)
def test_a_broken_json_file_is_rejected(content, value, tmp_path):
    path = tmp_path / "config.json"
    if content is not None:
        path.write_bytes(content)
    with rejects(FileFormatError, path, value):
        read_json(path)


def test_child_processes_do_not_keep_locks(tmp_path):
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


def test_a_write_error_has_the_path_the_reason_and_the_hint(tmp_path):
    out, reason = tmp_path / "out", "No space left on device"
    with rejects(WriteError, out, reason, "--resume"), writing_to(out, hint="use --resume"):
        raise OSError(errno.ENOSPC, reason, "elsewhere")
    # A worker's error comes from another process.
    error = WriteError(errno.ENOSPC, reason, "out", hint="use --resume")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
