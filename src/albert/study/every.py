"""`albert study all`: one budget comes in and is shared by all studies; a page about all goes out."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from albert.errors import InputError, explain
from albert.files import read_json, write_json
from albert.report.content import Cell, Column, Page, Section, Table
from albert.report.write import write_page
from albert.reporting import Reporter, Silence, format_seconds
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
    """Run every study, or those named, each in its own folder; one that fails is told of and the rest go on.

    What takes no budget is run as it is; the others share what is left of it, equally, as they begin. Models
    to look at are those of `--model`, or else what the study `overall` has trained with its first seed.
    """
    reporter = reporter or Silence()
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
        except Exception as error:  # a study may fail in any way; the others do not
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
    """All of them: first what takes as long as it takes, last what looks at the models of the others."""
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
    """The models of a study's finished arms, with its first seed."""
    if not has_plan(study_dir):
        return ()
    settings = read_plan(study_dir).settings
    units = [Unit(study_dir, arm, settings.seeds[0]) for arm in settings.arms]
    return tuple(str(unit.folder / PRETRAIN_DIR / MODEL_DIR) for unit in units if unit.result is not None)


class _Clock:
    """Seconds that each study has taken, over all starts."""

    def __init__(self, path: Path, budget: float) -> None:
        self._path, self.budget = path, budget
        self.spent: dict[str, float] = read_json(path)["spent"] if path.exists() else {}

    @property
    def left(self) -> float:
        """Of the budget."""
        return max(0.0, self.budget - sum(self.spent.values()))

    def run(self, name: str, function: Callable[[], StudyOutcome]) -> StudyOutcome:
        """Call, and count its time, however it ends."""
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
    """A row for each study, and every finding of all of them."""
    columns = [Column("study"), Column("report"), Column("minutes", is_number=True), Column("came out")]
    rows = []
    for name in names:
        minutes = clock.spent.get(name, 0.0) / 60
        outcome = outcomes.get(name)
        told = missed.get(name, "not begun") if outcome is None else _tell_outcome(outcome)
        report = "" if outcome is None else f"{name}/report.html"
        rows.append([Cell(name), Cell(report), Cell(f"{minutes:.1f}", minutes), Cell(told)])
    sections = [Section("The studies", tables=[Table("studies", columns, rows)])]
    for outcome in outcomes.values():
        findings = [found for section in outcome.page.sections for found in section.findings]
        if findings:
            sections.append(Section(outcome.page.title, paragraphs=[outcome.page.lead], findings=findings))
    total = sum(clock.spent.values())
    lead = (
        f"{len(outcomes)} studies in {format_seconds(total)}, of a budget of {format_seconds(clock.budget)}."
    )
    return Page("Every table and figure of the paper, at the scale of this machine", lead, sections)


def _tell_outcome(outcome: StudyOutcome) -> str:
    verdicts = [found.verdict for section in outcome.page.sections for found in section.findings]
    told = ", ".join(f"{verdicts.count(each)} {each}" for each in dict.fromkeys(verdicts)) or "–"
    failed = "; ".join(f"{unit}: {reason}" for unit, reason in outcome.failures.items())
    return f"{told}; {len(outcome.failures)} failed: {failed}" if failed else told
