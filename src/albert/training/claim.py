"""The folder of a run comes in, and is kept from others for as long as this process trains there."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from albert.errors import InputError
from albert.files import hold
from albert.training.checkpoints import CheckpointFolder
from albert.training.run_folder import (
    CHECKPOINTS_DIR,
    LAUNCH_NAME,
    LOCK_NAME,
    SETTINGS_NAME,
    has_run,
    is_same_launch,
    refuse_strangers,
    write_launch,
)


@contextmanager
def claim_run(run_dir: Path, *, resume: bool, launchers: list[str]) -> Iterator[None]:
    """Keep others out of the folder of the run; refused: one of something else, or of a run already.

    Processes that torchrun has started again go on without being told to. Where no run has begun in the end,
    because what it was to learn from is refused, nothing of it is left.
    """
    if not has_run(run_dir):
        refuse_strangers(run_dir)
    elif not resume and not is_same_launch(run_dir, launchers):
        raise InputError(
            f"{run_dir}: holds a run already; add --resume to go on with it, or choose another --out"
        )
    busy = f"{run_dir}: another process is training there; wait for it, or choose another --out"
    missing = [path for path in (run_dir, *run_dir.parents) if not path.exists()]
    with hold(run_dir / LOCK_NAME, busy=busy):
        try:
            CheckpointFolder(run_dir / CHECKPOINTS_DIR).sweep()
            if launchers:
                write_launch(run_dir, launchers)
            yield
        finally:
            if not has_run(run_dir):
                _leave(run_dir, made=missing)


def _leave(run_dir: Path, *, made: Sequence[Path]) -> None:
    """Take away what claiming has put there, and of the folders that it made those that are empty."""
    with suppress(OSError):
        for name in (SETTINGS_NAME, LAUNCH_NAME, LOCK_NAME):
            (run_dir / name).unlink(missing_ok=True)
        for folder in made:
            folder.rmdir()
