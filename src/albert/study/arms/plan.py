"""A study's recipe: a name or a file and `key=value` overrides come in; its arms, seeds and claims go out."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from albert.errors import InputError, suggest
from albert.settings import Settings, apply_overrides, build_settings
from albert.study.arms.figures import FIGURES
from albert.tasks.catalogue import TASKS
from albert.tasks.own_tasks import OWN_TASKS
from albert.training.recipes import RecipeShelf

SHELF = RecipeShelf("study")
Dimension = Literal["hidden_size", "embedding_size", "num_hidden_layers"]
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")  # a dot would end it in an override


class ArmSettings(Settings):
    """One model of a study, as differences: `pretrain` from the study's recipe, `finetune` from the tasks'.

    `start_from` is the arm whose model this one goes on from (table 11). Widths may be told in proportion, so
    that a study means the same at any scale: `times_as_wide` as the recipe, with as many times the heads and
    units between; `embedding_share`, E as a share of H; or `as_large_as` another arm, as wide as it takes to
    have the same number of parameters, whatever the vocabulary. In a `label`, {hidden_size}, {embedding_size}
    and {num_hidden_layers} stand for what the model has. `x` and `family` place it in a chart: arms of one
    family are joined by a line. `paper` has the paper's figures for it, and `paper_millions` of parameters;
    `note` is what a reader of the report should know about it.
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
    """The paper's claim that one arm is better than another, by how many points of `by`'s first figure there.

    `than` may be a number instead, such as chance. It is judged by the first figure of `by` that was
    measured. `is_equal` claims that there is no difference of more than `margin` points.
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
        """The arms that it is about."""
        return (self.better, self.than) if isinstance(self.than, str) else (self.better,)


class PaperTable(Settings):
    """Figures of the paper that stand by themselves: of models that nobody trains here."""

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
    """Arms that differ from one recipe, how often each is trained, and what each is asked.

    With `equal` steps every arm takes as many; with time, as many as fit into an equal share of the budget.
    `x_from` places arms in a chart by what their models have, where they have no `x` of their own.
    `num_examples` held-out pairs are asked of each kind. `has_footprint` measures a training step of each arm
    in a fresh process; `has_probes` asks what the sentence vectors know of order and topic, by a linear
    classifier; `has_agreement` asks minimal pairs.
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
        for claim in self.claims:
            for figure in claim.by:
                if figure not in known:
                    raise ValueError(
                        f"claim {claim.text!r} is judged by {figure!r}; {suggest(figure, known)}"
                    )
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
        """Those that every arm is trained with."""
        return range(self.first_seed, self.first_seed + self.num_seeds)

    def list_waves(self) -> list[list[str]]:
        """The arms in groups: each starts from no arm of its own group or a later one."""
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
    """The studies of the package that compare arms."""
    return [name for name in SHELF.list_names() if "arms" in SHELF.read_values(name)[0]]


def read_study(
    study: str | Path, *, overrides: Iterable[str] = (), arms: Iterable[str] = ()
) -> StudySettings:
    """The settings of a study; `arms` keeps some of them. Refused: an arm that there is not."""
    values, source = SHELF.read_values(study)
    values = apply_overrides(values, overrides)
    settings = build_settings(StudySettings, values=values, source=source)
    wanted = list(arms)
    return _keep_arms(settings, wanted, source=source) if wanted else settings


def _keep_arms(settings: StudySettings, wanted: list[str], *, source: str) -> StudySettings:
    """The recipe with some arms, the base, those that any of them needs, and the claims about them alone."""
    known = settings.arms
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
    arms = {name: arm for name, arm in known.items() if name in kept}
    return settings.model_copy(update={"arms": arms, "claims": claims})


def list_overrides(*sections: Mapping[str, Any]) -> list[str]:
    """Sections of differences as `a.b=c`; of two that name the same key, the later stands."""
    return [word for section in sections for word in _flatten(section, "")]


def _flatten(section: Mapping[str, Any], prefix: str) -> list[str]:
    words: list[str] = []
    for key, value in section.items():
        if isinstance(value, dict) and value:
            words += _flatten(value, f"{prefix}{key}.")
        else:
            words.append(f"{prefix}{key}={json.dumps(value)}")
    return words
