"""Find a model: a local folder or file, a released model of this package, or a model on the hub."""

import difflib
import errno
import os
from collections.abc import Mapping
from pathlib import Path

from albert.errors import FileFormatError, InputError, first_line
from albert.files import hash_file, read_json
from albert.pretrained.huggingface import (
    CARD_NAME,
    CONFIG_NAME,
    PICKLED_NAME,
    SAFETENSORS_NAME,
    SPECIAL_TOKENS_NAME,
    TASK_NAME,
)
from albert.pretrained.sentence_transformers import SENTENCE_NAMES
from albert.text.folder import ADDED_NAME, TOKENIZER_FILES, has_tokenizer

RELEASED_DIR = Path(__file__).resolve().parents[1] / "released"
RELEASED: Mapping[str, Path] = {"nano": RELEASED_DIR / "nano", "albert-nano-en": RELEASED_DIR / "nano"}
# The files and folders that belong to the weights.
COMPANIONS = (
    CONFIG_NAME, TASK_NAME, *TOKENIZER_FILES, ADDED_NAME, SPECIAL_TOKENS_NAME, CARD_NAME, *SENTENCE_NAMES
)  # fmt: skip
PUBLISHED = tuple(
    f"albert/albert-{size}-v{version}"
    for version in (2, 1)
    for size in ("base", "large", "xlarge", "xxlarge")
)
_PATH_STARTS = ("/", "./", "../", "~", ".\\", "..\\")
_PATH_ENDS = ("/", "\\", ".safetensors", ".bin", ".index")
_DISK_ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS}


def resolve_source(source: str | Path, *, revision: str | None = None) -> Path:
    """Return the path of a local folder or file, else of a released model, else of a model on the hub."""
    found = _find_local(source) or find_released(str(source))
    if found is None:
        return _fetch(str(source), revision)
    if revision is not None:
        raise InputError(
            f"{str(source)!r} is a local model and has no revision {revision!r}; omit the revision"
        )
    return found


def find_released(name: str) -> Path | None:
    """Return the folder of a released model, or None for any other name."""
    folder = RELEASED.get(name)
    if folder is not None and not (folder / CONFIG_NAME).exists():
        raise InputError(
            f"{name!r} is missing from this installation of albert-encoder; install a release, or give a "
            "local folder"
        )
    return folder


def find_vocabulary_path(source: str) -> Path:
    """Find a vocabulary: a file, its folder, or the folder of a model."""
    path = Path(source).expanduser()
    if path.is_file() or has_tokenizer(path):
        return path
    if path.suffix in (".model", ".txt", ".json"):
        raise FileFormatError(f"{source}: does not exist; check the path")
    # Imported here, because it imports torch.
    from albert.pretrained.tensorflow import find_tensorflow_vocabulary, is_tensorflow_source

    found = resolve_source(source)
    return (find_tensorflow_vocabulary(found) if is_tensorflow_source(found) else None) or found


def hash_model_files(path: Path) -> list[list[str]]:
    """List the names and hashes of the files of a model."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return [[file.name, hash_file(file)] for file in files if file.is_file()]


def _find_local(source: str | Path) -> Path | None:
    text = str(source)
    if not text.strip():
        raise InputError("the model's name is empty; give a folder or a name such as nano")
    path = os.path.expanduser(text)
    if os.path.exists(path):
        return _find_in_run(Path(path)) or Path(path)
    is_path = text in (".", "..") or text.startswith(_PATH_STARTS) or text.endswith(_PATH_ENDS)
    if isinstance(source, Path) or is_path or text.count("/") > 1:  # a hub name has at most one
        raise FileFormatError(f"{text!r} does not exist; check the path, or give a name on the hub")
    return None


def _find_in_run(path: Path) -> Path | None:
    """Return the model folder of a run, or of the best of several seeds; None for other folders."""
    if (path / CONFIG_NAME).exists():
        return None
    seeds = path / "seeds.json"
    inner = path / ((read_json(seeds).get("model") if seeds.exists() else None) or "model")
    return inner if (inner / CONFIG_NAME).exists() else None


def _fetch(name: str, revision: str | None) -> Path:
    folder = _snapshot(name, revision=revision, weights=SAFETENSORS_NAME)
    if not (folder / SAFETENSORS_NAME).exists():
        # A snapshot is named after its commit, so that both calls use the same one.
        folder = _snapshot(name, revision=folder.name, weights=PICKLED_NAME)
    missing = _find_missing(folder)
    if missing:
        raise FileFormatError(
            f"{name!r} has no {missing}; it is not a supported model, or was only partly downloaded to "
            f"{folder}: try again online, or give a local folder"
        )
    return folder


def _find_missing(folder: Path) -> str | None:
    if not (folder / CONFIG_NAME).exists():
        return CONFIG_NAME
    has_weights = (folder / SAFETENSORS_NAME).exists() or (folder / PICKLED_NAME).exists()
    return None if has_weights else f"{SAFETENSORS_NAME} or {PICKLED_NAME}"


def _snapshot(name: str, *, revision: str | None, weights: str) -> Path:
    """Download the `weights` of a commit and the files beside them; return their folder in the cache."""
    from huggingface_hub import snapshot_download

    patterns = [*COMPANIONS, *(f"{each}/*" for each in COMPANIONS if "." not in each), weights]
    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=patterns))
    # The hub's HTTP library changes with its versions, and the errors have no other common base.
    except Exception as error:
        partial = getattr(error, "snapshot_path", None)
        # Offline, a snapshot that another program cached is enough if only files like README.md are missing.
        if partial and not _find_missing(Path(partial)) and has_tokenizer(Path(partial)):
            return Path(partial)
        raise InputError(
            f"{name!r} is not a local folder or released model{_suggest(name)}; {_explain(revision, error)}"
        ) from error


def _suggest(name: str) -> str:
    """Suggest the closest name of a local folder or a known model, in parentheses."""
    folders = [path.name for path in Path().iterdir() if path.is_dir()]
    close = difflib.get_close_matches(name, (*RELEASED, *folders, *PUBLISHED), n=1, cutoff=0.75)
    return f" (did you mean {close[0]}?)" if close else ""


def _explain(revision: str | None, error: Exception) -> str:
    from huggingface_hub import errors as hub

    # The cause of "not in the cache" is the error of the request.
    cause = error.__cause__ if isinstance(error, hub.LocalEntryNotFoundError) and error.__cause__ else error
    status = getattr(getattr(cause, "response", None), "status_code", None)
    if isinstance(cause, hub.HFValidationError):
        return "it cannot be a hub name, such as albert/albert-base-v2"
    if isinstance(cause, hub.OfflineModeIsEnabled):
        reason = "it is not in the cache and the hub is offline (HF_HUB_OFFLINE=1); download it once online"
    elif isinstance(cause, hub.GatedRepoError):
        reason = "on the hub it is gated; accept its terms on its page and log in with `hf auth login`"
    elif isinstance(cause, hub.RevisionNotFoundError):
        return (
            f"on the hub it has no revision {revision or 'main'!r}; check the branch, the tag or the commit"
        )
    elif isinstance(cause, hub.RepositoryNotFoundError) or status == 404:
        return "it is not on the hub: check the spelling, or log in if the model is private"
    elif status in (401, 403):
        reason = "on the hub it is not accessible; log in with `hf auth login` or renew HF_TOKEN"
    elif isinstance(cause, OSError) and cause.errno in _DISK_ERRNOS:
        reason = f"it cannot be written to the cache ({cause.strerror}); free disk space, set HF_HOME"
    else:
        reason = f"it is not in the cache and the hub cannot be read ({first_line(cause)}); check the network"
    return f"{reason}, or give a local folder"
