"""Run a study of arms: train and measure what is not finished, and write the report."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from albert.data.engines import Engine, WorkerError, build_engine
from albert.errors import InputError, TerminatedError, explain
from albert.files import hold, read_json, write_json
from albert.progress import NullReporter, Reporter
from albert.report.write import write_page
from albert.study.arms.budget import build_schedule, freeze_study
from albert.study.arms.folder import (
    StudyPlan,
    check_plan,
    describe_plan,
    has_plan,
    read_plan,
    reject_strangers,
    write_plan,
)
from albert.study.arms.plan import read_study
from albert.study.arms.report import build_page
from albert.study.arms.results import PRETRAIN_DIR, ArmSummary, Unit
from albert.study.arms.run import drop_checkpoints, run_unit
from albert.study.arms.settings import bind_plan, bind_questions, list_duplicates, resolve_arm
from albert.study.asking import Ask, StudyOutcome
from albert.study.step_costs import Footprint, measure_footprint
from albert.training.run_folder import count_cores, iter_records

_LOCK_NAME = ".lock"
_FOOTPRINTS_DIR = "footprints"
_NUM_PASSES = 3  # forward passes by which inference is timed
_SECONDS_BETWEEN_LOOKS = 10.0
_MAX_NAMED = 4  # runs in one line of progress


def run_ablation(name: str, ask: Ask, *, reporter: Reporter | None = None) -> StudyOutcome:
    """Run what is left of a study and write its report, also where it is stopped half way.

    Raises:
        InputError: If the folder holds other files, or the study was started with other settings or data.
    """
    reporter = reporter or NullReporter()
    ask = replace(ask, out=ask.out.absolute())  # workers may have another working folder
    settings = read_study(name, overrides=ask.overrides, arms=ask.arms)
    data = ask.require_data(name)
    asked = bind_plan(describe_plan(name, settings, data=data, task_data=ask.task_data, command=ask.command))
    if not has_plan(ask.out):
        reject_strangers(ask.out)
    ask.out.mkdir(parents=True, exist_ok=True)
    busy = f"{ask.out}: another process runs this study; wait for it, or choose another --out"
    with hold(ask.out / _LOCK_NAME, busy=busy):
        signal, lost = None, None
        try:
            with build_engine(ask.engine, num_workers=ask.num_workers, address=ask.address) as engine:
                plan = _open_plan(asked, ask, engine, reporter)
                signal = _run_units(plan, ask, engine, reporter)
        except (KeyboardInterrupt, WorkerError) as error:
            if not has_plan(ask.out):
                raise
            plan = read_plan(ask.out)
            if isinstance(error, KeyboardInterrupt):
                signal = _name_signal(error)
            else:
                lost = error
        outcome = _write_report(plan, ask.out, signal)
        if lost is not None:
            raise lost
        if signal is None and plan.settings.has_footprint:  # trained arms have their report by now
            signal = _measure_footprints(plan, ask.out, reporter)
            outcome = _write_report(plan, ask.out, signal)
    return outcome


def _name_signal(error: KeyboardInterrupt) -> str:
    return "SIGTERM" if isinstance(error, TerminatedError) else "SIGINT"


def _open_plan(asked: StudyPlan, ask: Ask, engine: Engine, reporter: Reporter) -> StudyPlan:
    """Read the plan of the folder, or write a new one, with its steps frozen if there is a budget."""
    asked = bind_questions(asked)
    if has_plan(ask.out):
        if ask.budget_seconds is not None:
            reporter.say("the study keeps the steps that it was begun with")
        return check_plan(ask.out, asked)
    for one, other in list_duplicates(asked):
        reporter.say(
            f"arms {one} and {other} are the same model with these settings; --arms can leave one out"
        )
    plan = asked
    if ask.budget_seconds is not None:
        plan = freeze_study(
            asked,
            ask.out,
            seconds=ask.budget_seconds,
            engine=engine,
            num_threads=count_threads(ask),
            reporter=reporter,
        )
    elif asked.settings.equal == "time":
        raise InputError(f"study {asked.name}: its arms take equal time; say how much, as in --budget 1h")
    write_plan(ask.out, plan)
    return plan


def count_threads(ask: Ask) -> int | None:
    """The number of threads of a run beside others; None where it is alone and has them all."""
    if ask.engine == "local" and (ask.num_workers or 1) == 1:
        return None
    num_cores = count_cores()
    return max(1, num_cores // (ask.num_workers or num_cores))


def _run_units(plan: StudyPlan, ask: Ask, engine: Engine, reporter: Reporter) -> str | None:
    """Run what is not finished, group by group; return the signal that stopped it, if one did."""
    units = [Unit(ask.out, arm, seed) for seed in plan.settings.seeds for arm in plan.settings.arms]
    threads = count_threads(ask)
    run = partial(run_unit, num_threads=threads, reporter=reporter if threads is None else None)
    num_done = 0
    for unit in units:
        if unit.result is not None:
            num_done += 1
            drop_checkpoints(unit)  # a kill may have come before

    def can_start(unit: Unit) -> bool:
        start = plan.settings.arms[unit.arm].start_from
        if start is None or Unit(unit.study_dir, start, unit.seed).result is not None:
            return True
        reporter.say(f"{unit.name}: left out, because {start}, which it starts from, is not finished")
        return False

    # Runs in other processes cannot report their progress; their folders can.
    steps = {} if threads is None else {unit: resolve_arm(plan, unit).num_steps for unit in units}
    with nullcontext() if threads is None else _watch(steps, reporter):
        for group in build_schedule(plan.settings, num_at_once=engine.num_at_once).groups:
            left = [unit for arm, seed in group if (unit := Unit(ask.out, arm, seed)).result is None]
            for unit, outcome in engine.run(run, [unit for unit in left if can_start(unit)]):
                if outcome.signal is not None:
                    return outcome.signal
                num_done += outcome.is_finished
                ended = "done" if outcome.is_finished else f"failed: {outcome.reason}"
                reporter.say(f"{unit.name}: {ended}; {num_done} of {len(units)} are finished")
    return None


@contextmanager
def _watch(num_steps: Mapping[Unit, int], reporter: Reporter) -> Iterator[None]:
    """Show the progress of all runs now and then while the block waits for their results."""
    is_over = threading.Event()

    def look_again() -> None:
        while not is_over.wait(_SECONDS_BETWEEN_LOOKS):
            show_units(num_steps, reporter)

    thread = threading.Thread(target=look_again, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def show_units(num_steps: Mapping[Unit, int], reporter: Reporter) -> None:
    """Show the steps of the runs in training, and the share of all steps that is done, in one line."""
    num_done, shown = 0, []
    for unit, total in num_steps.items():
        if unit.is_over:
            num_done += total
            continue
        step = max((record["step"] for record in iter_records(unit.folder / PRETRAIN_DIR)), default=None)
        if step is not None:
            num_done += step
            state = "trained, is asked" if step >= total else f"step {step:,} of {total:,}"
            shown.append(f"{unit.name}: {state}")
    if shown:
        more = f"; {len(shown) - _MAX_NAMED} more" if len(shown) > _MAX_NAMED else ""
        fraction = num_done / sum(num_steps.values())
        reporter.show("training", "; ".join(shown[:_MAX_NAMED]) + more, fraction=fraction)


def _measure_footprints(plan: StudyPlan, study_dir: Path, reporter: Reporter) -> str | None:
    """Measure a training step of each arm at full depth and length, once, in a fresh process.

    Returns the signal that stopped it, if one did.
    """
    for number, arm in enumerate(plan.settings.arms, start=1):
        path = study_dir / _FOOTPRINTS_DIR / f"{arm}.json"
        if path.exists():
            continue
        reporter.show("measuring", f"{arm}, {number} of {len(plan.settings.arms)}: time and memory of a step")
        settings = resolve_arm(plan, Unit(study_dir, arm, 0))
        assert settings.model is not None, "it is resolved"
        try:
            found = measure_footprint(
                settings.model,
                batch_size=settings.batch_size,
                length=settings.examples.max_length,
                optimizer=settings.optimizer.name,
                gradient_checkpointing=settings.gradient_checkpointing,
                num_passes=_NUM_PASSES,
                micro_batch_tokens=settings.micro_batch_tokens,
            )
        except KeyboardInterrupt as error:
            return _name_signal(error)
        except Exception as error:  # trained arms are worth their report without it
            reporter.say(f"{arm}: its step is not measured: {explain(error)}")
            continue
        write_json(path, asdict(found))
    return None


def _write_report(plan: StudyPlan, study_dir: Path, signal: str | None) -> StudyOutcome:
    """Write the report of every arm, finished or not."""
    summaries, all_failures = [], {}
    for arm in plan.settings.arms:
        results, failures = {}, {}
        for seed in plan.settings.seeds:
            unit = Unit(study_dir, arm, seed)
            if (result := unit.result) is not None:
                results[seed] = result
            elif (reason := _find_failure(plan, unit)) is not None:
                failures[seed] = all_failures[unit.name] = reason
        path = study_dir / _FOOTPRINTS_DIR / f"{arm}.json"
        footprint = Footprint(**read_json(path)) if path.exists() else None
        summaries.append(ArmSummary(arm, results, failures, footprint))
    page = build_page(plan, summaries)
    return StudyOutcome(plan.name, write_page(study_dir, page), page, failures=all_failures, signal=signal)


def _find_failure(plan: StudyPlan, unit: Unit) -> str | None:
    """Find why there is no result and will be none: it failed, or the arm did that it starts from."""
    start = plan.settings.arms[unit.arm].start_from
    if unit.failure is not None or start is None:
        return unit.failure
    before = Unit(unit.study_dir, start, unit.seed)
    if before.result is not None or _find_failure(plan, before) is None:
        return None
    return f"left out: {start}, which it starts from, failed"
