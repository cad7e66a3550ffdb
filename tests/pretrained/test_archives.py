"""Source archives: the real pip finds them in a folder; their code is never run, and nothing is unpacked."""

import hashlib
import http.server
import io
import tarfile
import threading
import zipfile
from pathlib import Path

import pytest

from albert.errors import FileFormatError, InputError
from albert.pretrained import archives
from albert.pretrained.archives import fetch_sdist, fetch_wheel, read_tar_members, read_zip_member
from tests.pretrained.conftest import build_tar

REQUIREMENT = "little-data==1.0"


@pytest.fixture
def sha256(index_dir: Path, tmp_path: Path) -> str:
    """A source archive, whose setup.py leaves a mark where it is run; and a wheel, which is not wanted."""
    setup = f"open({str(tmp_path / 'was-run')!r}, 'w')\n"
    content = build_tar({"little-data-1.0/setup.py": setup.encode(), "little-data-1.0/data.txt": b"data"})
    (index_dir / "little-data-1.0.tar.gz").write_bytes(content)
    (index_dir / "little-data-0.9.tar.gz").write_bytes(b"another version")
    (index_dir / "little_data-1.0-py3-none-any.whl").write_bytes(b"a wheel")
    return hashlib.sha256(content).hexdigest()


def test_a_source_archive_is_fetched_once_and_nothing_in_it_is_run(
    sha256: str, index_dir: Path, tmp_path: Path
) -> None:
    path = fetch_sdist(REQUIREMENT, sha256=sha256)
    assert path == tmp_path / "cache" / "sdists" / "little-data-1.0.tar.gz"
    members = read_tar_members(path.read_bytes(), ["little-data-1.0/data.txt"], source=str(path))
    assert members == {"little-data-1.0/data.txt": b"data"}
    assert not (tmp_path / "was-run").exists()

    (index_dir / "little-data-1.0.tar.gz").unlink()
    assert fetch_sdist(REQUIREMENT, sha256=sha256) == path


@pytest.mark.usefixtures("sha256")
def test_an_archive_of_another_content_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    said = rf"little-data==1.0: the fetched source archive has .* instead of {'0' * 64} and was thrown away"
    with pytest.raises(FileFormatError, match=said):
        fetch_sdist(REQUIREMENT, sha256="0" * 64)
    assert list((tmp_path / "cache" / "sdists").iterdir()) == []


@pytest.mark.usefixtures("sha256")
def test_what_the_index_does_not_have_is_one_line_with_the_cure(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        fetch_sdist("little-data==2.0", sha256="0" * 64)
    place = tmp_path / "cache" / "sdists" / "little-data-2.0.tar.gz"
    assert str(caught.value) == (
        "little-data==2.0 could not be fetched with pip (Could not find a source archive of little-data==2.0)"
        f"; check the network and pip's package index, or put the source archive at {place}"
    )


class LoginPage(http.server.BaseHTTPRequestHandler):
    """A proxy that lets lists of files through, and answers for every file with a page of its own."""

    def do_GET(self) -> None:
        names = ("little-data-1.0.tar.gz", "little_data-1.0-py3-none-any.whl")
        links = "".join(f'<a href="/files/{name}">{name}</a>' for name in names)
        content = f"<!DOCTYPE html><html><body>{links if self.path.endswith('/') else 'log in'}</body></html>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content.encode())

    def log_message(self, *_: object) -> None:
        """Nothing is said."""


@pytest.mark.usefixtures("index_dir")
def test_a_page_instead_of_an_archive_is_nothing_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As without a network: who can do without the archive goes on."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), LoginPage) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.delenv("PIP_FIND_LINKS")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple/")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        said = r"could not be fetched with pip \(what came is no archive, as when a proxy answers with a page"
        with pytest.raises(InputError, match=said):
            fetch_sdist(REQUIREMENT, sha256="0" * 64)
        with pytest.raises(InputError, match=r"little-data==1\.0 could not be fetched with pip"):
            fetch_wheel(REQUIREMENT, sha256="0" * 64)
        server.shutdown()
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


def test_a_name_that_points_out_of_the_archive_is_refused() -> None:
    for name in ("../evil", "a/../../evil", "/evil", "..\\evil", "C:/evil"):
        content = build_tar({"good": b"good", name: b"evil"})
        with pytest.raises(FileFormatError, match="here: member .* points out of its folder"):
            read_tar_members(content, ["good"], source="here")


def test_links_large_files_missing_ones_and_damaged_archives_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(FileFormatError, match="here: link is no plain file"):
        read_tar_members(buffer.getvalue(), ["link"], source="here")
    content = build_tar({"file": b"12345"})
    with pytest.raises(FileFormatError, match="here: has no other"):
        read_tar_members(content, ["file", "other"], source="here")
    with pytest.raises(FileFormatError, match="here: not a sound archive"):
        read_tar_members(content[:40], ["file"], source="here")
    with pytest.raises(FileFormatError, match="here: not a sound archive"):
        read_tar_members(b"no archive", ["file"], source="here")
    monkeypatch.setattr(archives, "MAX_MEMBER_BYTES", 4)
    with pytest.raises(FileFormatError, match="here: file has 5 bytes, more than 4"):
        read_tar_members(content, ["file"], source="here")


def test_one_file_of_a_zip(tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    with pytest.raises(FileFormatError, match=r"x\.whl: No such file"):
        read_zip_member(path, "a/b.py")
    path.write_bytes(b"no zip")
    with pytest.raises(FileFormatError, match=r"x\.whl: not a sound archive"):
        read_zip_member(path, "a/b.py")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/b.py", "text")
    assert read_zip_member(path, "a/b.py") == b"text"
    with pytest.raises(FileFormatError, match=r"x\.whl: has no a/c\.py; it is another file"):
        read_zip_member(path, "a/c.py")
