"""Reviews and models come in; how well each learns them, beside a bag of words, goes out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from albert.app.quickstart.settings import QuickstartSettings
from albert.errors import AlbertError, InputError
from albert.reporting import Reporter

if TYPE_CHECKING:
    from albert.tasks.metrics.intervals import Interval

TASK = "classification"
TEST = "test"
PRETRAINED, UNTRAINED = "pretrained", "untrained"
MODELS_DIR = "models"
# The reviews are short and few: three times over them takes a minute or two for each model.
_OVERRIDES = ("max_length=64", "num_epochs=3", "num_evaluations=3", "has_tensorboard=false")


@dataclass(frozen=True)
class ReviewScore:
    """Who answered, the share of right answers in points of 100 with its interval, and which are right."""

    name: str
    accuracy: "Interval"
    is_right: tuple[float, ...]


@dataclass(frozen=True)
class ReviewScores:
    """All who answered the same test reviews, and how much better a pretrained model is than a fresh one."""

    num_train: int
    num_dev: int
    num_test: int
    scores: Mapping[str, ReviewScore]
    gain: "Interval"


def check_teaching(model: Path | None, *, settings: QuickstartSettings) -> None:
    """Refuse a place that is no model to teach, and settings of fine-tuning that are unknown or at odds."""
    from albert.model.runtime import build_autocast
    from albert.pretrained.folder import load_model
    from albert.tasks.finetune_recipes import choose_recipe, read_finetune_recipe
    from albert.tasks.vocabulary_fit import load_own_vocabulary

    hidden_size = 0  # where there is no model, any recipe tells whether the settings are settings
    if model is not None:
        try:
            config = load_model(model, heads={}).config
            load_own_vocabulary(model, config)
        except AlbertError as error:
            raise InputError(f"--model {settings.model} is no model to teach: {error}") from error
        hidden_size = config.hidden_size
    recipe = choose_recipe(TASK, hidden_size=hidden_size)
    build_autocast(read_finetune_recipe(recipe, overrides=_list_overrides(settings)).runtime)


def score_reviews(
    tables: Path, *, models: Mapping[str, Path], settings: QuickstartSettings, reporter: Reporter
) -> ReviewScores:
    """Teach each model the reviews, and ask it about those of the test; a bag of words is asked as well."""
    from albert.tasks.metrics.comparison import compare_means

    found = {name: _score_words(tables, name) for name in ("majority", "bag_of_words")}
    for name, model in models.items():
        run_dir = tables / MODELS_DIR / name
        _teach(model, tables, run_dir, settings=settings, reporter=reporter)
        found[name] = _score_model(run_dir, tables, name)
    gap = compare_means(found[PRETRAINED].is_right, second=found[UNTRAINED].is_right, seed=0).interval
    train, dev, test = (_count_rows(tables, name) for name in ("train", "dev", TEST))
    return ReviewScores(train, dev, test, found, gap.in_points())


def has_begun_teaching(tables: Path) -> bool:
    """Whether some model has begun to learn the reviews."""
    from albert.training.run_folder import has_run

    return any(has_run(run_dir) for run_dir in (tables / MODELS_DIR).glob("*"))


def _teach(
    model: Path, tables: Path, run_dir: Path, *, settings: QuickstartSettings, reporter: Reporter
) -> None:
    from albert.pretrained.huggingface import CONFIG_NAME
    from albert.tasks.finetune import finetune
    from albert.training.run_folder import MODEL_DIR, has_run

    if (run_dir / MODEL_DIR / CONFIG_NAME).exists():
        return
    result = finetune(
        TASK,
        model=model,
        data=tables,
        out=run_dir,
        overrides=_list_overrides(settings),
        resume=has_run(run_dir),
        reporter=reporter,
    )
    result.outcome.check_finished()


def _list_overrides(settings: QuickstartSettings) -> list[str]:
    from albert.study.arms.plan import list_overrides

    return [*_OVERRIDES, f"seed={settings.seed}", *list_overrides(settings.finetune)]


def _score_model(run_dir: Path, tables: Path, name: str) -> ReviewScore:
    from albert.tasks.evaluation import evaluate

    found = evaluate(TASK, model=run_dir, data=tables, split=TEST)
    return _summarise(name, found.facts, found.answers, found.examples)


def _score_words(tables: Path, name: str) -> ReviewScore:
    """What needs no model of language: the more frequent answer, or a linear model of words and pairs."""
    from albert.tasks.assignment import find_table, open_assignment
    from albert.tasks.baselines.score import list_baselines

    train, test = find_table(tables, ("train",)), find_table(tables, (TEST,))
    assert train is not None, "it was written"
    assert test is not None, "it was written"
    assignment = open_assignment(TASK, train, dev=test, columns={}, dev_share=0.1)
    answers = list_baselines(assignment)[name](assignment)
    return _summarise(name, assignment.facts, answers, assignment.dev)


def _summarise(name: str, facts: Any, answers: Sequence[Any], examples: Sequence[Any]) -> ReviewScore:
    from albert.tasks.decisions import list_decided
    from albert.tasks.metrics.intervals import bootstrap_mean

    is_right = list_decided(facts, answers, examples).is_right
    return ReviewScore(name, bootstrap_mean(is_right, seed=0).in_points(), tuple(is_right.tolist()))


def _count_rows(tables: Path, name: str) -> int:
    with (tables / f"{name}.jsonl").open(encoding="utf-8") as file:
        return sum(1 for _ in file)
