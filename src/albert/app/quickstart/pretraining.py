"""A prepared corpus comes in; a model pretrained on it, stopped and resumed on the way, goes out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from albert.app.quickstart.settings import QuickstartSettings
from albert.app.quickstart.stopping import StopOnce
from albert.errors import AlbertError, InputError
from albert.reporting import Reporter

if TYPE_CHECKING:
    from albert.training.pretrain_job import PretrainData

_STAGE = "pretrain"  # what the loop calls its progress
_STOP_SHARE = 0.4
# The text is small: more of it than usual is kept to be asked about, so that a figure means something.
_OVERRIDES = (
    "held_out.share=0.05",
    "held_out.num_examples=160",
    "num_evaluations=10",
    "has_tensorboard=false",
)


@dataclass(frozen=True)
class Point:
    """An evaluation on held-out text after so many steps."""

    step: int
    figures: dict[str, float]


@dataclass(frozen=True)
class PretrainingResult:
    """How it went: `start` is what the model knew before its first step, `resumed_at` where it was stopped.

    `training` are points of the text that is learned from, `held_out` of `num_asked` pairs of the
    other. `is_exact` where stopping is known to change no bit: on a CPU, with as many threads all along.
    `is_warm` where it began with the weights of another model.
    """

    run_dir: Path
    num_pieces: int
    vocab_size: int
    num_parameters: int
    num_steps: int
    num_tokens: int
    seconds: float
    unigram_loss: float
    num_asked: int
    resumed_at: tuple[int, ...]
    start: Point
    training: tuple[Point, ...]
    held_out: tuple[Point, ...]
    objective: str = "sop"
    is_exact: bool = True
    is_warm: bool = False

    @property
    def end(self) -> Point:
        """What it knows at the end."""
        return self.held_out[-1]


def pretrain_model(
    corpus_dir: Path, run_dir: Path, *, settings: QuickstartSettings, reporter: Reporter
) -> PretrainingResult:
    """Pretrain for `settings.minutes`, stopped by a signal and resumed once; or go on with what is there."""
    from albert.training.run_folder import has_run

    stopper = StopOnce(reporter, stage=_STAGE, share=_STOP_SHARE)
    is_new = not has_run(run_dir)
    outcome = _run(corpus_dir, run_dir, settings, stopper if is_new else reporter)
    if stopper.has_stopped and outcome.signal == "SIGTERM":
        reporter.say(
            f"stopped by a signal at step {outcome.progress.step:,}, on purpose, and saved; now it goes on "
            "as if it had never stopped"
        )
        outcome = _run(corpus_dir, run_dir, settings, reporter)
    outcome.check_finished()
    return _read_result(corpus_dir, run_dir, outcome)


def describe_pretraining(settings: QuickstartSettings) -> dict[str, Any]:
    """All that a run is begun with; refused: a recipe that is not there, or is at odds with itself."""
    described = {"settings": drop_free_keys(_resolve(settings).model_dump(mode="json"))}
    return described if "num_steps" in settings.pretrain else {"minutes": settings.minutes, **described}


def drop_free_keys(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Without what may differ when a run goes on."""
    from albert.training.run_folder import FREE_KEYS

    return {key: value for key, value in settings.items() if key not in FREE_KEYS | {"num_workers"}}


def check_corpus(corpus_dir: Path, *, settings: QuickstartSettings, text_name: str) -> None:
    """Refuse a corpus that does not fill a batch, or has no two sentences in a document to be asked about."""
    from albert.training.pretrain_job import PretrainJob, build_pretrain_model, open_data, resolve_model

    resolved = _resolve(settings)
    objective = resolved.examples.objective
    data = open_data(corpus_dir, resolved.held_out, objective=objective, share=resolved.data_share)
    if objective != "none":
        _check_pairs(data, objective, text_name=text_name)
    shaped = resolve_model(resolved, data.tokenizer)
    PretrainJob(build_pretrain_model(shaped), shaped, data).check()


def _check_pairs(data: "PretrainData", objective: str, *, text_name: str) -> None:
    for corpus, place in ((data.train, "learned from"), (data.held_out, "held out to be asked about")):
        if not any((part.document_starts[1:] - part.document_starts[:-1] > 1).any() for part in corpus.parts):
            raise InputError(
                f"{text_name}: no document of what is {place} has two sentences, and the objective "
                f"{objective} asks about pairs; add pretrain.examples.objective=none, or give other text"
            )


def find_spent(run_dir: Path) -> float:
    """The seconds of training behind a run, finished or not, by what its checkpoints say."""
    from albert.files import read_json
    from albert.training.checkpoints import STATE_NAME, CheckpointFolder
    from albert.training.run_folder import CHECKPOINTS_DIR

    folder = CheckpointFolder(run_dir / CHECKPOINTS_DIR)
    spent = 0.0
    for step in folder.list_steps():
        try:
            spent = max(spent, float(read_json(folder.place(step) / STATE_NAME)["progress"]["seconds"]))
        except (AlbertError, KeyError, TypeError, ValueError):  # noqa: PERF203 - a damaged one tells nothing
            continue
    return spent


def _resolve(settings: QuickstartSettings) -> Any:
    from albert.model.runtime import build_autocast
    from albert.training.recipes import read_recipe

    resolved = read_recipe(settings.recipe, overrides=_list_overrides(settings))
    build_autocast(resolved.runtime)  # a device that is not there is refused at once
    return resolved


def _list_overrides(settings: QuickstartSettings) -> list[str]:
    from albert.study.arms.plan import list_overrides

    return [*_OVERRIDES, f"seed={settings.seed}", *list_overrides(settings.pretrain)]


def _run(corpus_dir: Path, run_dir: Path, settings: QuickstartSettings, reporter: Reporter) -> Any:
    from albert.training.pretrain import pretrain
    from albert.training.run_folder import has_run

    resume = has_run(run_dir)
    is_timed = "num_steps" not in settings.pretrain
    result = pretrain(
        settings.recipe,
        data=corpus_dir,
        out=run_dir,
        overrides=_list_overrides(settings),
        budget=f"{60 * settings.minutes:.3f}s" if is_timed and not resume else None,
        resume=resume,
        reporter=reporter,
    )
    return result.outcome


def _read_result(corpus_dir: Path, run_dir: Path, outcome: Any) -> PretrainingResult:
    """What a finished run has written down, and what its model knew before it began."""
    from albert.model.parameters import count_parameters
    from albert.training.metrics import iter_records
    from albert.training.run_folder import read_pretrain_run

    settings, facts = read_pretrain_run(run_dir)
    assert settings.model is not None, "a begun run knows its shape"
    records = list(iter_records(run_dir))
    progress = outcome.progress
    # Records may be lost, and the last figures are in the checkpoint as well.
    end = Point(progress.step, _choose_figures(progress.figures))
    return PretrainingResult(
        run_dir=run_dir,
        num_pieces=facts.num_pieces,
        vocab_size=settings.model.vocab_size,
        num_parameters=count_parameters(settings.model).backbone,
        num_steps=progress.step,
        num_tokens=progress.num_tokens,
        seconds=progress.seconds,
        unigram_loss=facts.unigram_loss,
        num_asked=facts.num_asked or settings.held_out.num_examples,
        resumed_at=tuple(
            sorted({record["step"] for record in records if _is_resumed(record, progress.step)})
        ),
        start=_ask_untrained(corpus_dir, settings),
        training=_list_points(records, "train"),
        held_out=(*(each for each in _list_points(records, "evaluate") if each.step < end.step), end),
        objective=settings.examples.objective,
        is_exact=_is_exact(records, settings),
        is_warm=settings.init_from is not None,
    )


def _is_resumed(record: dict[str, Any], num_steps: int) -> bool:
    return record.get("kind") == "start" and 0 < record["step"] < num_steps


def _is_exact(records: Sequence[dict[str, Any]], settings: Any) -> bool:
    from albert.model.runtime import select_device

    starts = [record for record in records if record.get("kind") == "start"]
    # Started again at its end, a run computes nothing more.
    threads = {record.get("threads") for record in starts if record["step"] < settings.num_steps}
    return len(threads) <= 1 and select_device(settings.runtime.device).type == "cpu"


def _list_points(records: Sequence[dict[str, Any]], kind: str) -> tuple[Point, ...]:
    return tuple(
        Point(record["step"], _choose_figures(record)) for record in records if record.get("kind") == kind
    )


def _choose_figures(values: Mapping[str, Any]) -> dict[str, float]:
    return {
        name: value
        for name, value in values.items()
        if name.endswith(("_loss", "_accuracy")) and value is not None
    }


def _ask_untrained(corpus_dir: Path, settings: Any) -> Point:
    """The figures of the model that the run began with, on the same held-out text."""
    import torch

    from albert.training.pretrain_job import PretrainJob, build_pretrain_model, open_data

    objective = settings.examples.objective
    data = open_data(corpus_dir, settings.held_out, objective=objective, share=settings.data_share)
    model = build_pretrain_model(settings).eval()
    with torch.inference_mode():
        return Point(0, PretrainJob(model, settings, data).evaluate(0))
