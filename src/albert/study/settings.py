"""What a study is: its variants, seeds and claims, read from a YAML recipe and `key=value` overrides.

A new study is one file in `recipes/study`, or your own.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from albert.errors import InputError, suggest
from albert.report.content import Page
from albert.settings import Settings, apply_overrides, build_settings
from albert.tasks.catalogue import list_tasks
from albert.training.settings import RecipeFolder

SHELF = RecipeFolder("study")
Dimension = Literal["hidden_size", "embedding_size", "num_hidden_layers"]


@dataclass(frozen=True)
class Figure:
    """What is measured of a variant; accuracies (`is_share`) are shown in points of 100."""

    title: str
    is_better_high: bool = False
    is_share: bool = False


FIGURES = {
    "average": Figure("average of the tasks", is_better_high=True),
    "mlm_accuracy": Figure("MLM accuracy", is_better_high=True, is_share=True),
    "mlm_loss": Figure("MLM loss"),
    "sop_accuracy": Figure("SOP accuracy", is_better_high=True, is_share=True),
    "nsp_accuracy": Figure("NSP accuracy", is_better_high=True, is_share=True),
    "probe_sop": Figure("SOP accuracy of a probe", is_better_high=True, is_share=True),
    "probe_nsp": Figure("NSP accuracy of a probe", is_better_high=True, is_share=True),
    "agreement": Figure("minimal-pair accuracy", is_better_high=True, is_share=True),
    "train_loss": Figure("training loss"),
    "gap": Figure("held-out minus training loss"),
    "grad_norm": Figure("gradient norm"),
    "grad_variation": Figure("gradient norm, relative deviation"),
}
_NAME = r"[a-z0-9][a-z0-9-]*"  # a dot would end it in an override


_OPTION_NAMES = {
    "task_data": "task-data", "models": "model", "budget_seconds": "budget",
    "num_workers": "workers",
}  # fmt: skip


@dataclass(frozen=True)
class StudyOptions:
    """The options of `albert study`; each study uses what it needs and rejects the rest."""

    out: Path
    overrides: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    data: str | None = None
    task_data: str | None = None
    models: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    budget_seconds: float | None = None
    seed: int | None = None
    engine: str = "local"
    num_workers: int | None = None
    address: str | None = None

    def reject_unused(self, study: str, *, used: Iterable[str]) -> None:
        for each in fields(self)[3:]:
            name = _OPTION_NAMES.get(each.name, each.name)
            if getattr(self, each.name) != each.default and name not in used:
                raise InputError(f"study {study}: does not use --{name}; leave it out")


@dataclass(frozen=True)
class StudyOutcome:
    """The report of what is done, failures with their reasons, and the `signal` that stopped it, if any."""

    study: str
    report: Path
    page: Page
    failures: Mapping[str, str] = field(default_factory=dict)
    signal: str | None = None


class VariantSettings(Settings):
    """One model of a study, as differences: `pretrain` from the study's recipe, `finetune` from the tasks'.

    `start_from` is the variant whose model this one is initialized from (table 11). `times_as_wide`
    multiplies the recipe's widths and heads; `embedding_share` is E / H; `as_large_as` finds the width that
    has as many parameters as another variant. In a `label`, {hidden_size}, {embedding_size} and
    {num_hidden_layers} stand for the model's. In a chart, a line joins the variants of a `family` over `x`.
    """

    label: str = ""
    pretrain: dict[str, Any] = Field(default_factory=dict)
    finetune: dict[str, Any] = Field(default_factory=dict)
    start_from: str | None = None
    times_as_wide: Annotated[float, Field(gt=0.0)] | None = None
    embedding_share: Annotated[float, Field(gt=0.0)] | None = None
    as_large_as: str | None = None
    x: float | None = None
    family: str = ""
    paper: dict[str, float] = Field(default_factory=dict)
    paper_millions: float | None = None
    note: str = ""


class ClaimSettings(Settings):
    """A claim that one variant is better than another, in the paper by `paper` points of `by`'s first figure.

    `than` may be a number instead, such as chance. The first figure of `by` that was measured decides.
    `is_equal` claims that there is no difference of more than `margin` points.
    """

    text: str
    better: str
    than: str | float
    by: tuple[str, ...] = ("average", "mlm_accuracy")
    paper: float | None = None
    is_equal: bool = False
    margin: Annotated[float, Field(gt=0.0)] = 1.0

    @property
    def variants(self) -> tuple[str, ...]:
        return (self.better, self.than) if isinstance(self.than, str) else (self.better,)


class PaperTable(Settings):
    """Figures of the paper for models that are not trained here."""

    name: Annotated[str, Field(pattern=rf"^{_NAME}$")]
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float, ...], ...]
    note: str = ""


class StudySettings(Settings):
    """`variants` that differ from one recipe, the seeds of each, and what is measured.

    With `equal` steps every variant takes as many; with time, as many as fit into an equal share of the
    budget. `x_from` is a dimension that gives a variant its `x`. `num_examples` held-out pairs are scored for
    each objective. `has_footprint` measures a training step of each variant in a fresh process, `has_probes`
    trains linear probes of sentence vectors, `has_agreement` scores minimal pairs.
    """

    former_names: ClassVar[Mapping[str, str]] = {"arms": "variants"}

    title: str
    paper: str
    question: str
    recipe: str = "nano"
    pretrain: dict[str, Any] = Field(default_factory=dict)
    finetune: dict[str, Any] = Field(default_factory=dict)
    variants: dict[str, VariantSettings]
    base: str
    claims: tuple[ClaimSettings, ...] = ()
    paper_tables: tuple[PaperTable, ...] = ()
    x_label: str = ""
    x_from: Dimension | None = None
    num_seeds: Annotated[int, Field(ge=1, le=100)] = 3
    first_seed: Annotated[int, Field(ge=0)] = 0
    tasks: tuple[str, ...] = ()
    equal: Literal["steps", "time"] = "steps"
    num_examples: Annotated[int, Field(ge=8)] = 1024
    has_footprint: bool = True
    has_probes: bool = False
    has_agreement: bool = False
    notes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> "StudySettings":
        sections = {"pretrain": self.pretrain, "finetune": self.finetune}
        known = (*FIGURES, *list_tasks())
        named = [("base", self.base)]
        named += [(f"claim {claim.text!r}", name) for claim in self.claims for name in claim.variants]
        for name, variant in self.variants.items():
            if not re.fullmatch(_NAME, name):
                raise ValueError(f"variant {name!r}: use lowercase letters, digits and dashes in its name")
            if (
                variant.as_large_as in self.variants
                and self.variants[variant.as_large_as].as_large_as is not None
            ):
                raise ValueError(
                    f"variant {name}: as_large_as {variant.as_large_as!r} has no width of its own"
                )
            sections |= {
                f"variants.{name}.pretrain": variant.pretrain,
                f"variants.{name}.finetune": variant.finetune,
            }
            others = {"start_from": variant.start_from, "as_large_as": variant.as_large_as}
            named += [(f"variants.{name}.{key}", other) for key, other in others.items() if other is not None]
        for where, name in named:
            if name not in self.variants:
                raise ValueError(f"{where} names {name!r}; the variants are {', '.join(self.variants)}")
        for where, section in sections.items():
            if "seed" in section:
                seed = section["seed"]
                raise ValueError(
                    f"{where}.seed is {seed}; variants have the same seeds: num_seeds, first_seed"
                )
        for claim in self.claims:
            for figure in claim.by:
                if figure not in known:
                    raise ValueError(f"claim {claim.text!r}: no figure {figure!r}; {suggest(figure, known)}")
        self.list_waves()
        return self

    @property
    def seeds(self) -> range:
        return range(self.first_seed, self.first_seed + self.num_seeds)

    def list_waves(self) -> list[list[str]]:
        """Group the variants so that each starts from a variant of an earlier group, if from any."""
        waves: list[list[str]] = []
        left = dict(self.variants)
        while left:
            wave = [name for name, variant in left.items() if variant.start_from not in left]
            if not wave:
                raise ValueError(f"variants {', '.join(left)} start from one another; remove one start_from")
            waves.append(wave)
            left = {name: variant for name, variant in left.items() if name not in wave}
        return waves


def get_figure(name: str) -> Figure:
    """Return a figure; others than `FIGURES` are tasks."""
    return FIGURES.get(name) or Figure(name, is_better_high=True)


def list_ablations() -> list[str]:
    """List the built-in studies that compare variants."""
    return [name for name in SHELF.list_names() if "variants" in SHELF.read_values(name)[0]]


def read_study(
    study: str | Path, *, overrides: Iterable[str] = (), variants: Iterable[str] = ()
) -> StudySettings:
    """Read a study; `variants` keeps these, the base, the variants they need, and the claims about them."""
    values, source = SHELF.read_values(study)
    settings = build_settings(StudySettings, values=apply_overrides(values, overrides), source=source)
    waiting = list(variants)
    if not waiting:
        return settings
    for name in waiting:
        if name not in settings.variants:
            raise InputError(f"{source}: has no variant {name!r}; there are {', '.join(settings.variants)}")
    kept: set[str] = set()
    waiting.append(settings.base)
    while waiting:
        name = waiting.pop()
        kept.add(name)
        needed = (settings.variants[name].start_from, settings.variants[name].as_large_as)
        waiting += [other for other in needed if other is not None and other not in kept]
    claims = tuple(claim for claim in settings.claims if kept.issuperset(claim.variants))
    remaining = {name: variant for name, variant in settings.variants.items() if name in kept}
    return settings.model_copy(update={"variants": remaining, "claims": claims})


def list_overrides(*sections: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Write sections of differences as `a.b=c`; where two have the same key, the later one applies."""
    overrides: list[str] = []
    for key, value in (item for section in sections for item in section.items()):
        if isinstance(value, dict) and value:
            overrides += list_overrides(value, prefix=f"{prefix}{key}.")
        else:
            overrides.append(f"{prefix}{key}={json.dumps(value)}")
    return overrides
