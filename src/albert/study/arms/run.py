"""Train and measure one arm with one seed: pretrain, score, fine-tune, write the result.

After a kill, pretraining and fine-tuning resume from their checkpoints; a finished arm is never run again.
"""

import shutil
import traceback
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, pstdev

import torch

from albert.errors import explain
from albert.files import read_json, write_json
from albert.model.config import count_parameters
from albert.pretrained.folder import load_model
from albert.progress import NullReporter, Reporter
from albert.study.agreement import score_sample
from albert.study.arms.folder import StudyPlan, read_plan
from albert.study.arms.probes import MAX_TOKENS, probe_pairs
from albert.study.arms.results import FAILURE_NAME, PRETRAIN_DIR, RESULT_NAME, ArmResult, CurvePoint, Unit
from albert.study.arms.settings import list_pretrain_overrides, list_task_overrides
from albert.tasks.finetune import finetune
from albert.training.evaluation import Score, build_held_out_source, evaluate_pass, evaluate_pretraining
from albert.training.loop import StoppedError
from albert.training.losses import list_heads
from albert.training.metrics import iter_records, keep_figures, list_records
from albert.training.pretrain import PretrainResult, pretrain
from albert.training.pretrain_job import open_data
from albert.training.run_folder import CHECKPOINTS_DIR, MODEL_DIR, has_run

TASKS_DIR, SCORE_NAME = "tasks", "score.json"


@dataclass(frozen=True)
class UnitOutcome:
    """How a run ended: finished, failed for a reason, or stopped by a signal."""

    is_finished: bool
    reason: str = ""
    signal: str | None = None


def run_unit(unit: Unit, *, num_threads: int | None = None, reporter: Reporter | None = None) -> UnitOutcome:
    """Do what is left of a run. A failure is written to its folder, so that the other arms continue."""
    reporter = reporter or NullReporter()
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
    """Remove the checkpoints of a finished run, which are three times the size of the model."""
    shutil.rmtree(unit.folder / PRETRAIN_DIR / CHECKPOINTS_DIR, ignore_errors=True)


def _finish(unit: Unit, plan: StudyPlan, reporter: Reporter) -> ArmResult:
    run_dir = unit.folder / PRETRAIN_DIR
    run = pretrain(
        plan.settings.recipe,
        data=plan.data,
        out=run_dir,
        overrides=list_pretrain_overrides(plan, unit),
        resume=has_run(run_dir),
        reporter=reporter,
    )
    run.outcome.check_finished()
    scores = _score(unit, plan, run, reporter)
    tasks = {task: _finetune(unit, plan, task, reporter) for task in plan.settings.tasks}
    config = run.settings.model
    assert config is not None, "a started run has its shape"
    counts = count_parameters(config)
    figures = {name: score.mean for name, score in scores.items()}
    figures["gap"] = figures["mlm_loss"] - figures["train_loss"]
    curve, seconds = [], 0.0
    for record in iter_records(run_dir):
        seconds += record.get("seconds") or 0.0
        if record.get("kind") == "evaluate":
            figures_then = keep_figures(record)
            curve.append(CurvePoint(step=record["step"], seconds=round(seconds, 3), figures=figures_then))
    return ArmResult(
        arm=unit.arm,
        seed=unit.seed,
        num_parameters=counts.backbone,
        num_encoder_parameters=counts.encoder,
        num_steps=run.settings.num_steps,
        num_tokens=run.outcome.progress.num_tokens,
        seconds=run.outcome.progress.seconds,
        figures={**figures, **_summarize_gradients(run_dir)},
        errors={name: score.standard_error for name, score in scores.items() if score.standard_error},
        scores=tasks,
        curve=tuple(curve),
        num_threads=torch.get_num_threads(),
    )


def _score(unit: Unit, plan: StudyPlan, run: PretrainResult, reporter: Reporter) -> dict[str, Score]:
    """Score the pretrained model without fine-tuning.

    Every arm is scored on the same pairs of segments (`plan.examples`), whatever it was trained on, as in
    table 5: masked words, order and next sentence of held-out text, and masked words of training text.
    """
    settings, examples = plan.settings, plan.examples
    assert run.model_dir is not None, "it is finished"
    data = open_data(plan.data, run.settings.held_out, share=run.settings.data_share)
    heads = list_heads(pair_head=run.settings.examples.pair_objective)
    model = load_model(run.model_dir, heads=heads).model.eval()
    num = settings.num_examples
    reporter.show("asking", f"{unit.name}: held-out text")
    scores = evaluate_pretraining(
        model, data.held_out, data.tokenizer, settings=examples, num_examples=num, max_tokens=MAX_TOKENS
    )
    source = build_held_out_source(data.train, data.tokenizer, examples, objective="none")
    with torch.inference_mode():
        train = evaluate_pass(model, source, num_examples=num, max_tokens=MAX_TOKENS)
    scores["train_loss"] = train.word_loss
    if settings.has_probes:
        reporter.show("asking", f"{unit.name}: what its vectors know of pairs")
        for objective in ("sop", "nsp"):
            scores[f"probe_{objective}"] = probe_pairs(
                model, data, settings=examples, objective=objective, num_examples=num
            )
    if settings.has_agreement and "agreement" in plan.asked:
        reporter.show("asking", f"{unit.name}: minimal pairs")
        found = score_sample(model, data.tokenizer)
        scores["agreement"] = Score(found.share, found.num_pairs, None)
    elif settings.has_agreement:
        reporter.say(f"{unit.name}: not scored on minimal pairs; the study began with those of older code")
    return scores


def _finetune(unit: Unit, plan: StudyPlan, task: str, reporter: Reporter) -> float:
    """Fine-tune on a task and return the score, or read it where it is known."""
    assert plan.task_data is not None, "the study was started with it"
    task_dir = unit.folder / TASKS_DIR / task
    if (task_dir / SCORE_NAME).exists():
        return float(read_json(task_dir / SCORE_NAME)["score"])
    run_dir = task_dir / "run"
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
    write_json(task_dir / SCORE_NAME, {"score": result.scores.score, "metrics": dict(result.scores.metrics)})
    shutil.rmtree(run_dir)  # of many arms and tasks only the scores are kept
    return result.scores.score


def _summarize_gradients(run_dir: Path) -> dict[str, float]:
    """The mean gradient norm in the second half of a run, and its deviation relative to that.

    The paper holds that sharing stabilizes training (section 4.2 of its first version).
    """
    norms = [
        (record["step"], record["grad_norm"])
        for record in list_records(run_dir, "train")
        if record.get("grad_norm") is not None
    ]
    if not norms:
        return {}
    late = [norm for step, norm in norms if step > norms[-1][0] / 2]
    mean = fmean(late)
    return {"grad_norm": mean, "grad_variation": pstdev(late) / mean if mean else 0.0}
