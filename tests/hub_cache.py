"""A model in the hub's cache on this disk, as another program has left it there; the hub is never asked."""

from pathlib import Path

import huggingface_hub.constants as hub
import pytest


def put_into_hub_cache(
    name: str, folder: Path, *, cache: Path, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let `folder` be this revision of the model `name`, for as long as the test lasts."""
    place = cache / f"models--{name.replace('/', '--')}"
    commit = revision.encode().hex().ljust(40, "0")
    (place / "snapshots").mkdir(parents=True, exist_ok=True)
    (place / "snapshots" / commit).symlink_to(folder)
    (place / "refs").mkdir(exist_ok=True)
    (place / "refs" / revision).write_text(commit)
    monkeypatch.setattr(hub, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(hub, "HF_HUB_OFFLINE", True)
