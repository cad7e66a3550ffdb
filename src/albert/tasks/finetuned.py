"""What a finished run leaves: its best weights come in; a folder that knows its task goes out, scored."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from albert.files import write_json, writing_to
from albert.model.albert_model import AlbertModel
from albert.pretrained.folder import format_card, format_rows
from albert.reporting import Reporter, format_seconds
from albert.tasks.asking import ask_items
from albert.tasks.finetune_facts import FinetuneFacts
from albert.tasks.finetune_job import FinetuneJob
from albert.tasks.finetune_model import load_start
from albert.tasks.finetune_settings import FinetuneSettings
from albert.tasks.finetuned_folder import save_finetuned
from albert.tasks.metrics.figures import format_figure
from albert.tasks.task_facts import TaskFacts, build_kind
from albert.tasks.tuning import tune_facts
from albert.text.tokenizer import Tokenizer
from albert.training.loop import LoopOutcome, load_best
from albert.training.run_folder import MODEL_DIR, STEPS_ARE_SAVED

RESULT_NAME = "result.json"


@dataclass(frozen=True)
class FinetuneScores:
    """The metrics of a model on the development set, and the step that it was taken from."""

    metrics: Mapping[str, float]
    step: int

    @property
    def score(self) -> float:
        """What the task is judged by, in points of 100."""
        return self.metrics["score"]


def write_finetuned(
    run_dir: Path,
    job: FinetuneJob[Any, Any],
    *,
    state: Mapping[str, Tensor],
    facts: FinetuneFacts,
    tokenizer: Tokenizer,
    outcome: LoopOutcome,
    reporter: Reporter,
) -> FinetuneScores:
    """Write the model of the best evaluation, tuned and scored on the development set."""
    progress = outcome.progress
    step, weights = progress.step, dict(state)
    if progress.best_step is not None and progress.best_step != progress.step:
        best = load_best(run_dir, progress.best_step, names=state, reporter=reporter)
        step, weights = (step, weights) if best is None else (progress.best_step, best)
    cpu = job.settings.runtime.model_copy(update={"device": "cpu", "precision": "float32"})
    settings = job.settings.model_copy(update={"runtime": cpu})
    model = load_start(facts.model, job.kind, settings, task=facts.task).eval()
    model.load_state_dict(weights)
    reporter.show("scoring", f"the model of step {step:,}")
    answers = ask_items(model, job.kind, job.dev, max_tokens=job.settings.micro_batch_tokens)
    tuned = tune_facts(facts.task, answers, job.dev_examples).model_copy(update={"class_weights": None})
    metrics = build_kind(tuned).score(answers, job.dev_examples)
    card = format_task_card(model, job.settings, facts, tuned, metrics, seconds=progress.seconds, step=step)
    with writing_to(run_dir / MODEL_DIR, cure=STEPS_ARE_SAVED):
        save_finetuned(run_dir / MODEL_DIR, model, facts=tuned, tokenizer=tokenizer, card=card)
        write_json(run_dir / RESULT_NAME, {"metrics": metrics, "step": step})
    return FinetuneScores(metrics, step)


def format_task_card(
    model: AlbertModel,
    settings: FinetuneSettings,
    facts: FinetuneFacts,
    task: TaskFacts,
    metrics: Mapping[str, float],
    *,
    seconds: float,
    step: int,
) -> str:
    """The card of a fine-tuned model: what it was taught, how, and what it scores."""
    optimizer = settings.optimizer
    rows = {
        "task": task.task,
        "labels": ", ".join(task.labels) or "–",
        "examples": f"{facts.num_train:,} to learn from, {facts.num_dev:,} to be asked about",
        "recipe": f"{facts.recipe}: batches of {settings.batch_size}, {optimizer.name} at a peak of "
        f"{optimizer.learning_rate:.3g}, at most {task.max_length} pieces, seed {settings.seed}",
        "weights": f"those of step {step:,}, the best on the development set",
        "time": f"{format_seconds(seconds)} on {facts.num_threads} threads",
        "temperature": f"{task.temperature:.3f}",
    }
    scores = {
        name.replace("_", " "): format_figure(value) for name, value in metrics.items() if name != "score"
    }
    return f"""{format_card(model).rstrip()}

## Fine-tuning

{format_rows(rows)}

On the development set, by which the weights were chosen (so expect a little less elsewhere):

{format_rows(scores)}
"""
