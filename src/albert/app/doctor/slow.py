"""Why it takes so long: a run comes in; where its seconds go, and what takes them away, goes out."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from albert.app.doctor.curves import read_curve
from albert.app.doctor.findings import Figure, Finding, Severity
from albert.app.doctor.reading import AnyRun, PretrainRun
from albert.app.doctor.run import MIN_RECORDS, Record, Run
from albert.training.metrics import count_cores

_MAX_SWAP_MB = 1.0
_MAX_FAULTS = 10.0  # pages from the disk in a second: each takes a millisecond or several
_MIN_SPEED = 0.8  # of the run's own earlier speed


@dataclass(frozen=True)
class TimeShare:
    """A part of the time that should be small, and what to do where it is not.

    Runs of fine-tuning are short and asked often: theirs may be `short_limit`, where that is another.
    """

    name: str
    limit: float
    measure: Callable[[Run], float]
    title: str
    cure: Callable[[Run], str]
    short_limit: float | None = None

    def check(self, run: Run) -> Finding | None:
        """Named where it takes more than its limit."""
        share = self.measure(run)
        limit = self.limit if isinstance(run, PretrainRun) else self.short_limit or self.limit
        if share <= limit:
            return None
        figures: dict[str, Figure] = {self.name: share, **measure_shares(run), "limit_share": limit}
        return Finding("slow", "warning", self.title, figures, self.cure(run))


def measure_shares(run: Run) -> dict[str, float]:
    """The shares of model and optimiser in the recent steps."""
    return {"model_share": _share(run, "model_seconds"), "optimizer_share": _share(run, "optimizer_seconds")}


def find_speed(run: Run) -> float | None:
    """Pieces a second in the recent records; None: there are none."""
    values = read_curve(run.recent or run.trains, "tokens_per_second").values
    return float(np.median(values)) if len(values) else None


def _share(run: Run, key: str) -> float:
    """A part of the recent steps' seconds."""
    return _sum(run.recent, key) / max(_sum(run.recent, "seconds"), 1e-9)


def _share_of_all(run: Run, kind: str) -> float:
    """What records of a kind took of all the time."""
    seconds = {name: _sum(run.list_records(name), "seconds") for name in ("train", "evaluate", "save")}
    return seconds[kind] / max(sum(seconds.values()), 1e-9)


def _sum(records: Iterable[Record], key: str) -> float:
    return float(sum(record.get(key) or 0.0 for record in records))


def _cure_waiting(run: Run) -> str:
    if not isinstance(run, PretrainRun):  # its examples lie in memory, and are only laid side by side
        return "`top`: another process takes the time between two steps; let it finish first"
    command = run.format_resume(f"num_workers={run.settings.num_workers + 1}")
    return f"one more process that makes examples: stop the run and go on with `{command}`"


def _cure_evaluation(run: Run) -> str:
    questions = "fewer examples to be asked about"
    if isinstance(run, PretrainRun):
        questions = f"fewer questions (held_out.num_examples={run.settings.held_out.num_examples} now)"
    number = run.settings.num_evaluations
    return f"in a new run, {questions} or fewer evaluations (num_evaluations={number} now)"


def _cure_saving(run: Run) -> str:
    command = run.format_resume(f"save_minutes={3 * run.settings.save_minutes:g}")
    return f"a faster disk for the run, or seldomer: `{command}`; each evaluation saves, too"


def _cure_optimizer(run: Run) -> str:
    if isinstance(run, PretrainRun):
        return f"larger batches, in a new run: --batch-size {2 * run.settings.batch_size} rescales the rest"
    return "larger batches and a higher learning rate, in a new run: batch_size=… optimizer.learning_rate=…"


SHARES = (
    TimeShare(
        "waiting_for_data_share",
        0.10,
        lambda run: _share(run, "waited_seconds"),
        "steps wait for their examples",
        _cure_waiting,
    ),
    TimeShare(
        "optimizer_share",
        0.30,
        lambda run: _share(run, "optimizer_seconds"),
        "the optimiser takes much of each step",
        _cure_optimizer,
    ),
    TimeShare(
        "evaluation_share",
        0.15,
        lambda run: _share_of_all(run, "evaluate"),
        "evaluations take much of the time",
        _cure_evaluation,
        short_limit=0.40,
    ),
    TimeShare(
        "saving_share",
        0.10,
        lambda run: _share_of_all(run, "save"),
        "saving takes much of the time",
        _cure_saving,
    ),
)


def check_threads(run: Run) -> Finding | None:
    """Fewer threads than cores leave some idle, more get in each other's way."""
    starts = run.list_records("start")
    start: Record = starts[-1] if starts else {}
    cores: int = start.get("cores", count_cores())  # those of its own machine
    threads: int = start.get("threads", cores)
    num_processes: int = start.get("processes", 1)
    # Two hardware threads of one core are one core to torch: half as many is its own choice. Several
    # processes share the cores, and nobody knows of how many machines.
    is_right = threads <= cores <= 2 * threads or num_processes > 1
    if is_right or run.settings.runtime.device not in ("auto", "cpu"):
        return None
    figures: dict[str, Figure] = {"threads": threads, "cores": cores}
    title = f"threads and cores differ: {threads} and {cores}"
    cure = f"OMP_NUM_THREADS={cores} before `albert` (tiny models want fewer)"
    return Finding("slow", "warning" if threads > cores else "note", title, figures, cure)


def check_load(run: Run) -> Finding | None:
    """More is computed on the machine than it has cores for."""
    loads = read_curve(run.recent, "load").values
    starts = run.list_records("start")
    # A run that came from a larger machine is judged by the threads it had there.
    cores = max(count_cores(), starts[-1].get("threads", 1) if starts else 1)
    if not len(loads) or np.median(loads) <= 1.25 * cores + 0.5:
        return None
    figures: dict[str, Figure] = {"load": float(np.median(loads)), "cores": cores}
    title = "other processes compute on the same cores"
    return Finding("slow", "warning", title, figures, "`top` shows them; let one finish before the other")


def check_memory(run: AnyRun) -> Finding | None:
    """Memory that is on the disk."""
    swapped = read_curve(run.recent, "swap_mb").values
    faults = read_curve(run.recent, "major_faults").values
    seconds = max(_sum(run.recent[1:], "seconds"), 1e-9)
    # The count begins anew with each process.
    rate = float(np.diff(faults).clip(min=0).sum()) / seconds if len(faults) > 1 else 0.0
    most = float(swapped.max()) if len(swapped) else 0.0
    if most < _MAX_SWAP_MB and rate <= _MAX_FAULTS:
        return None
    peak = read_curve(run.recent, "peak_mb").values
    figures: dict[str, Figure] = {"swapped_mb": most, "pages_from_disk_a_second": rate}
    if len(peak):
        figures["peak_mb"] = float(peak.max())
    half = max(1, run.settings.micro_batch_tokens // 2)
    cure = (
        f"close other programs; or, in a new run, micro_batch_tokens={half} or gradient_checkpointing=true: "
        "the same steps in less memory"
    )
    severity: Severity = "warning" if rate > _MAX_FAULTS else "note"
    return Finding("slow", severity, "memory is short: parts of the run are on the disk", figures, cure)


def check_speed(run: Run) -> Finding | None:
    """Slower than the run itself was with the same depth and length."""
    if not run.settled:
        return None
    shape = _shape(run.settled[-1])
    alike = [record for record in run.settled if _shape(record) == shape]
    speeds = read_curve(alike, "tokens_per_second").values
    if len(speeds) < 3 * MIN_RECORDS:
        return None
    cut = len(speeds) - max(MIN_RECORDS, len(speeds) // 4)
    before, now = float(np.median(speeds[:cut])), float(np.median(speeds[cut:]))
    if now >= _MIN_SPEED * before:
        return None
    figures: dict[str, Figure] = {
        "tokens_per_second": now,
        "earlier_tokens_per_second": before,
    }
    if None not in shape:
        figures |= {"depth": shape[0] or 0, "length": shape[1] or 0}
    title = f"{1 - now / before:.0%} slower than the same steps were before"
    cure = "`top`: another process, or a hot processor that runs slower; `albert doctor` looks at the machine"
    return Finding("slow", "warning", title, figures, cure)


def _shape(record: Record) -> tuple[int | None, int | None]:
    return record.get("depth"), record.get("length")
