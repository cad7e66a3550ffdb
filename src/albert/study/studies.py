"""The table of studies: run one by its name and write its report."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from albert.errors import InputError, suggest
from albert.progress import NullReporter, Reporter
from albert.report.content import Page
from albert.report.write import write_page
from albert.settings import Settings, add_seed, apply_overrides, build_settings
from albert.study.agreement import AgreementSettings, run_agreement
from albert.study.arms.ablation import run_ablation
from albert.study.arms.plan import SHELF, list_ablations
from albert.study.asking import Ask, StudyOutcome
from albert.study.layers.study import LayersSettings, run_layers
from albert.study.memory import MemorySettings, run_memory
from albert.study.speed import SpeedSettings, run_speed

# Studies that train no arms: their settings, and the function that builds their page.
_OTHERS: dict[str, tuple[type[Settings], Callable[..., Page]]] = {
    "layers": (LayersSettings, run_layers),
    "speed": (SpeedSettings, run_speed),
    "memory": (MemorySettings, run_memory),
    "agreement": (AgreementSettings, run_agreement),
}


def list_studies() -> list[str]:
    """All names: the models of table 2 first, then the ablations, then what needs no training."""
    return ["overall", *(name for name in list_ablations() if name != "overall"), *_OTHERS]


def run_study(name: str, ask: Ask, *, reporter: Reporter | None = None) -> StudyOutcome:
    """Run what is left of a study and write its report; a YAML file of arms is a study, too."""
    reporter = reporter or NullReporter()
    if name in _OTHERS:
        return _run_other(name, ask, reporter)
    if name not in list_ablations() and not Path(name).is_file():
        known = [*list_studies(), "all"]
        raise InputError(f"no study {name!r}; {suggest(name, known, more=', or give a file')}")
    ask.refuse(name, model=ask.models)
    overrides = tuple(add_seed(ask.overrides, ask.seed, key="first_seed"))
    return run_ablation(name, replace(ask, overrides=overrides), reporter=reporter)


def _run_other(name: str, ask: Ask, reporter: Reporter) -> StudyOutcome:
    ask.refuse(name, arms=ask.arms, task_data=ask.task_data, budget=ask.budget_seconds,
               workers=ask.num_workers, address=ask.address, engine=ask.engine != "local")  # fmt: skip
    inputs: dict[str, Any] = {}
    if name == "agreement":
        inputs["data"] = ask.data
    else:
        ask.refuse(name, seed=ask.seed is not None, data=ask.data)
    if name in ("speed", "memory"):
        ask.refuse(name, model=ask.models)
    settings_type, run = _OTHERS[name]
    values, source = SHELF.read_values(name)
    overrides = add_seed(ask.overrides, ask.seed, key="seed")
    settings = build_settings(settings_type, values=apply_overrides(values, overrides), source=source)
    if name in ("layers", "agreement"):
        inputs["models"] = ask.require_models(name)
    page = run(settings, out=ask.out, reporter=reporter, **inputs)
    return StudyOutcome(name, write_page(ask.out, page), page)
