"""The table of studies: a name and what a person asks for come in; it is run and its report goes out."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from albert.errors import InputError, suggest
from albert.report.write import write_page
from albert.reporting import Reporter, Silence
from albert.settings import Settings, add_seed, apply_overrides, build_settings
from albert.study.agreement.settings import AgreementSettings
from albert.study.agreement.study import run_agreement
from albert.study.arms.ablation import run_ablation
from albert.study.arms.plan import SHELF, list_ablations
from albert.study.asking import Ask, StudyOutcome
from albert.study.layers.study import LayersSettings, run_layers
from albert.study.memory import MemorySettings, run_memory
from albert.study.speed import SpeedSettings, run_speed

Runner = Callable[[Ask, Reporter], StudyOutcome]
S = TypeVar("S", bound=Settings)


def list_studies() -> list[str]:
    """All names: the models of table 2 first, then the ablations, then what needs no training."""
    return ["overall", *(name for name in list_ablations() if name != "overall"), *_OTHERS]


def run_study(name: str, ask: Ask, *, reporter: Reporter | None = None) -> StudyOutcome:
    """Run what is left of a study and write its report; a file of arms is a study, too."""
    reporter = reporter or Silence()
    if name in _OTHERS:
        ask.refuse(name, arms=ask.arms, task_data=ask.task_data, budget=ask.budget_seconds,
                   workers=ask.num_workers, address=ask.address, engine=ask.engine != "local")  # fmt: skip
        return _OTHERS[name](_with_seed(name, ask, "seed"), reporter)
    if name not in list_ablations() and not Path(name).is_file():
        known = [*list_studies(), "all"]
        raise InputError(f"no study {name!r}; {suggest(name, known, more=', or give a file')}")
    ask.refuse(name, model=ask.models)
    return run_ablation(name, _with_seed(name, ask, "first_seed"), reporter=reporter)


def _with_seed(name: str, ask: Ask, key: str) -> Ask:
    """`--seed` as the setting that the study has for it."""
    if name in ("layers", "speed", "memory"):
        ask.refuse(name, seed=ask.seed is not None)
    return replace(ask, overrides=tuple(add_seed(ask.overrides, ask.seed, key=key)))


def _read(cls: type[S], name: str, ask: Ask) -> S:
    values, source = SHELF.read_values(name)
    return build_settings(cls, values=apply_overrides(values, ask.overrides), source=source)


def _run_layers(ask: Ask, reporter: Reporter) -> StudyOutcome:
    ask.refuse("layers", data=ask.data)
    settings = _read(LayersSettings, "layers", ask)
    page = run_layers(settings, models=ask.require_models("layers"), out=ask.out, reporter=reporter)
    return StudyOutcome("layers", write_page(ask.out, page), page)


def _run_agreement(ask: Ask, reporter: Reporter) -> StudyOutcome:
    ask.refuse("agreement", data=ask.data)
    settings = _read(AgreementSettings, "agreement", ask)
    page = run_agreement(settings, models=ask.require_models("agreement"), out=ask.out, reporter=reporter)
    return StudyOutcome("agreement", write_page(ask.out, page), page)


def _run_speed(ask: Ask, reporter: Reporter) -> StudyOutcome:
    ask.refuse("speed", data=ask.data, model=ask.models)
    page = run_speed(_read(SpeedSettings, "speed", ask), out=ask.out, reporter=reporter)
    return StudyOutcome("speed", write_page(ask.out, page), page)


def _run_memory(ask: Ask, reporter: Reporter) -> StudyOutcome:
    ask.refuse("memory", data=ask.data, model=ask.models)
    page = run_memory(_read(MemorySettings, "memory", ask), out=ask.out, reporter=reporter)
    return StudyOutcome("memory", write_page(ask.out, page), page)


_OTHERS: dict[str, Runner] = {
    "layers": _run_layers,
    "speed": _run_speed,
    "memory": _run_memory,
    "agreement": _run_agreement,
}
