"""A study's recipe and a corpus come in; all arms are run that are not finished, and a report goes out."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from albert.corpus.workers import Engine, WorkerError, build_engine
from albert.errors import InputError, TerminatedError, explain
from albert.files import hold, read_json, write_json
from albert.report.write import write_page
from albert.reporting import Reporter, Silence
from albert.study.arms.binding import bind_plan, bind_questions, list_twins
from albert.study.arms.budget import Crew, freeze_study
from albert.study.arms.folder import (
    StudyPlan,
    check_plan,
    describe_plan,
    has_plan,
    read_plan,
    refuse_strangers,
    write_plan,
)
from albert.study.arms.page import build_page
from albert.study.arms.plan import read_study
from albert.study.arms.results import ArmSummary, Unit
from albert.study.arms.run import UnitOutcome, drop_checkpoints, run_unit
from albert.study.arms.schedule import build_schedule
from albert.study.arms.settings import resolve_arm
from albert.study.arms.watching import WatchedUnit, watch
from albert.study.asking import Ask, StudyOutcome
from albert.study.steps.step_process import Footprint, measure_footprint
from albert.training.metrics import count_cores

_LOCK_NAME = ".lock"
_FOOTPRINTS_DIR = "footprints"
_NUM_PASSES = 3  # forward passes by which inference is timed


def run_ablation(name: str, ask: Ask, *, reporter: Reporter | None = None) -> StudyOutcome:
    """Run what is left of a study and write its report, also where it is stopped half way.

    Refused: a folder of something else, or of the same study begun with other settings or another corpus.
    """
    reporter = reporter or Silence()
    ask = replace(ask, out=ask.out.absolute())  # workers may stand in another folder
    asked = bind_plan(
        describe_plan(
            name,
            read_study(name, overrides=ask.overrides, arms=ask.arms),
            data=ask.require_data(name),
            task_data=ask.task_data,
            command=ask.command,
        )
    )
    if not has_plan(ask.out):
        refuse_strangers(ask.out)
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


def _write_report(plan: StudyPlan, study_dir: Path, signal: str | None) -> StudyOutcome:
    summaries = collect_summaries(plan, study_dir)
    page = build_page(plan, summaries)
    report = write_page(study_dir, page)
    return StudyOutcome(plan.name, report, page, failures=_list_failures(summaries), signal=signal)


def _name_signal(error: KeyboardInterrupt) -> str:
    return "SIGTERM" if isinstance(error, TerminatedError) else "SIGINT"


def _list_failures(summaries: Sequence[ArmSummary]) -> dict[str, str]:
    return {
        f"{summary.arm}, seed {seed}": reason
        for summary in summaries
        for seed, reason in summary.failures.items()
    }


def _open_plan(asked: StudyPlan, ask: Ask, engine: Engine, reporter: Reporter) -> StudyPlan:
    """The plan that the folder has, or a new one with its steps frozen, if there is a budget."""
    if has_plan(ask.out):
        if ask.budget_seconds is not None:
            reporter.say("the study keeps the steps that it was begun with")
        return check_plan(ask.out, bind_questions(asked))
    plan = asked = bind_questions(asked)  # refused now, not in an hour
    for one, other in list_twins(asked):
        reporter.say(
            f"arms {one} and {other} are the same model with these settings; --arms can leave one out"
        )
    if ask.budget_seconds is not None:
        crew = Crew(engine, num_threads=count_threads(ask))
        plan = freeze_study(asked, ask.out, seconds=ask.budget_seconds, crew=crew, reporter=reporter)
    elif asked.settings.equal == "time":
        raise InputError(f"study {asked.name}: its arms take equal time; say how much, as in --budget 1h")
    write_plan(ask.out, plan)
    return plan


def _run_units(plan: StudyPlan, ask: Ask, engine: Engine, reporter: Reporter) -> str | None:
    """Run what is not finished, group by group; the signal that stopped it goes back, if one did."""
    units = list_units(plan, ask.out)
    threads = count_threads(ask)
    run = partial(run_unit, num_threads=threads, reporter=reporter if threads is None else None)
    for unit in units:
        if unit.result is not None:
            drop_checkpoints(unit)  # a kill may have come before
    num_done = sum(unit.result is not None for unit in units)
    with _watch_others(plan, units, reporter) if threads is not None else nullcontext():
        for group in build_schedule(plan.settings, num_at_once=engine.num_at_once).groups:
            left = [Unit(ask.out, arm, seed) for arm, seed in group]
            left = [unit for unit in left if unit.result is None and _can_start(plan, unit, reporter)]
            for unit, outcome in engine.run(run, left):
                if outcome.signal is not None:
                    return outcome.signal
                num_done += outcome.is_finished
                _tell(unit, outcome, num_done, len(units), reporter)
    return None


def _watch_others(plan: StudyPlan, units: Sequence[Unit], reporter: Reporter) -> AbstractContextManager[None]:
    """Units in other processes cannot show how far they are; their folders can."""
    watched = [WatchedUnit(unit, resolve_arm(plan, unit).num_steps) for unit in units]
    return watch(watched, reporter)


def count_threads(ask: Ask) -> int | None:
    """How many threads a unit has that runs beside others; None where it is alone and has them all."""
    if ask.engine == "local" and (ask.num_workers or 1) == 1:
        return None
    num_cores = count_cores()
    return max(1, num_cores // (ask.num_workers or num_cores))


def _can_start(plan: StudyPlan, unit: Unit, reporter: Reporter) -> bool:
    """Whether the arm that it starts from is there."""
    start = plan.settings.arms[unit.arm].start_from
    if start is None or Unit(unit.study_dir, start, unit.seed).result is not None:
        return True
    reporter.say(f"{unit.name}: left out, because {start}, which it starts from, is not finished")
    return False


def _tell(unit: Unit, outcome: UnitOutcome, num_done: int, number: int, reporter: Reporter) -> None:
    told = "done" if outcome.is_finished else f"failed: {outcome.reason}"
    reporter.say(f"{unit.name}: {told}; {num_done} of {number} are finished")


def list_units(plan: StudyPlan, study_dir: Path) -> list[Unit]:
    """Every arm with every seed."""
    return [Unit(study_dir, arm, seed) for seed in plan.settings.seeds for arm in plan.settings.arms]


def _measure_footprints(plan: StudyPlan, study_dir: Path, reporter: Reporter) -> str | None:
    """A training step of each arm at its full depth and length, in a fresh process; kept once measured.

    The signal that stopped it goes back, if one did.
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


def _find_failure(plan: StudyPlan, unit: Unit) -> str | None:
    """Why there is no result and will be none: it failed, or the arm did that it starts from."""
    start = plan.settings.arms[unit.arm].start_from
    if unit.failure is not None or start is None:
        return unit.failure
    before = Unit(unit.study_dir, start, unit.seed)
    if before.result is not None or _find_failure(plan, before) is None:
        return None
    return f"left out: {start}, which it starts from, failed"


def collect_summaries(plan: StudyPlan, study_dir: Path) -> list[ArmSummary]:
    """What is known of every arm, finished or not."""
    summaries = []
    for arm in plan.settings.arms:
        units = [Unit(study_dir, arm, seed) for seed in plan.settings.seeds]
        results = {unit.seed: result for unit in units if (result := unit.result) is not None}
        failures = {
            unit.seed: reason
            for unit in units
            if unit.seed not in results and (reason := _find_failure(plan, unit)) is not None
        }
        path = study_dir / _FOOTPRINTS_DIR / f"{arm}.json"
        footprint = Footprint(**read_json(path)) if path.exists() else None
        summaries.append(ArmSummary(arm, results, failures, footprint))
    return summaries
