"""Run a variant of a study with one seed: pretrain, score, fine-tune, write result.json.

A stopped run resumes from the checkpoints of pretraining and fine-tuning; a finished run is not repeated.
Shapes: T tokens, B pairs, D hidden width.
"""

import shutil
import traceback
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, pstdev
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from albert.data.corpus import Corpus
from albert.errors import explain
from albert.examples.batches import build_source
from albert.examples.settings import ExampleSettings
from albert.files import read_json, write_json
from albert.model.albert_model import AlbertModel
from albert.model.config import count_parameters
from albert.pretrained.folder import load_model
from albert.progress import NullReporter, Reporter
from albert.settings import Settings, build_settings
from albert.study.agreement import score_sample
from albert.study.plan import Run, StudyPlan
from albert.tasks.finetune import finetune
from albert.text.tokenizer import Tokenizer
from albert.training.loop import StoppedError
from albert.training.losses import (
    Score,
    build_held_out_source,
    build_tokens,
    evaluate_pass,
    evaluate_pretraining,
    iter_batches,
    list_heads,
)
from albert.training.pretrain import PretrainData, PretrainResult, open_data, pretrain
from albert.training.run_folder import CHECKPOINTS_DIR, has_run, iter_records, keep_figures, list_records

RESULT_NAME, FAILURE_NAME, SCORE_NAME = "result.json", "failure.json", "score.json"
_MAX_TOKENS = 4096
_PROBE_SEED = 20_190_927
_PROBE_STRENGTHS = (0.01, 0.1, 1.0)  # scikit-learn's C, chosen by cross-validation


class CurvePoint(Settings):
    """An evaluation during training."""

    step: int
    seconds: float
    figures: dict[str, float]


class RunResult(Settings):
    """The result of one run: final `figures`, their standard `errors`, and task `scores` in points of 100."""

    former_names: ClassVar[Mapping[str, str]] = {"arm": "variant"}

    variant: str
    seed: int
    num_parameters: int
    num_encoder_parameters: int
    num_steps: int
    num_tokens: int
    seconds: float
    figures: dict[str, float]
    errors: dict[str, float]
    scores: dict[str, float]
    curve: tuple[CurvePoint, ...]
    num_threads: int


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended: finished, failed for a reason, or stopped by a signal."""

    is_finished: bool
    reason: str = ""
    signal: str | None = None


def read_result(run: Run) -> RunResult | None:
    """Read the result of a run, or None if it is not finished."""
    path = run.folder / RESULT_NAME
    return build_settings(RunResult, values=read_json(path), source=str(path)) if path.exists() else None


def run_variant(run: Run, *, num_threads: int | None = None, reporter: Reporter | None = None) -> RunOutcome:
    """Do what is left of a run; write a failure to its folder, so that the other runs continue."""
    if num_threads is not None:
        torch.set_num_threads(num_threads)
    (run.folder / FAILURE_NAME).unlink(missing_ok=True)  # of an earlier attempt
    try:
        result = _train_and_score(run, StudyPlan.read(run.study_dir), reporter or NullReporter())
    except StoppedError as stopped:
        return RunOutcome(False, signal=str(stopped))
    except Exception as error:  # a failed run does not stop the study
        reason = explain(error)
        write_json(run.folder / FAILURE_NAME, {"reason": reason, "traceback": traceback.format_exc()})
        return RunOutcome(False, reason=reason)
    write_json(run.folder / RESULT_NAME, result.model_dump(mode="json"))
    remove_checkpoints(run)
    return RunOutcome(True)


def remove_checkpoints(run: Run) -> None:
    """Remove the checkpoints of a finished run, which are three times the size of the model."""
    shutil.rmtree(run.pretrain_dir / CHECKPOINTS_DIR, ignore_errors=True)


def _train_and_score(run: Run, plan: StudyPlan, reporter: Reporter) -> RunResult:
    recipe, out, overrides = plan.settings.recipe, run.pretrain_dir, plan.list_pretrain_overrides(run)
    resume = has_run(out)
    trained = pretrain(recipe, data=plan.data, out=out, overrides=overrides, resume=resume, reporter=reporter)
    trained.outcome.check_finished()
    scores = _score(run, plan, trained, reporter)
    tasks = {task: _finetune(run, plan, task, reporter) for task in plan.settings.tasks}
    assert trained.settings.model is not None, "the model of a started run is resolved"
    counts = count_parameters(trained.settings.model)
    figures = {name: score.mean for name, score in scores.items()}
    figures["gap"] = figures["mlm_loss"] - figures["train_loss"]
    curve, seconds = [], 0.0
    for record in iter_records(run.pretrain_dir):
        seconds += record.get("seconds") or 0.0
        if record.get("kind") == "evaluate":
            evaluated = keep_figures(record)
            curve.append(CurvePoint(step=record["step"], seconds=round(seconds, 3), figures=evaluated))
    return RunResult(
        variant=run.variant,
        seed=run.seed,
        num_parameters=counts.backbone,
        num_encoder_parameters=counts.encoder,
        num_steps=trained.settings.num_steps,
        num_tokens=trained.outcome.progress.num_tokens,
        seconds=trained.outcome.progress.seconds,
        figures={**figures, **_summarize_gradients(run.pretrain_dir)},
        errors={name: score.standard_error for name, score in scores.items() if score.standard_error},
        scores=tasks,
        curve=tuple(curve),
        num_threads=torch.get_num_threads(),
    )


def _score(run: Run, plan: StudyPlan, trained: PretrainResult, reporter: Reporter) -> dict[str, Score]:
    """Score the pretrained model as in table 5, with the same pairs for all variants (`plan.examples`)."""
    settings, examples, num = plan.settings, plan.examples, plan.settings.num_examples
    data = open_data(plan.data, trained.settings.held_out, share=trained.settings.data_share)
    heads = list_heads(pair_head=trained.settings.examples.pair_objective)
    model = load_model(run.model_dir, heads=heads).model.eval()
    reporter.show("evaluating", f"{run.name}: held-out text")
    scores = evaluate_pretraining(
        model, data.held_out, data.tokenizer, settings=examples, num_examples=num, max_tokens=_MAX_TOKENS
    )
    source = build_held_out_source(data.train, data.tokenizer, examples, objective="none")
    with torch.inference_mode():
        train = evaluate_pass(model, source, num_examples=num, max_tokens=_MAX_TOKENS)
    scores["train_loss"] = train.mlm_loss
    if settings.has_probes:
        reporter.show("evaluating", f"{run.name}: probes of sentence vectors")
        for objective in ("sop", "nsp"):
            scores[f"probe_{objective}"] = probe_pairs(
                model, data, settings=examples, objective=objective, num_examples=num
            )
    if settings.has_agreement:
        reporter.show("evaluating", f"{run.name}: minimal pairs")
        accuracy = score_sample(model, data.tokenizer)
        scores["agreement"] = Score(accuracy.share, accuracy.num_pairs, None)
    return scores


def _finetune(run: Run, plan: StudyPlan, task: str, reporter: Reporter) -> float:
    assert plan.task_data is not None, "a study with tasks has their data"
    task_dir = run.folder / "tasks" / task
    if (task_dir / SCORE_NAME).exists():
        return float(read_json(task_dir / SCORE_NAME)["score"])
    run_dir = task_dir / "run"
    result = finetune(
        task,
        model=run.model_dir,
        data=plan.task_data,
        out=run_dir,
        recipe=plan.task_recipes[task],
        overrides=plan.list_task_overrides(run),
        resume=has_run(run_dir),
        reporter=reporter,
    )
    result.outcome.check_finished()
    assert result.scores is not None, "a finished run has scores"
    write_json(task_dir / SCORE_NAME, {"score": result.scores.score, "metrics": dict(result.scores.metrics)})
    shutil.rmtree(run_dir)  # only the scores are kept
    return result.scores.score


def _summarize_gradients(run_dir: Path) -> dict[str, float]:
    """Compute the mean gradient norm in the second half of a run, and its coefficient of variation."""
    records = [each for each in list_records(run_dir, "train") if each.get("grad_norm") is not None]
    if not records:
        return {}
    late = [record["grad_norm"] for record in records if record["step"] > records[-1]["step"] / 2]
    mean = fmean(late)
    return {"grad_norm": mean, "grad_variation": pstdev(late) / mean if mean else 0.0}


def probe_pairs(
    model: AlbertModel, data: PretrainData, *, settings: ExampleSettings, objective: str, num_examples: int
) -> Score:
    """Compute the accuracy of a linear probe of sentence vectors for SOP or NSP.

    Unlike heads, probes can compare models with different objectives. The probe is trained on four times as
    many pairs of training text and scored on held-out pairs.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    settings = settings.model_copy(update={"objective": objective})
    encode = partial(_encode_pairs, model, tokenizer=data.tokenizer, settings=settings)
    train = encode(data.train, num_examples=4 * num_examples)
    held_out, labels = encode(data.held_out, num_examples=num_examples)
    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
    with warnings.catch_warnings():
        # A weakly regularized probe may not converge; cross-validation then selects another.
        warnings.simplefilter("ignore", ConvergenceWarning)
        search = GridSearchCV(probe, {"logisticregression__C": _PROBE_STRENGTHS}, cv=3).fit(*train)
    share = float((search.predict(held_out) == labels).mean())
    return Score(share, len(labels), float(np.sqrt(share * (1.0 - share) / len(labels))))


@torch.inference_mode()
def _encode_pairs(
    model: AlbertModel, corpus: Corpus, *, tokenizer: Tokenizer, settings: ExampleSettings, num_examples: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Encode pairs as vectors (of [CLS] and the means of both segments), with their labels."""
    source = build_source(corpus, tokenizer, settings=settings, seed=_PROBE_SEED)
    vectors, labels = [], []
    for batch in iter_batches(source, num_examples=num_examples, max_tokens=_MAX_TOKENS):
        states_TD = model.encoder(build_tokens(batch)).last_TD
        owners_T = torch.repeat_interleave(torch.arange(len(batch.lengths)), torch.as_tensor(batch.lengths))
        first_BD = states_TD[torch.as_tensor(batch.positions_T) == 0]
        parts = [first_BD]
        for segment in (0, 1):
            chosen_T = torch.as_tensor(batch.segments_T) == segment
            sums_BD = torch.zeros_like(first_BD).index_add_(0, owners_T[chosen_T], states_TD[chosen_T])
            counts_B = torch.bincount(owners_T[chosen_T], minlength=len(first_BD)).clamp(min=1)
            parts.append(sums_BD / counts_B[:, None])
        vectors.append(torch.cat(parts, dim=1).double().numpy())
        labels.append(batch.labels_B)
    return np.concatenate(vectors), np.concatenate(labels)
