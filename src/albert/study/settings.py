"""Settings of studies: variants, seeds and claims, read from a YAML recipe and `key=value` overrides.

A new study is a file in `recipes/study`, or a user's own file.
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

RECIPES = RecipeFolder("study")
Dimension = Literal["hidden_size", "embedding_size", "num_hidden_layers"]


@dataclass(frozen=True)
class Figure:
    """A measured figure of a variant; accuracies (`is_share`) are shown in points of 100."""

    title: str
    is_better_high: bool = False
    is_share: bool = False


FIGURES = {
    "average": Figure("average task score", is_better_high=True),
    "mlm_accuracy": Figure("MLM accuracy", is_better_high=True, is_share=True),
    "mlm_loss": Figure("MLM loss"),
    "sop_accuracy": Figure("SOP accuracy", is_better_high=True, is_share=True),
    "nsp_accuracy": Figure("NSP accuracy", is_better_high=True, is_share=True),
    "probe_sop": Figure("SOP accuracy of a probe", is_better_high=True, is_share=True),
    "probe_nsp": Figure("NSP accuracy of a probe", is_better_high=True, is_share=True),
    "agreement": Figure("accuracy on minimal pairs", is_better_high=True, is_share=True),
    "train_loss": Figure("MLM loss on training text"),
    "gap": Figure("held-out minus training loss"),
    "grad_norm": Figure("gradient norm"),
    "grad_variation": Figure("gradient norm, deviation over mean"),
}
_NAME = r"[a-z0-9][a-z0-9-]*"  # without dots, which separate the keys of an override
_OPTION_NAMES = {
    "task_data": "task-data", "models": "model", "budget_seconds": "budget",
    "num_workers": "workers",
}  # fmt: skip


@dataclass(frozen=True)
class StudyOptions:
    """The options of `albert study`; each study uses some and rejects the others."""

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
        """Raise an InputError if an option is set that is not in `used`."""
        for each in fields(self)[3:]:
            name = _OPTION_NAMES.get(each.name, each.name)
            if getattr(self, each.name) != each.default and name not in used:
                raise InputError(f"study {study}: does not use --{name}; remove it")


@dataclass(frozen=True)
class StudyOutcome:
    """The report of a study, its failures with their reasons, and the `signal` that stopped it, if any."""

    study: str
    report: Path
    page: Page
    failures: Mapping[str, str] = field(default_factory=dict)
    signal: str | None = None


class VariantSettings(Settings):
    """Settings of a variant: one model of a study.

    Args:
        label: The name in the report; {hidden_size}, {embedding_size} and {num_hidden_layers} are replaced.
        pretrain: Differences from the recipe of pretraining.
        finetune: Differences from the recipes of the tasks.
        start_from: The variant whose model this one is initialized from (table 11).
        times_as_wide: Multiplies hidden size, intermediate size and number of heads.
        embedding_share: The embedding size as a share of the hidden size.
        as_large_as: Sets the hidden size so that the variant has as many parameters as another one.
        x: The x coordinate in a chart that has a line for each `family` of variants.
        paper: Figures of the paper.
        note: A remark for the report.
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
    """Settings of a claim that one variant is better than another.

    Args:
        than: The other variant, or a number, such as chance.
        by: The figures that decide; the first that was measured is used.
        paper: The difference in the paper, in points of the first figure.
        is_equal: Claim instead that the difference is at most `margin` points.
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
    """A table of figures from the paper, for models that are not trained in the study."""

    name: Annotated[str, Field(pattern=rf"^{_NAME}$")]
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float, ...], ...]
    note: str = ""


class StudySettings(Settings):
    """Settings of an ablation study.

    Args:
        pretrain: Differences of all variants from the recipe.
        base: The variant that the others are compared with.
        x_from: The dimension of a model that is the default `x` of a variant.
        tasks: The tasks to fine-tune on.
        equal: Whether all variants train for equally many steps, or for an equal share of the budget.
        num_examples: The number of held-out examples for each objective.
        has_footprint: Measure time and memory of a training step of each variant in a new process.
        has_probes: Train linear probes of sentence vectors.
        has_agreement: Score minimal pairs.
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
                raise ValueError(
                    f"variant {name!r}: use only lowercase letters, digits and dashes in its name"
                )
            if (
                variant.as_large_as in self.variants
                and self.variants[variant.as_large_as].as_large_as is not None
            ):
                raise ValueError(
                    f"variant {name}: as_large_as {variant.as_large_as!r} sets it, too; name another variant"
                )
            sections |= {
                f"variants.{name}.pretrain": variant.pretrain,
                f"variants.{name}.finetune": variant.finetune,
            }
            others = {"start_from": variant.start_from, "as_large_as": variant.as_large_as}
            named += [(f"variants.{name}.{key}", other) for key, other in others.items() if other is not None]
        for where, name in named:
            if name not in self.variants:
                raise ValueError(
                    f"{where} has the unknown variant {name!r}; variants: {', '.join(self.variants)}"
                )
        for where, section in sections.items():
            if "seed" in section:
                seed = section["seed"]
                raise ValueError(
                    f"{where}.seed is {seed}; set num_seeds and first_seed, which apply to all variants"
                )
        for claim in self.claims:
            for figure in claim.by:
                if figure not in known:
                    hint = suggest(figure, known, lead="figures:")
                    raise ValueError(f"claim {claim.text!r}: unknown figure {figure!r}; {hint}")
        self.list_waves()
        return self

    @property
    def seeds(self) -> range:
        return range(self.first_seed, self.first_seed + self.num_seeds)

    def list_waves(self) -> list[list[str]]:
        """Group the variants so that each one that starts from another is in a later group."""
        waves: list[list[str]] = []
        left = dict(self.variants)
        while left:
            wave = [name for name, variant in left.items() if variant.start_from not in left]
            if not wave:
                raise ValueError(f"variants {', '.join(left)}: start_from has a cycle; remove one of them")
            waves.append(wave)
            left = {name: variant for name, variant in left.items() if name not in wave}
        return waves


def get_figure(name: str) -> Figure:
    """Return a figure of `FIGURES`, or the score of a task."""
    return FIGURES.get(name) or Figure(name, is_better_high=True)


def list_ablations() -> list[str]:
    """List the built-in studies that compare variants."""
    return [name for name in RECIPES.list_names() if "variants" in RECIPES.read_values(name)[0]]


def read_study(
    study: str | Path, *, overrides: Iterable[str] = (), variants: Iterable[str] = ()
) -> StudySettings:
    """Read a study, with only some `variants`, those they need, the base, and the claims about them."""
    values, source = RECIPES.read_values(study)
    settings = build_settings(StudySettings, values=apply_overrides(values, overrides), source=source)
    waiting = list(variants)
    if not waiting:
        return settings
    for name in waiting:
        if name not in settings.variants:
            raise InputError(f"{source}: unknown variant {name!r}; variants: {', '.join(settings.variants)}")
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
    """Flatten sections to overrides `a.b=c`; of equal keys, the last one applies."""
    overrides: list[str] = []
    for key, value in (item for section in sections for item in section.items()):
        if isinstance(value, dict) and value:
            overrides += list_overrides(value, prefix=f"{prefix}{key}.")
        else:
            overrides.append(f"{prefix}{key}={json.dumps(value)}")
    return overrides
