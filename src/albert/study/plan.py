"""The plan of a study (study.json): the complete settings of its variants, its runs, and its time budget.

A plan is complete before anything is trained, so that invalid settings are rejected at once. A run is a pure
function of the plan, so that any engine can run it. When a study is resumed, everything that its results
depend on must be unchanged.
"""

import hashlib
import heapq
import re
import shlex
import tempfile
import time
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, get_args

import torch
from pydantic import Field

from albert.data.corpus import open_corpus
from albert.data.engines import Engine
from albert.errors import AlbertError, InputError
from albert.examples.settings import ExampleSettings
from albert.files import read_json, write_json
from albert.model.config import ModelConfig, count_parameters
from albert.pretrained.folder import save_model
from albert.progress import NullReporter, Reporter, format_seconds
from albert.settings import Settings, build_settings, find_change
from albert.study.agreement import format_pairs, read_pairs
from albert.study.settings import RECIPES, Dimension, StudySettings, VariantSettings, list_overrides
from albert.tasks.data import open_task_data
from albert.tasks.finetune import estimate_cost
from albert.tasks.finetune_settings import choose_recipe, read_finetune_recipe
from albert.training.pretrain import PretrainJob, build_pretrain_model, open_data, resolve_model
from albert.training.run_folder import MODEL_DIR, identify_corpus, list_versions
from albert.training.settings import PretrainSettings, read_recipe
from albert.training.timing import time_recipe

PLAN_NAME = "study.json"
# Next-sentence scores need two documents; all variants must hold out the same text.
_MIN_HELD_OUT = "held_out.min_documents=2"
_NO_TENSORBOARD = "has_tensorboard=false"  # metrics.jsonl has the same records
_HEAD_SIZE, _WIDTH_STEP, _MAX_WIDTH = 64, 16, 65536
_SIZE_TOLERANCE = 0.1  # relative difference of parameters allowed by as_large_as
_PLACEHOLDER = re.compile(rf"\{{({'|'.join(get_args(Dimension))})\}}")  # in a label
_TIMED_SHARE = 0.03  # of the budget is spent on timing all variants
_MIN_STEPS = 10
_NUM_HALVINGS = 60  # of the binary search, up to the precision of floats
_FIXED_SECONDS = 3.0  # of a run, for reading the corpus and writing the model
_NUM_EVALUATIONS = 4  # MLM on held-out and training text, SOP, NSP
_NUM_PROBED = 10  # for two probes: held-out examples, and four times as many to train on
_PROBE_SECONDS = 20.0  # of training both
_AGREEMENT_SECONDS = 15.0  # for the sample of 304 minimal pairs
_FOOTPRINT_SECONDS, _FOOTPRINT_STEPS = 8.0, 6  # start of a process, and its steps
_FORWARD_SHARE = 1 / 3  # of a training step


@dataclass(frozen=True)
class Run:
    """A run of a study: a variant with a seed."""

    study_dir: Path
    variant: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.variant}, seed {self.seed}"

    @property
    def folder(self) -> Path:
        root = "arms" if (self.study_dir / "arms").exists() else "variants"  # arms: earlier versions
        return self.study_dir / root / self.variant / f"seed-{self.seed}"

    @property
    def pretrain_dir(self) -> Path:
        return self.folder / "pretrain"

    @property
    def model_dir(self) -> Path:
        return self.pretrain_dir / MODEL_DIR


class StudyPlan(Settings):
    """The plan of a study; it never changes, except that variants and seeds may be added.

    Args:
        bound: The complete settings of all variants that were ever part of it.
        evaluation_data: Hashes of the data that they are evaluated on.
        num_steps: The steps of each variant that were frozen by a budget.
    """

    former_names: ClassVar[Mapping[str, str]] = {"asked": "evaluation_data"}

    name: str
    settings: StudySettings
    data: str
    corpus: str
    task_data: str | None = None
    bound: dict[str, Any] = Field(default_factory=dict)
    examples: ExampleSettings = ExampleSettings()
    task_recipes: dict[str, str] = Field(default_factory=dict)
    evaluation_data: dict[str, str] = Field(default_factory=dict)
    num_steps: dict[str, int] = Field(default_factory=dict)
    budget_seconds: float | None = None
    command: str = ""
    started: str = ""
    versions: dict[str, str] = Field(default_factory=dict)

    @classmethod
    def read(cls, study_dir: Path) -> "StudyPlan":
        path = study_dir / PLAN_NAME
        return build_settings(cls, values=read_json(path), source=str(path))

    def write(self, study_dir: Path) -> None:
        write_json(study_dir / PLAN_NAME, self.model_dump(mode="json"))

    def resolve(self, run: Run) -> tuple[PretrainSettings, ModelConfig]:
        """Build the complete pretraining settings of a run, and the shape of its model."""
        return self._resolve(self.list_pretrain_overrides(run))

    def list_pretrain_overrides(self, run: Run) -> list[str]:
        """List the overrides of a run to the study's recipe of pretraining."""
        variant = self.settings.variants[run.variant]
        overrides = [_MIN_HELD_OUT, *list_overrides(self.settings.pretrain, variant.pretrain)]
        overrides += [f"seed={run.seed}", _NO_TENSORBOARD]
        if variant.times_as_wide is not None or variant.embedding_share is not None:
            overrides += list_overrides({"model": _scale_widths(self._resolve(overrides)[1], variant)})
        if variant.as_large_as is not None:
            other = self.resolve(replace(run, variant=variant.as_large_as))[1]
            size = count_parameters(other).backbone
            sizes = _match_size(self._resolve(overrides)[1], size, other=variant.as_large_as)
            overrides += list_overrides({"model": sizes})
        if run.variant in self.num_steps:  # frozen by a budget; warm-up keeps its share of the steps
            recipe = read_recipe(self.settings.recipe, overrides=overrides)
            overrides.append(f"num_steps={self.num_steps[run.variant]}")
            if recipe.schedule.warmup_steps is not None:
                share = recipe.schedule.warmup_steps / recipe.num_steps
                overrides += ["schedule.warmup_steps=null", f"schedule.warmup_share={share}"]
        if variant.start_from is not None:
            overrides.append(f"init_from={replace(run, variant=variant.start_from).model_dir}")
        return overrides

    def list_task_overrides(self, run: Run) -> list[str]:
        """List the overrides of a run to the recipes of the tasks."""
        sections = (self.settings.finetune, self.settings.variants[run.variant].finetune)
        return [*list_overrides(*sections), f"seed={run.seed}", _NO_TENSORBOARD]

    def _resolve(self, overrides: list[str]) -> tuple[PretrainSettings, ModelConfig]:
        settings = read_recipe(self.settings.recipe, overrides=overrides)
        # The variant that it starts from may not be trained yet; the shape does not depend on it.
        settings = settings.model_copy(update={"init_from": None})
        settings = resolve_model(settings, open_data(self.data, settings.held_out).tokenizer)
        assert settings.model is not None, "resolve_model sets it"
        return settings, settings.model


def build_plan(
    name: str, settings: StudySettings, *, data: str, task_data: str | None, command: Sequence[str]
) -> StudyPlan:
    """Build a plan with absolute paths and the complete settings of all variants.

    All variants are evaluated on the same examples and fine-tuned by the same recipe, those of the base.
    """
    if settings.tasks and task_data is None:
        raise InputError(
            f"study {name}: fine-tunes on {', '.join(settings.tasks)}; give the folder that contains glue/, "
            "squad/ and race/ with --task-data, or set tasks=[]"
        )
    plan = StudyPlan(
        name=name if name in RECIPES.list_names() else str(Path(name).resolve()),
        settings=settings,
        data=str(Path(data).resolve()) if Path(data).exists() else data,
        corpus=identify_corpus(open_corpus(data)),
        task_data=None if task_data is None else str(Path(task_data).resolve()),
        command=shlex.join(command),
        started=time.strftime("%Y-%m-%d %H:%M:%S %z"),
        versions=list_versions(),
    )
    variants, bound, resolved = {}, {}, {}
    for variant_name, variant in settings.variants.items():
        try:
            pretrain, config = resolved[variant_name] = plan.resolve(Run(Path(), variant_name, 0))
        except AlbertError as error:
            raise InputError(
                f"variant {variant_name}: {error}; or select other variants with --variants"
            ) from error
        label = _PLACEHOLDER.sub(lambda found: str(getattr(config, found[1])), variant.label)  # noqa: B023
        has_own_x = variant.x is not None or settings.x_from is None
        x = variant.x if has_own_x else getattr(config, str(settings.x_from))
        variants[variant_name] = variant.model_copy(update={"label": label, "x": x})
        overrides = list_overrides(settings.pretrain, variant.pretrain)
        init_from = read_recipe(settings.recipe, overrides=overrides).init_from
        bound[variant_name] = {
            "pretrain": {**pretrain.model_dump(mode="json"), "init_from": init_from},
            "finetune": variant.finetune,
            "start_from": variant.start_from,
        }
    base, config = resolved[settings.base]
    width = config.hidden_size
    complete = {
        "settings": settings.model_copy(update={"variants": variants}),
        "bound": bound,
        "examples": base.examples.model_copy(update={"objective": "none", "unit": "segments"}),
        "task_recipes": {task: choose_recipe(task, hidden_size=width) for task in settings.tasks},
    }
    plan = plan.model_copy(update=complete)
    return plan.model_copy(update={"evaluation_data": hash_evaluation_data(plan)})


def hash_evaluation_data(plan: StudyPlan) -> dict[str, str]:
    """Hash the data that the variants are evaluated on: tasks, held-out text, minimal pairs."""
    hashes: dict[str, str] = {}
    for task, recipe in plan.task_recipes.items():
        assert plan.task_data is not None, "a study with tasks has their data"
        runs = [Run(Path(), variant, 0) for variant in plan.settings.variants]
        recipes = [read_finetune_recipe(recipe, overrides=plan.list_task_overrides(run)) for run in runs]
        columns, share = recipes[0].columns, recipes[0].dev_share
        data = open_task_data(task, plan.task_data, dev=None, columns=columns, dev_share=share)
        hashes[task] = data.fingerprint
    held_out = plan.resolve(Run(Path(), plan.settings.base, 0))[0].held_out
    if held_out.data is not None:
        hashes["held_out"] = identify_corpus(open_corpus(held_out.data))
    if plan.settings.has_agreement:
        pairs, tokenizer = read_pairs(), open_data(plan.data, held_out).tokenizer
        encodings = tokenizer.encode_batch([pair.sentence_good for pair in pairs])
        if all(tokenizer.unk_id in encoding.ids for encoding in encodings):
            raise InputError(
                f"study {plan.name}: the vocabulary of {plan.data} cannot encode the English minimal pairs; "
                "add has_agreement=false"
            )
        hashes["agreement"] = hashlib.sha256(format_pairs(pairs).encode()).hexdigest()
    return hashes


def has_plan(study_dir: Path) -> bool:
    """Return whether a study was started in the folder."""
    return (study_dir / PLAN_NAME).exists()


def resume_plan(study_dir: Path, new: StudyPlan) -> StudyPlan:
    """Update the plan of a folder with the seeds, variants and texts (titles, claims) of a new plan."""
    known = StudyPlan.read(study_dir)
    # Earlier versions wrote no hashes, and had other minimal pairs.
    data = {key: value for key, value in new.evaluation_data.items() if key != "agreement"}
    known = known.model_copy(update={"evaluation_data": {**data, **known.evaluation_data}})
    common = [name for name in known.bound if name in new.bound]
    change = find_change(_list_dependencies(known, common), _list_dependencies(new, common))
    if change is not None:
        raise InputError(
            f"{study_dir}: {change}; undo the change to resume the study, or choose another --out"
        )
    num_steps = dict(known.num_steps)
    added = [name for name in new.settings.variants if name not in num_steps]
    if num_steps and added:
        if known.settings.equal == "time":
            raise InputError(
                f"{study_dir}: cannot add variant {added[0]}, because steps of equal time were measured when "
                "the study started; remove it, or choose another --out"
            )
        num_steps |= dict.fromkeys(added, next(iter(num_steps.values())))
    # The corpus and the tasks are the same, but their paths may have changed.
    changes = {key: getattr(new, key) for key in ("settings", "data", "task_data", "command")}
    changes |= {"bound": {**known.bound, **new.bound}, "num_steps": num_steps}
    updated = known.model_copy(update=changes)
    updated.write(study_dir)
    return updated


def _list_dependencies(plan: StudyPlan, variants: Collection[str]) -> dict[str, Any]:
    """List everything that the results of these variants depend on."""
    bound = {}
    for name in variants:
        # Parsed, because an earlier version may have written it.
        settings = build_settings(PretrainSettings, values=plan.bound[name]["pretrain"])
        pretrain = settings.model_dump(mode="json")
        # Held-out text is compared by its hash (`evaluation_data`), not by its path.
        held_out = {**pretrain["held_out"], "data": pretrain["held_out"]["data"] is not None}
        bound[name] = {**plan.bound[name], "pretrain": {**pretrain, "held_out": held_out}}
    keys = {"finetune", "equal", "num_examples", "tasks", "has_probes", "has_agreement"}
    return {
        "study": plan.name,
        **plan.model_dump(mode="json", include={"corpus", "evaluation_data", "task_recipes", "examples"}),
        "variants": bound,
        **plan.settings.model_dump(mode="json", include=keys),
    }


def _scale_widths(config: ModelConfig, variant: VariantSettings) -> dict[str, int]:
    times, keys = variant.times_as_wide or 1.0, ("hidden_size", "num_attention_heads", "intermediate_size")
    sizes = {key: max(1, round(times * getattr(config, key))) for key in keys}
    if variant.embedding_share is not None:
        sizes["embedding_size"] = max(1, round(variant.embedding_share * sizes["hidden_size"]))
    return sizes


def _match_size(config: ModelConfig, size: int, *, other: str) -> dict[str, int]:
    """Find the hidden size nearest to a number of parameters, with heads of about 64 and inner size 4 H."""

    def count(width: int) -> int:
        shape = config.model_copy(update={"hidden_size": width, "intermediate_size": 4 * width})
        return count_parameters(shape).backbone

    widths = range(_WIDTH_STEP, _MAX_WIDTH + 1, _WIDTH_STEP)
    index = bisect_left(widths, size, key=count)
    width = min(widths[max(index - 1, 0) : index + 1], key=lambda each: abs(count(each) - size))
    if abs(count(width) - size) > _SIZE_TOLERANCE * size:  # the word embeddings alone may be larger
        raise InputError(
            f"as_large_as {other}: it has {size:,} parameters, but the nearest hidden_size {width} has "
            f"{count(width):,} with embedding_size {config.embedding_size}; change "
            "pretrain.model.embedding_size"
        )
    heads = [number for number in range(1, width // 2) if width % (2 * number) == 0]
    num_heads = min(heads, key=lambda number: abs(width / number - _HEAD_SIZE))
    return {"hidden_size": width, "num_attention_heads": num_heads, "intermediate_size": 4 * width}


@dataclass(frozen=True)
class Schedule:
    """Groups of variants and seeds, run one group after another, with `num_at_once` runs in parallel."""

    groups: Sequence[Sequence[tuple[str, int]]]
    num_at_once: int = 1

    def find_seconds(self, seconds: Mapping[str, float]) -> float:
        """Compute the total time from that of a run of each variant."""
        total = 0.0
        for group in self.groups:
            free_at = [0.0] * self.num_at_once
            for variant, _ in group:
                heapq.heapreplace(free_at, free_at[0] + seconds[variant])
            total += max(free_at)
        return total


def build_schedule(settings: StudySettings, *, num_at_once: int = 1) -> Schedule:
    """Order the runs so that each comes after the one that it starts from.

    One at a time, all variants are run with the first seed before the second, so that a study that is stopped
    early has compared all of them. In parallel, that would leave workers idle.
    """
    waves = settings.list_waves()
    if num_at_once == 1:
        return Schedule([[(name, seed) for name in wave] for seed in settings.seeds for wave in waves])
    groups = [[(name, seed) for seed in settings.seeds for name in wave] for wave in waves]
    return Schedule(groups, num_at_once)


@dataclass(frozen=True)
class VariantCost:
    """The seconds of a step, of the rest of a run, and of the footprint, which is measured once."""

    step_seconds: float
    fixed_seconds: float
    footprint_seconds: float = 0.0


def freeze_steps(
    plan: StudyPlan, *, seconds: float, engine: Engine, num_threads: int | None, reporter: Reporter
) -> StudyPlan:
    """Time all variants as they will run, and set the steps of each: equally many, or in equal time."""
    variants = plan.settings.variants
    limit, own = _TIMED_SHARE * seconds / len(variants), reporter if num_threads is None else NullReporter()
    time_run = partial(_time_run, plan, limit=limit, num_threads=num_threads, reporter=own)
    reporter.show("timing", f"a few steps of {len(variants)} variants")
    timed = dict(engine.run(time_run, [Run(Path(), variant, 0) for variant in variants]))
    costs = {variant: timed[Run(Path(), variant, 0)] for variant in variants}
    schedule = build_schedule(plan.settings, num_at_once=engine.num_at_once)
    is_equal_time = plan.settings.equal == "time"
    available = seconds * (1 - _TIMED_SHARE)
    steps = share_steps(costs, schedule, seconds=available, is_equal_time=is_equal_time)
    slowest = min(steps, key=lambda variant: steps[variant])
    if steps[slowest] < _MIN_STEPS:
        amount = _MIN_STEPS * (max(cost.step_seconds for cost in costs.values()) if is_equal_time else 1.0)
        needed = find_study_seconds(costs, schedule, amount, is_equal_time=is_equal_time) / (1 - _TIMED_SHARE)
        raise InputError(
            f"study {plan.name}: {format_seconds(seconds)} are enough for {max(0, steps[slowest])} steps of "
            f"{slowest}; give {format_seconds(needed)} or more, fewer num_seeds, or fewer --variants"
        )
    listed = ", ".join(f"{variant} {number:,}" for variant, number in steps.items())
    reporter.say(f"steps that fit into {format_seconds(seconds)}: {listed}")
    return plan.model_copy(update={"num_steps": steps, "budget_seconds": seconds})


def share_steps(
    costs: Mapping[str, VariantCost], schedule: Schedule, *, seconds: float, is_equal_time: bool
) -> dict[str, int]:
    """Find the number of steps of each variant with which the schedule takes so many seconds."""
    fastest = min(cost.step_seconds for cost in costs.values())
    fits, exceeds = 0.0, seconds / (1.0 if is_equal_time else fastest)
    for _ in range(_NUM_HALVINGS):
        middle = (fits + exceeds) / 2
        if find_study_seconds(costs, schedule, middle, is_equal_time=is_equal_time) <= seconds:
            fits = middle
        else:
            exceeds = middle
    amount = fits * (1 + 1e-9)  # against rounding errors
    return {name: int(amount / (cost.step_seconds if is_equal_time else 1)) for name, cost in costs.items()}


def find_study_seconds(
    costs: Mapping[str, VariantCost], schedule: Schedule, amount: float, *, is_equal_time: bool
) -> float:
    """Compute the time of a study whose runs train for `amount` steps, or seconds with equal time."""
    each = {
        name: cost.fixed_seconds + amount * (1.0 if is_equal_time else cost.step_seconds)
        for name, cost in costs.items()
    }
    return schedule.find_seconds(each) + sum(cost.footprint_seconds for cost in costs.values())


def _time_run(
    plan: StudyPlan, run: Run, *, limit: float, num_threads: int | None, reporter: Reporter
) -> VariantCost:
    if num_threads is not None:
        torch.set_num_threads(num_threads)
    study, settings = plan.settings, plan.resolve(run)[0]
    data = open_data(plan.data, settings.held_out, share=settings.data_share)
    fixed = _FIXED_SECONDS
    with tempfile.TemporaryDirectory() as name:
        job = PretrainJob(build_pretrain_model(settings), settings, data)
        cost = time_recipe(job, Path(name), limit=limit, reporter=reporter)
        model = Path(name) / "untrained"
        save_model(model, build_pretrain_model(settings), tokenizer=data.tokenizer)
        for task in study.tasks:
            assert plan.task_data is not None, "a study with tasks has their data"
            reporter.show("timing", f"{run.variant}: {task}")
            recipe, overrides = plan.task_recipes[task], plan.list_task_overrides(run)
            data_dir = Path(plan.task_data)
            estimate = estimate_cost(task, model=model, data=data_dir, recipe=recipe, overrides=overrides)
            fixed += estimate.seconds
    # The last shape of steps has the full depth and length, as in evaluations.
    full_step = cost.shapes[-1].seconds
    num_scored = study.num_examples * (_NUM_EVALUATIONS + _NUM_PROBED * study.has_probes)
    fixed += cost.pause_seconds + full_step * _FORWARD_SHARE * num_scored / settings.batch_size
    fixed += _PROBE_SECONDS * study.has_probes + _AGREEMENT_SECONDS * study.has_agreement
    footprint = _FOOTPRINT_SECONDS + _FOOTPRINT_STEPS * full_step if study.has_footprint else 0.0
    return VariantCost(cost.step_seconds, fixed, footprint)
