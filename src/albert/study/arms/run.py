"""One arm with one seed comes in; it is pretrained, asked, fine-tuned, and its result is written down.

Every part is found again after a kill: pretraining and fine-tuning go on from their checkpoints, and a
finished arm is never run again.
"""

import shutil
import traceback
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from albert.errors import explain
from albert.files import read_json, write_json
from albert.model.parameters import count_parameters
from albert.reporting import Reporter, Silence
from albert.study.agreement.scoring import score_agreement
from albert.study.agreement.settings import AgreementSettings
from albert.study.arms.folder import StudyPlan, read_plan
from albert.study.arms.measures import ask_intrinsic, describe_gradients, open_arm
from albert.study.arms.probes import probe_pairs
from albert.study.arms.results import FAILURE_NAME, PRETRAIN_DIR, RESULT_NAME, ArmResult, CurvePoint, Unit
from albert.study.arms.settings import list_pretrain_overrides, list_task_overrides
from albert.tasks.finetune import finetune
from albert.training.evaluation import Score
from albert.training.loop import StoppedError
from albert.training.metrics import iter_records, keep_figures
from albert.training.pretrain import PretrainResult, pretrain
from albert.training.pretrain_job import open_data
from albert.training.run_folder import CHECKPOINTS_DIR, MODEL_DIR, has_run

TASKS_DIR, SCORE_NAME = "tasks", "score.json"


@dataclass(frozen=True)
class UnitOutcome:
    """How it ended: finished, failed for a reason, or stopped by a signal."""

    is_finished: bool
    reason: str = ""
    signal: str | None = None


def run_unit(unit: Unit, *, num_threads: int | None = None, reporter: Reporter | None = None) -> UnitOutcome:
    """Do what is left of it. What fails is told and written down: the other arms go on."""
    reporter = reporter or Silence()
    if num_threads is not None:
        torch.set_num_threads(num_threads)
    (unit.folder / FAILURE_NAME).unlink(missing_ok=True)  # of an earlier try
    try:
        result = _finish(unit, read_plan(unit.study_dir), reporter)
    except StoppedError as stopped:
        return UnitOutcome(False, signal=str(stopped))
    except Exception as error:  # an arm may fail in any way; the study does not
        reason = explain(error)
        write_json(unit.folder / FAILURE_NAME, {"reason": reason, "traceback": traceback.format_exc()})
        return UnitOutcome(False, reason=reason)
    write_json(unit.folder / RESULT_NAME, result.model_dump(mode="json"))
    drop_checkpoints(unit)
    return UnitOutcome(True)


def drop_checkpoints(unit: Unit) -> None:
    """Of a finished unit: they are three times the model, and nothing goes on from them."""
    shutil.rmtree(unit.folder / PRETRAIN_DIR / CHECKPOINTS_DIR, ignore_errors=True)


def _finish(unit: Unit, plan: StudyPlan, reporter: Reporter) -> ArmResult:
    settings = plan.settings
    run = _pretrain(unit, plan, reporter)
    assert run.model_dir is not None, "it is finished"
    scores = _ask(unit, plan, run, reporter)
    tasks = {task: _teach(unit, plan, task, reporter) for task in settings.tasks}
    config = run.settings.model
    assert config is not None, "a begun run knows its shape"
    counts = count_parameters(config)
    figures = {name: score.mean for name, score in scores.items()}
    figures["gap"] = figures["mlm_loss"] - figures["train_loss"]
    return ArmResult(
        arm=unit.arm,
        seed=unit.seed,
        num_parameters=counts.backbone,
        num_encoder_parameters=counts.encoder,
        num_steps=run.settings.num_steps,
        num_tokens=run.outcome.progress.num_tokens,
        seconds=run.outcome.progress.seconds,
        figures={**figures, **describe_gradients(run.run_dir)},
        errors={name: score.standard_error for name, score in scores.items() if score.standard_error},
        scores=tasks,
        curve=_read_curve(run.run_dir),
        num_threads=torch.get_num_threads(),
    )


def _pretrain(unit: Unit, plan: StudyPlan, reporter: Reporter) -> PretrainResult:
    run_dir = unit.folder / PRETRAIN_DIR
    overrides = list_pretrain_overrides(plan, unit)
    result = pretrain(
        plan.settings.recipe,
        data=plan.data,
        out=run_dir,
        overrides=overrides,
        resume=has_run(run_dir),
        reporter=reporter,
    )
    result.outcome.check_finished()
    return result


def _ask(unit: Unit, plan: StudyPlan, run: PretrainResult, reporter: Reporter) -> dict[str, Score]:
    """What the model knows without being taught anything more."""
    settings = plan.settings
    assert run.model_dir is not None, "it is finished"
    share = run.settings.data_share
    data = open_data(plan.data, run.settings.held_out, share=share)
    model = open_arm(run.model_dir, run.settings.examples)
    reporter.show("asking", f"{unit.name}: held-out text")
    scores = ask_intrinsic(model, data, settings=plan.examples, num_examples=settings.num_examples)
    probe = partial(probe_pairs, model, data, settings=plan.examples, num_examples=settings.num_examples)
    if settings.has_probes:
        reporter.show("asking", f"{unit.name}: what its vectors know of pairs")
        scores |= {f"probe_{objective}": probe(objective=objective) for objective in ("sop", "nsp")}
    if settings.has_agreement:
        reporter.show("asking", f"{unit.name}: minimal pairs")
        found = score_agreement(model, data.tokenizer, settings=AgreementSettings())
        scores["agreement"] = Score(found.mean, found.num_pairs, None)
    return scores


def _teach(unit: Unit, plan: StudyPlan, task: str, reporter: Reporter) -> float:
    """The score of a task; what is known already is not learned again."""
    assert plan.task_data is not None, "the study was begun with it"
    place = unit.folder / TASKS_DIR / task
    if (place / SCORE_NAME).exists():
        return float(read_json(place / SCORE_NAME)["score"])
    run_dir = place / "run"
    result = finetune(
        task,
        model=unit.folder / PRETRAIN_DIR / MODEL_DIR,
        data=plan.task_data,
        out=run_dir,
        recipe=plan.task_recipes[task],
        overrides=list_task_overrides(plan, unit),
        resume=has_run(run_dir),
        reporter=reporter,
    )
    result.outcome.check_finished()
    assert result.scores is not None, "it is finished"
    write_json(place / SCORE_NAME, {"score": result.scores.score, "metrics": dict(result.scores.metrics)})
    shutil.rmtree(run_dir)  # many arms and tasks: their scores are what is wanted
    return result.scores.score


def _read_curve(run_dir: Path) -> tuple[CurvePoint, ...]:
    points, seconds = [], 0.0
    for record in iter_records(run_dir):
        seconds += record.get("seconds") or 0.0
        if record.get("kind") == "evaluate":
            figures = keep_figures(record)
            points.append(CurvePoint(step=record["step"], seconds=round(seconds, 3), figures=figures))
    return tuple(points)
