"""Read the recipe of a study: its arms, seeds and claims, from a name or a file and `key=value` overrides."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from albert.errors import InputError, suggest
from albert.settings import Settings, apply_overrides, build_settings
from albert.tasks.catalogue import OWN_TASKS, TASKS
from albert.training.settings import RecipeFolder

SHELF = RecipeFolder("study")
Dimension = Literal["hidden_size", "embedding_size", "num_hidden_layers"]
# What is measured of an arm: the title of each figure, and whether more of it is better.
FIGURES: dict[str, tuple[str, bool]] = {
    "average": ("average of the tasks", True),
    "mlm_accuracy": ("masked words right", True),
    "mlm_loss": ("loss of masked words", False),
    "sop_accuracy": ("sentence order right", True),
    "nsp_accuracy": ("next sentence right", True),
    "probe_sop": ("sentence order by a probe", True),
    "probe_nsp": ("next sentence by a probe", True),
    "agreement": ("minimal pairs right", True),
    "train_loss": ("loss on training text", False),
    "gap": ("held-out loss above training loss", False),
    "grad_norm": ("gradient norm", False),
    "grad_variation": ("gradient norm, deviation over mean", False),
}
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")  # a dot would end it in an override


class ArmSettings(Settings):
    """One model of a study, as differences: `pretrain` from the study's recipe, `finetune` from the tasks'.

    `start_from` is the arm whose model this one is initialized from (table 11). Widths may be given in
    proportion, so that a study means the same at any scale: `times_as_wide` multiplies the recipe's widths
    and heads; `embedding_share` is E / H; `as_large_as` finds the width that has as many parameters as
    another arm. In a `label`, {hidden_size}, {embedding_size} and {num_hidden_layers} stand for the model's.
    `x` and `family` place it in a chart: arms of one family are joined by a line. `paper` has the paper's
    figures for it and `paper_millions` its parameters; `note` is shown in the report.
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

    @model_validator(mode="after")
    def _check_width(self) -> "ArmSettings":
        told = [name for name in ("times_as_wide", "embedding_share") if getattr(self, name) is not None]
        if self.as_large_as is not None and told:
            raise ValueError(f"as_large_as finds the width of an arm, and {told[0]} gives it; leave one out")
        return self


class ClaimSettings(Settings):
    """A claim that one arm is better than another, in the paper by `paper` points of `by`'s first figure.

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
    def arms(self) -> tuple[str, ...]:
        """The arms that are compared."""
        return (self.better, self.than) if isinstance(self.than, str) else (self.better,)


class PaperTable(Settings):
    """Figures of the paper for models that are not trained here."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float, ...], ...]
    note: str = ""

    @model_validator(mode="after")
    def _check_rows(self) -> "PaperTable":
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(
                    f"table {self.name} has {len(self.columns)} columns; {row[0]} has {len(row)}"
                )
        return self


class StudySettings(Settings):
    """Arms that differ from one recipe, the seeds of each, and what is measured.

    With `equal` steps every arm takes as many; with time, as many as fit into an equal share of the budget.
    `x_from` places arms without an `x` in a chart, by a dimension of their models. `num_examples` held-out
    pairs are scored for each objective. `has_footprint` measures a training step of each arm in a fresh
    process, `has_probes` trains linear probes of sentence vectors, `has_agreement` scores minimal pairs.
    """

    title: str
    paper: str
    question: str
    recipe: str = "nano"
    pretrain: dict[str, Any] = Field(default_factory=dict)
    finetune: dict[str, Any] = Field(default_factory=dict)
    arms: dict[str, ArmSettings]
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
    def _check_arms(self) -> "StudySettings":
        for name, arm in self.arms.items():
            if not _NAME.fullmatch(name):
                raise ValueError(f"an arm is called {name!r}; small letters, digits and dashes make a name")
            if arm.start_from is not None and arm.start_from not in self.arms:
                raise ValueError(f"arm {name} starts from {arm.start_from!r}, which is no arm")
            other = arm.as_large_as
            if other is not None and (other not in self.arms or self.arms[other].as_large_as is not None):
                raise ValueError(
                    f"arm {name} is as large as {other!r}, which is no arm with a width of its own"
                )
        named = [("base", self.base), *((f"claim {c.text!r}", arm) for c in self.claims for arm in c.arms)]
        for where, name in named:
            if name not in self.arms:
                raise ValueError(f"{where} names {name!r}; the arms are {', '.join(self.arms)}")
        known = (*FIGURES, *TASKS, *OWN_TASKS)
        for text, figure in ((claim.text, figure) for claim in self.claims for figure in claim.by):
            if figure not in known:
                raise ValueError(f"claim {text!r} is judged by {figure!r}; {suggest(figure, known)}")
        self.list_waves()
        return self

    @model_validator(mode="after")
    def _check_tables(self) -> "StudySettings":
        names = ["arms", "stability", *(table.name for table in self.paper_tables)]  # each is a file
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(
                f"two tables of the report would be called {twice}; name that of paper_tables otherwise"
            )
        return self

    @model_validator(mode="after")
    def _check_seeds(self) -> "StudySettings":
        sections = {"pretrain": self.pretrain, "finetune": self.finetune}
        for name, arm in self.arms.items():
            sections |= {f"arms.{name}.pretrain": arm.pretrain, f"arms.{name}.finetune": arm.finetune}
        for where, section in sections.items():
            if "seed" in section:
                raise ValueError(
                    f"{where}.seed is {section['seed']}, but all arms have the same seeds: num_seeds of "
                    "them, from first_seed on"
                )
        return self

    @property
    def seeds(self) -> range:
        """The seeds that every arm is trained with."""
        return range(self.first_seed, self.first_seed + self.num_seeds)

    def list_waves(self) -> list[list[str]]:
        """Group the arms so that each starts from an arm of an earlier group, if from any."""
        waves: list[list[str]] = []
        done: set[str] = set()
        while len(done) < len(self.arms):
            wave = [
                name
                for name, arm in self.arms.items()
                if name not in done and (arm.start_from is None or arm.start_from in done)
            ]
            if not wave:
                left = ", ".join(name for name in self.arms if name not in done)
                raise ValueError(f"the arms {left} start from one another; one of them must start by itself")
            waves.append(wave)
            done.update(wave)
        return waves


def list_ablations() -> list[str]:
    """List the studies of the package that compare arms."""
    return [name for name in SHELF.list_names() if "arms" in SHELF.read_values(name)[0]]


def read_study(
    study: str | Path, *, overrides: Iterable[str] = (), arms: Iterable[str] = ()
) -> StudySettings:
    """Read a study; `arms` keeps these, the base, the arms that they need, and the claims about them."""
    values, source = SHELF.read_values(study)
    settings = build_settings(StudySettings, values=apply_overrides(values, overrides), source=source)
    known, wanted = settings.arms, list(arms)
    if not wanted:
        return settings
    for name in wanted:
        if name not in known:
            raise InputError(f"{source}: has no arm {name!r}; there are {', '.join(known)}")
    kept: set[str] = set()
    waiting = [*wanted, settings.base]
    while waiting:
        name = waiting.pop()
        kept.add(name)
        needed = (known[name].start_from, known[name].as_large_as)
        waiting += [other for other in needed if other is not None and other not in kept]
    claims = tuple(claim for claim in settings.claims if kept.issuperset(claim.arms))
    remaining = {name: arm for name, arm in known.items() if name in kept}
    return settings.model_copy(update={"arms": remaining, "claims": claims})


def list_overrides(*sections: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Write sections of differences as `a.b=c`; where two have the same key, the later one applies."""
    words: list[str] = []
    for key, value in (item for section in sections for item in section.items()):
        if isinstance(value, dict) and value:
            words += list_overrides(value, prefix=f"{prefix}{key}.")
        else:
            words.append(f"{prefix}{key}={json.dumps(value)}")
    return words
