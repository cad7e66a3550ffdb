"""The name of a model that comes with the package comes in; the folder where it lies goes out."""

import difflib
from collections.abc import Mapping
from pathlib import Path

from albert.errors import InputError
from albert.pretrained.file_names import CONFIG_NAME

RELEASED_DIR = Path(__file__).resolve().parents[1] / "released"
RELEASED: Mapping[str, Path] = {"nano": RELEASED_DIR / "nano", "albert-nano-en": RELEASED_DIR / "nano"}


def find_released(name: str) -> Path | None:
    """The folder of a released model; None for any other name. Refused: a package that was built without."""
    folder = RELEASED.get(name)
    if folder is not None and not (folder / CONFIG_NAME).exists():
        raise InputError(
            f"{name!r} comes with the package, but this one was built without it; install a release of "
            "albert-encoder, or give a local folder"
        )
    return folder


def suggest_released(name: str) -> str | None:
    """The released name that was perhaps meant."""
    return next(iter(difflib.get_close_matches(name, RELEASED, n=1, cutoff=0.75)), None)
