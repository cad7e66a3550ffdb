"""The folder of a run comes in, and is kept from others for as long as this process trains there."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from albert.errors import InputError
from albert.files import hold
from albert.training.checkpoints import CheckpointFolder
from albert.training.run_folder import (
    CHECKPOINTS_DIR,
    LOCK_NAME,
    has_run,
    is_same_launch,
    refuse_strangers,
    write_launch,
)


@contextmanager
def claim_run(run_dir: Path, *, resume: bool, launchers: list[str]) -> Iterator[None]:
    """Keep others out of the folder of the run; refused: one of something else, or of a run already.

    Processes that torchrun has started again go on without being told to.
    """
    if not has_run(run_dir):
        refuse_strangers(run_dir)
    elif not resume and not is_same_launch(run_dir, launchers):
        raise InputError(
            f"{run_dir}: holds a run already; add --resume to go on with it, or choose another --out"
        )
    busy = f"{run_dir}: another process is training there; wait for it, or choose another --out"
    with hold(run_dir / LOCK_NAME, busy=busy):
        CheckpointFolder(run_dir / CHECKPOINTS_DIR).sweep()
        if launchers:
            write_launch(run_dir, launchers)
        yield
