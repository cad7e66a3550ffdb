"""A run folder comes in; the run goes out as what it is, of pretraining or of fine-tuning."""

import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from albert.app.doctor.findings import Figure
from albert.app.doctor.run import Run, find_cut_lines
from albert.errors import InputError
from albert.files import is_held, read_json
from albert.tasks.finetune_settings import FinetuneSettings
from albert.training.metrics import METRICS_NAME, iter_records
from albert.training.run_folder import (
    LOCK_NAME,
    RUN_NAME,
    SETTINGS_NAME,
    PretrainFacts,
    has_run,
    read_pretrain_run,
)
from albert.training.settings import PretrainSettings

if TYPE_CHECKING:  # what is known of a task brings torch along
    from albert.tasks.finetune_facts import FinetuneFacts


@dataclass(frozen=True)
class PretrainRun(Run):
    """A run of `albert pretrain`."""

    settings: PretrainSettings
    facts: PretrainFacts

    @property
    def num_steps(self) -> int:
        """As its settings say."""
        return self.settings.num_steps

    @property
    def pair_objective(self) -> str | None:
        """`sop` or `nsp`, where the run has a sentence objective."""
        return self.settings.examples.pair_objective

    @property
    def num_epochs(self) -> float:
        """How often the corpus was seen."""
        return self.num_tokens / max(1, self.facts.num_pieces)

    @cached_property
    def stages(self) -> list[tuple[int, str]]:
        """The first step of each stage so far, and what it looks like."""
        model = self.settings.model
        if model is None:
            return []
        return [
            (steps.start, f"depth {shape.depth}, length {shape.length}")
            for shape, steps in self.settings.build_curriculum(model).list_shapes()
            if steps.start <= self.step
        ]

    def list_figures(self) -> dict[str, Figure]:
        """The latest loss, held against the frequency of pieces, and the latest accuracy of pairs."""
        held_out, train = self.held_out_curve("mlm_loss"), self.train_curve("mlm_loss")
        known = held_out if len(held_out) else train
        if not len(known):
            return {}
        loss, unigram = float(known.values[-1]), self.facts.unigram_loss
        figures: dict[str, Figure] = {
            "mlm_loss": loss,
            "unigram_loss": unigram,
            "below_unigram_share": 1 - loss / unigram,
        }
        pairs = self.held_out_curve(f"{self.pair_objective}_accuracy")
        if len(pairs):
            figures[f"{self.pair_objective}_accuracy"] = float(pairs.values[-1])
        return {**figures, "epochs_seen": self.num_epochs}

    def format_resume(self, *overrides: str) -> str:
        """The command that goes on with this run."""
        words = [*self.launcher, "pretrain", str(self.path / SETTINGS_NAME), *overrides]
        return shlex.join([*words, "--data", self.facts.data, "--out", str(self.path), "--resume"])


@dataclass(frozen=True)
class FinetuneRun(Run):
    """A run of `albert finetune`."""

    settings: FinetuneSettings
    facts: "FinetuneFacts"

    @property
    def num_steps(self) -> int:
        """As it was written down; of a run that has not, the last that is known."""
        return self.settings.num_steps or self.facts.num_steps or max(1, self.step)

    def list_figures(self) -> dict[str, Figure]:
        """The latest loss and the scores on the development set, beside what guessing scores."""
        scores, losses = self.held_out_curve("score"), self.train_curve("loss")
        figures: dict[str, Figure] = {"train_loss": float(losses.values[-1])} if len(losses) else {}
        if len(scores):
            best = int(scores.values.argmax())
            figures |= {"best_score": float(scores.values[best]), "best_step": int(scores.steps[best])}
        if figures and self.facts.guess is not None:
            figures["score_of_guessing"] = self.facts.guess
        return figures

    def format_resume(self, *overrides: str) -> str:
        """The command that goes on with this run."""
        facts = self.facts
        words = [*self.launcher, "finetune", facts.task.task, "--model", facts.model, "--data", facts.data]
        dev = [] if facts.dev is None else ["--dev", facts.dev]
        recipe = ["--recipe", str(self.path / SETTINGS_NAME), *overrides]
        return shlex.join([*words, *dev, *recipe, "--out", str(self.path), "--resume"])


AnyRun = PretrainRun | FinetuneRun


def open_run(path: Path) -> AnyRun:
    """Read a run folder; refused: what is none, and one whose settings cannot be read."""
    cure = "give the --out of `albert pretrain` or `albert finetune`"
    if not path.is_dir():
        raise InputError(f"{path}: no such folder; {cure}")
    if not has_run(path):
        seeds = sorted(path.glob(f"seed-*/{RUN_NAME}"))
        hint = f"give one of its seeds, such as {seeds[0].parent}" if seeds else cure
        raise InputError(f"{path}: no {RUN_NAME}, so no run was begun there; {hint}")
    is_busy = is_held(path / LOCK_NAME)
    records = tuple(iter_records(path))
    cut_lines = find_cut_lines(path / METRICS_NAME, is_growing=is_busy)
    values = read_json(path / RUN_NAME)
    if isinstance(values, dict) and values.get("job") == "finetune":
        from albert.tasks.finetune_facts import read_finetune_run

        return FinetuneRun(path, *read_finetune_run(path), records, cut_lines, is_busy)
    return PretrainRun(path, *read_pretrain_run(path), records, cut_lines, is_busy)
