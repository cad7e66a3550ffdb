"""The table of studies: run one by name, or all of them within one budget, and write the report."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from albert.errors import InputError, explain, suggest
from albert.files import read_json, write_json
from albert.progress import NullReporter, Reporter, format_seconds
from albert.report.content import Cell, Column, Page, Section, Table
from albert.report.write import write_page
from albert.settings import Settings, add_seed, apply_overrides, build_settings
from albert.study.ablation import run_ablation
from albert.study.agreement import AgreementSettings, run_agreement
from albert.study.layers import LayersSettings, run_layers
from albert.study.memory import MemorySettings, run_memory
from albert.study.plan import Run, StudyPlan, has_plan
from albert.study.run import read_result
from albert.study.settings import RECIPES, StudyOptions, StudyOutcome, list_ablations
from albert.study.speed import SpeedSettings, run_speed

_STATE_NAME = "all.json"


@dataclass(frozen=True)
class _Measurement:
    """A study that does not train: its settings, the function that builds its page, and its options."""

    settings: type[Settings]
    run: Callable[..., Page]
    options: tuple[str, ...] = ()


_MEASUREMENTS = {
    "layers": _Measurement(LayersSettings, run_layers, ("model",)),
    "speed": _Measurement(SpeedSettings, run_speed),
    "memory": _Measurement(MemorySettings, run_memory),
    "agreement": _Measurement(AgreementSettings, run_agreement, ("model", "data", "seed")),
}
_TRAINING_OPTIONS = ("data", "task-data", "variants", "budget", "seed", "engine", "workers", "address")


def list_studies() -> list[str]:
    """List all studies: `overall` (table 2), the other ablations, then those that do not train."""
    return ["overall", *(name for name in list_ablations() if name != "overall"), *_MEASUREMENTS]


def run_study(name: str, options: StudyOptions, *, reporter: Reporter | None = None) -> StudyOutcome:
    """Run what is left of a study and write its report.

    Args:
        name: A name of `list_studies`, "all", or a YAML file.
        options: The options of the command.
        reporter: Receives progress and messages.
    """
    reporter = reporter or NullReporter()
    if name == "all":
        return run_all(options, reporter=reporter)
    if name in _MEASUREMENTS:
        return _measure(name, options, reporter)
    if name not in list_ablations() and not Path(name).is_file():
        known = [*list_studies(), "all"]
        hint = suggest(name, known, lead="studies:", more="; or give a YAML file")
        raise InputError(f"unknown study {name!r}; {hint}")
    options.reject_unused(name, used=_TRAINING_OPTIONS)
    overrides = tuple(add_seed(options.overrides, options.seed, key="first_seed"))
    return run_ablation(name, replace(options, overrides=overrides), reporter=reporter)


def _measure(name: str, options: StudyOptions, reporter: Reporter) -> StudyOutcome:
    study = _MEASUREMENTS[name]
    options.reject_unused(name, used=study.options)
    values, source = RECIPES.read_values(name)
    overrides = add_seed(options.overrides, options.seed, key="seed")
    settings = build_settings(study.settings, values=apply_overrides(values, overrides), source=source)
    inputs: dict[str, Any] = {}
    if "model" in study.options:
        if not options.models:
            raise InputError(f"study {name}: measures trained models; give each of them with --model")
        inputs["models"] = options.models
    if "data" in study.options:
        inputs["data"] = options.data
    page = study.run(settings, out=options.out, reporter=reporter, **inputs)
    return StudyOutcome(name, write_page(options.out, page), page)


def run_all(
    options: StudyOptions, *, names: Sequence[str] | None = None, reporter: Reporter | None = None
) -> StudyOutcome:
    """Run all studies, or those named, each in its own folder; if one fails, the others still run.

    When a study that trains starts, it gets an equal share of the remaining budget. Studies of trained models
    use those of `--model`, by default those of the study `overall` with its first seed.
    """
    reporter = reporter or NullReporter()
    options.reject_unused("all", used=[*(each for each in _TRAINING_OPTIONS if each != "variants"), "model"])
    budget = options.budget_seconds
    if budget is None:
        raise InputError("study all: give a budget, as in --budget 3h")
    if options.data is None:
        raise InputError("study all: trains models; give a prepared corpus with --data")
    state_path = options.out / _STATE_NAME
    spent: dict[str, float] = read_json(state_path)["spent"] if state_path.exists() else {}  # over all starts
    outcomes: dict[str, StudyOutcome] = {}
    errors: dict[str, str] = {}
    names = order_studies() if names is None else names
    for name in names:
        waiting = [each for each in names if each not in errors]
        own = build_options(name, options, waiting, seconds_left=max(0.0, budget - sum(spent.values())))
        reporter.say(f"study {name}")
        began = time.monotonic()
        try:
            outcomes[name] = run_study(name, own, reporter=reporter)
        except Exception as error:  # one failed study does not stop the others
            errors[name] = explain(error)
            reporter.say(f"study {name}: {errors[name]}")
        finally:
            spent[name] = spent.get(name, 0.0) + time.monotonic() - began
            write_json(state_path, {"budget_seconds": budget, "spent": spent})
        if name in outcomes and outcomes[name].signal is not None:
            break
    page = _build_page(names, outcomes, errors, spent)
    report = write_page(options.out, page, name="index")
    failures = {f"{name}: {run}": why for name in outcomes for run, why in outcomes[name].failures.items()}
    signal = next((each.signal for each in outcomes.values() if each.signal is not None), None)
    return StudyOutcome("all", report, page, failures={**errors, **failures}, signal=signal)


def order_studies() -> list[str]:
    """List all studies in the order to run them: those of trained models last."""
    without_models = [name for name, study in _MEASUREMENTS.items() if "model" not in study.options]
    with_models = [name for name in _MEASUREMENTS if name not in without_models]
    return [*without_models, *(name for name in list_studies() if name not in _MEASUREMENTS), *with_models]


def build_options(
    name: str, options: StudyOptions, names: Sequence[str], *, seconds_left: float
) -> StudyOptions:
    """Build the options of one of all studies, with its share of the seconds left."""
    out = options.out / name
    if name in _MEASUREMENTS:
        uses_models = "model" in _MEASUREMENTS[name].options
        models = options.models or list_trained_models(options.out / "overall") if uses_models else ()
        return StudyOptions(out=out, models=models, command=options.command)
    left = [each for each in names if each not in _MEASUREMENTS and not has_plan(options.out / each)]
    budget = None if has_plan(out) else seconds_left / max(1, len(left))
    return replace(options, out=out, models=(), budget_seconds=budget)


def list_trained_models(study_dir: Path) -> tuple[str, ...]:
    """List the models of the finished runs of a study with its first seed."""
    if not has_plan(study_dir):
        return ()
    settings = StudyPlan.read(study_dir).settings
    runs = [Run(study_dir, variant, settings.first_seed) for variant in settings.variants]
    return tuple(str(run.model_dir) for run in runs if read_result(run) is not None)


def _build_page(
    names: Sequence[str], outcomes: dict[str, StudyOutcome], errors: dict[str, str], spent: dict[str, float]
) -> Page:
    """Build the page with a row for each study, and all findings."""
    columns = [Column("study"), Column("report"), Column("minutes", is_number=True), Column("outcome")]
    rows, sections = [], []
    for name in names:
        text, report = errors.get(name, "not started"), ""
        if name in outcomes:
            page, failures = outcomes[name].page, outcomes[name].failures
            findings = [found for section in page.sections for found in section.findings]
            counts = Counter(found.outcome for found in findings)
            text = ", ".join(f"{count} {each}" for each, count in counts.items()) or "–"
            if failures:
                reasons = "; ".join(f"{run}: {reason}" for run, reason in failures.items())
                text += f"; {len(failures)} failed: {reasons}"
            report = f"{name}/report.html"
            if findings:
                sections.append(Section(page.title, paragraphs=[page.lead], findings=findings))
        minutes = Cell.number(spent.get(name, 0.0) / 60, ".1f")
        rows.append([Cell(name), Cell(report), minutes, Cell(text)])
    title = "The tables and figures of the paper, reproduced at a small scale"
    overview = Section("The studies", tables=[Table("studies", columns, rows)])
    lead = f"{len(outcomes)} studies in {format_seconds(sum(spent.values()))}."
    return Page(title, lead, [overview, *sections])
