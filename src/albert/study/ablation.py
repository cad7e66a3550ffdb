"""Run an ablation study: make a plan, run what is not finished, and write the report."""

from dataclasses import asdict, replace
from functools import partial
from itertools import combinations
from pathlib import Path

from albert.data.engines import Engine, WorkerError, build_engine
from albert.errors import InputError, TerminatedError, explain
from albert.files import hold, read_json, write_json
from albert.progress import NullReporter, Reporter
from albert.report.write import write_page
from albert.study.ablation_report import VariantSummary, build_page
from albert.study.plan import Run, StudyPlan, build_plan, build_schedule, freeze_steps, has_plan, resume_plan
from albert.study.results import reject_other_files
from albert.study.run import FAILURE_NAME, read_result, remove_checkpoints, run_variant
from albert.study.settings import StudyOptions, StudyOutcome, read_study
from albert.study.step_costs import Footprint, StepRequest, measure_footprint
from albert.threads import count_cores

_FOOTPRINTS_DIR = "footprints"
_NUM_PASSES = 3  # timed forward passes


def run_ablation(name: str, options: StudyOptions, *, reporter: Reporter | None = None) -> StudyOutcome:
    """Run what is left of a study and write its report, even if it is stopped."""
    reporter = reporter or NullReporter()
    if options.data is None:
        raise InputError(f"study {name}: trains models; give a prepared corpus with --data")
    out = options.out.absolute()  # workers may have another working directory
    settings = read_study(name, overrides=options.overrides, variants=options.variants)
    new = build_plan(name, settings, data=options.data, task_data=options.task_data, command=options.command)
    if not has_plan(out):
        reject_other_files(out)
    busy = f"{out}: another process is running this study; wait for it, or choose another --out"
    with hold(out / ".lock", busy=busy):
        signal, lost = None, None
        try:
            workers, address = options.num_workers, options.address
            with build_engine(options.engine, num_workers=workers, address=address) as engine:
                plan = _open_plan(new, out, options, engine, reporter)
                signal = _run_variants(plan, out, count_threads(options), engine, reporter)
        except (KeyboardInterrupt, WorkerError) as error:
            if not has_plan(out):
                raise
            plan = StudyPlan.read(out)
            if isinstance(error, KeyboardInterrupt):
                signal = _name_signal(error)
            else:
                lost = error
        outcome = _write_report(plan, out, signal)
        if lost is not None:
            raise lost
        if signal is None and plan.settings.has_footprint:  # the report of the runs is written first
            signal = _measure_footprints(plan, out, reporter)
            outcome = _write_report(plan, out, signal)
    return outcome


def _name_signal(error: KeyboardInterrupt) -> str:
    return "SIGTERM" if isinstance(error, TerminatedError) else "SIGINT"


def _open_plan(
    new: StudyPlan, out: Path, options: StudyOptions, engine: Engine, reporter: Reporter
) -> StudyPlan:
    """Resume the plan of the folder, or write a new one, with the steps frozen by a budget if any."""
    seconds = options.budget_seconds
    if has_plan(out):
        if seconds is not None:
            reporter.say("ignoring --budget: the study keeps the number of steps that it was started with")
        return resume_plan(out, new)
    for one, other in combinations(new.bound, 2):
        if new.bound[one] == new.bound[other]:
            reporter.say(f"variants {one} and {other} have the same settings; remove one of them")
    if seconds is not None:
        threads = count_threads(options)
        new = freeze_steps(new, seconds=seconds, engine=engine, num_threads=threads, reporter=reporter)
    elif new.settings.equal == "time":
        raise InputError(f"study {new.name}: variants train for equal time; give a budget, as in --budget 1h")
    new.write(out)
    return new


def count_threads(options: StudyOptions) -> int | None:
    """Count the threads of each run; None if runs are not parallel and torch chooses."""
    if options.engine == "local" and (options.num_workers or 1) == 1:
        return None
    num_cores = count_cores()
    return max(1, num_cores // (options.num_workers or num_cores))


def _run_variants(
    plan: StudyPlan, out: Path, threads: int | None, engine: Engine, reporter: Reporter
) -> str | None:
    """Run what is not finished, group by group; return the signal that stopped it, if any."""
    runs = [Run(out, variant, seed) for seed in plan.settings.seeds for variant in plan.settings.variants]
    finished = {run for run in runs if read_result(run) is not None}
    for run in finished:
        remove_checkpoints(run)  # left if it was killed just after the end
    function = partial(run_variant, num_threads=threads, reporter=reporter if threads is None else None)
    for group in build_schedule(plan.settings, num_at_once=engine.num_at_once).groups:
        ready = []
        for run in (Run(out, variant, seed) for variant, seed in group):
            start = plan.settings.variants[run.variant].start_from
            if run in finished:
                continue
            if start is None or replace(run, variant=start) in finished:
                ready.append(run)
            else:
                reporter.say(f"{run.name}: skipped: it starts from {start}, which is not finished")
        for run, outcome in engine.run(function, ready):
            if outcome.signal is not None:
                return outcome.signal
            if outcome.is_finished:
                finished.add(run)
            ended = "done" if outcome.is_finished else f"failed: {outcome.reason}"
            reporter.say(f"{run.name}: {ended}; {len(finished)} of {len(runs)} are finished")
            if threads is not None:  # runs in other processes show no progress
                progress = f"{len(finished)} of {len(runs)} runs"
                reporter.show("training", progress, fraction=len(finished) / len(runs))
    return None


def _measure_footprints(plan: StudyPlan, out: Path, reporter: Reporter) -> str | None:
    """Measure a training step of each variant in a new process; return the signal that stopped it, if any."""
    for number, variant in enumerate(plan.settings.variants, start=1):
        path = out / _FOOTPRINTS_DIR / f"{variant}.json"
        if path.exists():
            continue
        reporter.show("measuring", f"{variant}, {number} of {len(plan.settings.variants)}: a training step")
        settings, config = plan.resolve(Run(out, variant, 0))
        request = StepRequest(
            config=config,
            batch_size=settings.batch_size,
            length=settings.examples.max_length,
            optimizer=settings.optimizer.name,
            gradient_checkpointing=settings.gradient_checkpointing,
            num_passes=_NUM_PASSES,
            micro_batch_tokens=settings.micro_batch_tokens,
        )
        try:
            footprint = measure_footprint(request)
        except KeyboardInterrupt as error:
            return _name_signal(error)
        except Exception as error:  # the report is useful without it
            reporter.say(f"{variant}: cannot measure its training step: {explain(error)}")
            continue
        write_json(path, asdict(footprint))
    return None


def _write_report(plan: StudyPlan, out: Path, signal: str | None) -> StudyOutcome:
    summaries, all_failures = [], {}
    for variant in plan.settings.variants:
        results, failures = {}, {}
        for seed in plan.settings.seeds:
            run = Run(out, variant, seed)
            if (result := read_result(run)) is not None:
                results[seed] = result
            elif (reason := _find_failure(plan, run)) is not None:
                failures[seed] = all_failures[run.name] = reason
        path = out / _FOOTPRINTS_DIR / f"{variant}.json"
        footprint = Footprint(**read_json(path)) if path.exists() else None
        summaries.append(VariantSummary(variant, results, failures, footprint))
    page = build_page(plan, summaries)
    return StudyOutcome(plan.name, write_page(out, page), page, failures=all_failures, signal=signal)


def _find_failure(plan: StudyPlan, run: Run) -> str | None:
    """Find the reason if a run, or the one that it starts from, has failed."""
    path, start = run.folder / FAILURE_NAME, plan.settings.variants[run.variant].start_from
    if path.exists():
        return str(read_json(path)["reason"])
    if start is None or _find_failure(plan, replace(run, variant=start)) is None:
        return None
    return f"skipped: it starts from {start}, which failed"
