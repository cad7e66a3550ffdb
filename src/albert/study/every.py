"""Run all studies within one budget (`albert study all`) and report on them on one page."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from albert.errors import InputError, explain
from albert.files import read_json, write_json
from albert.progress import NullReporter, Reporter, format_seconds
from albert.report.content import Cell, Column, Page, Section, Table
from albert.report.write import write_page
from albert.study.arms.folder import has_plan, read_plan
from albert.study.arms.results import PRETRAIN_DIR, Unit
from albert.study.asking import Ask, StudyOutcome
from albert.study.studies import list_studies, run_study
from albert.training.run_folder import MODEL_DIR

_STATE_NAME = "all.json"
_LOOKS_AT_MODELS = ("layers", "agreement")
_TRAINS_NOTHING = ("layers", "agreement", "speed", "memory")
_FIRST = ("speed", "memory")


def run_all(
    ask: Ask, *, names: Sequence[str] | None = None, reporter: Reporter | None = None
) -> StudyOutcome:
    """Run every study, or those named, each in its own folder; if one fails, the others still run.

    Studies that train share the rest of the budget equally when they start; the others take as long as they
    take. Studies of trained models use those of `--model`, or else the models that the study `overall` has
    trained with its first seed.
    """
    reporter = reporter or NullReporter()
    ask.refuse("all", arms=ask.arms)
    if ask.budget_seconds is None:
        raise InputError("study all: takes a budget, as in --budget 3h")
    ask.require_data("all")
    clock = _Clock(ask.out / _STATE_NAME, ask.budget_seconds)
    outcomes: dict[str, StudyOutcome] = {}
    missed: dict[str, str] = {}
    signal = None
    names = order_studies() if names is None else names
    for name in names:
        try:
            own = _build_ask(name, ask, clock, [each for each in names if each not in missed])
            reporter.say(f"study {name}")
            outcomes[name] = clock.run(name, partial(run_study, name, own, reporter=reporter))
            signal = outcomes[name].signal
        except Exception as error:  # one failed study does not stop the others
            missed[name] = explain(error)
            reporter.say(f"study {name}: {missed[name]}")
        if signal is not None:
            break
    page = _build_page(names, outcomes, missed, clock)
    report = write_page(ask.out, page, name="index")
    failures = {
        f"{name}: {unit}": why for name, each in outcomes.items() for unit, why in each.failures.items()
    }
    return StudyOutcome("all", report, page, failures={**missed, **failures}, signal=signal)


def order_studies() -> list[str]:
    """List all studies: first those without a budget, last those that use the models of the others."""
    names = list_studies()
    return [*_FIRST, *(name for name in names if name not in _TRAINS_NOTHING), *_LOOKS_AT_MODELS]


def _build_ask(name: str, ask: Ask, clock: "_Clock", names: Sequence[str]) -> Ask:
    out = ask.out / name
    if name in _TRAINS_NOTHING:
        models = ask.models or _find_trained(ask.out / "overall") if name in _LOOKS_AT_MODELS else ()
        return Ask(out=out, models=models, command=ask.command)
    left = [each for each in names if each not in _TRAINS_NOTHING and not has_plan(ask.out / each)]
    share = None if has_plan(out) else clock.left / max(1, len(left))
    return replace(ask, out=out, models=(), budget_seconds=share)


def _find_trained(study_dir: Path) -> tuple[str, ...]:
    """Return the models of a study's finished arms with its first seed."""
    if not has_plan(study_dir):
        return ()
    settings = read_plan(study_dir).settings
    units = [Unit(study_dir, arm, settings.seeds[0]) for arm in settings.arms]
    return tuple(str(unit.folder / PRETRAIN_DIR / MODEL_DIR) for unit in units if unit.result is not None)


class _Clock:
    """The seconds that each study has taken, over all starts."""

    def __init__(self, path: Path, budget: float) -> None:
        self._path, self.budget = path, budget
        self.spent: dict[str, float] = read_json(path)["spent"] if path.exists() else {}

    @property
    def left(self) -> float:
        """The seconds left of the budget."""
        return max(0.0, self.budget - sum(self.spent.values()))

    def run(self, name: str, function: Callable[[], StudyOutcome]) -> StudyOutcome:
        """Run a study and count its time, however it ends."""
        began = time.monotonic()
        try:
            return function()
        finally:
            self.spent[name] = self.spent.get(name, 0.0) + time.monotonic() - began
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self._path, {"budget_seconds": self.budget, "spent": self.spent})


def _build_page(
    names: Sequence[str], outcomes: dict[str, StudyOutcome], missed: dict[str, str], clock: _Clock
) -> Page:
    """Build the page: a row for each study, and the findings of all of them."""
    columns = [Column("study"), Column("report"), Column("minutes", is_number=True), Column("outcome")]
    rows = []
    for name in names:
        outcome = outcomes.get(name)
        told = missed.get(name, "not started") if outcome is None else _summarize_outcome(outcome)
        report = "" if outcome is None else f"{name}/report.html"
        rows.append(
            [Cell(name), Cell(report), Cell.number(clock.spent.get(name, 0.0) / 60, ".1f"), Cell(told)]
        )
    sections = [Section("The studies", tables=[Table("studies", columns, rows)])]
    for outcome in outcomes.values():
        findings = [found for section in outcome.page.sections for found in section.findings]
        if findings:
            sections.append(Section(outcome.page.title, paragraphs=[outcome.page.lead], findings=findings))
    spent, budget = format_seconds(sum(clock.spent.values())), format_seconds(clock.budget)
    lead = f"{len(outcomes)} studies in {spent}, of a budget of {budget}."
    return Page("Every table and figure of the paper, at the scale of this machine", lead, sections)


def _summarize_outcome(outcome: StudyOutcome) -> str:
    verdicts = [found.verdict for section in outcome.page.sections for found in section.findings]
    told = ", ".join(f"{verdicts.count(each)} {each}" for each in dict.fromkeys(verdicts)) or "–"
    failed = "; ".join(f"{unit}: {reason}" for unit, reason in outcome.failures.items())
    return f"{told}; {len(outcome.failures)} failed: {failed}" if failed else told
