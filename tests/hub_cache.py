"""A model in the hub's cache on this disk; nothing is requested from the hub."""

from pathlib import Path

import huggingface_hub.constants as hub
import pytest


def put_into_hub_cache(
    name: str, folder: Path, *, cache: Path, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Make `folder` this revision of the model `name` until the test ends."""
    cached = cache / f"models--{name.replace('/', '--')}"
    commit = revision.encode().hex().ljust(40, "0")
    (cached / "snapshots").mkdir(parents=True, exist_ok=True)
    (cached / "snapshots" / commit).symlink_to(folder)
    (cached / "refs").mkdir(exist_ok=True)
    (cached / "refs" / revision).write_text(commit)
    monkeypatch.setattr(hub, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(hub, "HF_HUB_OFFLINE", True)
