"""What a quickstart found, stage by stage, before it is laid out for a person or a machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert.app.quickstart.pretraining import PretrainingResult
from albert.app.quickstart.questions import MaskQuestion, ModelAnswers, OrderQuestion
from albert.app.quickstart.scores import ReviewScores
from albert.app.quickstart.settings import RELEASED, QuickstartSettings
from albert.app.quickstart.sources import TextSource
from albert.report.content import Page

TRAINED = "just trained"


def name_model(model: str) -> str:
    """How the pretrained model is called: a person's own is not the released one."""
    return f"released: {model}" if model == RELEASED else f"given: {model}"


@dataclass(frozen=True)
class QuickstartResult:
    """Everything; `left_out` says why a stage is missing. Answers are by the names of models.

    Where it `has_gone_on`, `seconds` are those of what was left to do.
    """

    settings: QuickstartSettings
    out: Path
    text: TextSource
    pretraining: PretrainingResult
    reviews: ReviewScores | None
    reviews_note: str
    masks: Sequence[MaskQuestion]
    orders: Sequence[OrderQuestion]
    answers: Mapping[str, ModelAnswers]
    layers: Page
    left_out: Sequence[str]
    seconds: float
    has_gone_on: bool = False

    def list_values(self) -> dict[str, Any]:
        """The figures for a machine."""
        run, reviews = self.pretraining, self.reviews
        return {
            "text": {"name": self.text.name, "is_fallback": self.text.is_fallback},
            "pretraining": {
                "run": str(run.run_dir),
                "parameters": run.num_parameters,
                "steps": run.num_steps,
                "pieces": run.num_tokens,
                "seconds": round(run.seconds, 1),
                "resumed_at": list(run.resumed_at),
                "unigram_loss": run.unigram_loss,
                "start": run.start.figures,
                "end": run.end.figures,
            },
            "reviews": None
            if reviews is None
            else {
                "accuracy": {name: vars(score.accuracy) for name, score in reviews.scores.items()},
                "gain": vars(reviews.gain),
            },
            "left_out": list(self.left_out),
            "seconds": round(self.seconds, 1),
        }
