"""Units that other processes run come in; how far they are is shown, as the records of their runs tell."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from albert.reporting import Reporter
from albert.study.arms.results import FAILURE_NAME, PRETRAIN_DIR, RESULT_NAME, Unit
from albert.training.metrics import iter_records

STAGE = "training"
_SECONDS_BETWEEN_LOOKS = 10.0
_MAX_NAMED = 4  # units in one line; of more, their number is told


@dataclass(frozen=True)
class WatchedUnit:
    """A unit and the steps that it will take."""

    unit: Unit
    num_steps: int

    @property
    def is_over(self) -> bool:
        """Finished, or failed."""
        return any((self.unit.folder / name).exists() for name in (RESULT_NAME, FAILURE_NAME))

    def count_steps(self) -> int | None:
        """Steps taken so far; None: not begun."""
        return max((record["step"] for record in iter_records(self.unit.folder / PRETRAIN_DIR)), default=None)


@contextmanager
def watch(units: Sequence[WatchedUnit], reporter: Reporter) -> Iterator[None]:
    """Show now and then how far all of them are, while the `with` block waits for their results."""
    is_over = threading.Event()

    def look_again() -> None:
        while not is_over.wait(_SECONDS_BETWEEN_LOOKS):
            with suppress(OSError):  # a file system that is slow or gone for a moment ends no study
                show_units(units, reporter)

    thread = threading.Thread(target=look_again, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def show_units(units: Sequence[WatchedUnit], reporter: Reporter) -> None:
    """One line: the steps of those that are being trained, and the share of all steps that is done with."""
    num_done, told = 0, []
    for each in units:
        if each.is_over:
            num_done += each.num_steps
        elif (num_steps := each.count_steps()) is not None:
            num_done += num_steps
            is_trained = num_steps >= each.num_steps
            place = "trained, is asked" if is_trained else f"step {num_steps:,} of {each.num_steps:,}"
            told.append(f"{each.unit.name}: {place}")
    if not told:
        return
    more = f"; {len(told) - _MAX_NAMED} more" if len(told) > _MAX_NAMED else ""
    fraction = num_done / sum(each.num_steps for each in units)
    reporter.show(STAGE, "; ".join(told[:_MAX_NAMED]) + more, fraction=fraction)
