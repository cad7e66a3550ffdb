"""Results of quickstarts that never ran: every figure is chosen, so that a test knows what must be said."""

from pathlib import Path
from typing import Any

from albert.app.quickstart.pretraining import Point, PretrainingResult
from albert.app.quickstart.questions import MaskQuestion, ModelAnswers, OrderQuestion
from albert.app.quickstart.result import QuickstartResult
from albert.app.quickstart.scores import ReviewScore, ReviewScores
from albert.app.quickstart.settings import QuickstartSettings
from albert.app.quickstart.sources import TextSource
from albert.inference.predictor import Candidate
from albert.report.content import Chart, Page, Section, Series
from albert.tasks.metrics.intervals import Interval

MASKS = [MaskQuestion("The [MASK] was dark.", "night"), MaskQuestion("A [MASK] of gold.", "ring")]
ORDERS = [
    OrderQuestion("It rained.", "So we stayed in.", False),
    OrderQuestion("She left.", "He came.", True),
]


def make_run(start: float = 8.0, end: float = 5.0, level: float = 6.0, **changes: Any) -> PretrainingResult:
    """A run by the losses of masked words before it and after it, and that of mere frequencies."""
    values = {
        "run_dir": Path("out/pretrain"), "num_pieces": 1000, "vocab_size": 100, "num_parameters": 10,
        "num_steps": 40, "num_tokens": 100, "seconds": 180.0, "unigram_loss": level, "num_asked": 160,
        "resumed_at": (16,), "start": Point(0, {"mlm_loss": start, "sop_accuracy": 0.5}), "training": (),
        "held_out": (Point(40, {"mlm_loss": end, "sop_accuracy": 0.5}),),
    }  # fmt: skip
    return PretrainingResult(**{**values, **changes})


def make_reviews(low: float, value: float, high: float) -> ReviewScores:
    """Reviews by how much better the pretrained model is than the untrained one, and the interval of that."""
    shares = {"majority": 50.0, "bag_of_words": 73.6, "untrained": 70.0, "pretrained": 70.0 + value}
    scores = {
        name: ReviewScore(name, Interval(share, share - 2, share + 2, 0.95), ())
        for name, share in shares.items()
    }
    return ReviewScores(4000, 400, 2800, scores, Interval(value, low, high, 0.95))


def make_layers(*names: str) -> Page:
    """The page of layers, by how it calls the models; the one that was just trained comes first."""
    series = [Series(name, xs=[1.0, 2.0], ys=[3.0, 4.0]) for name in names]
    chart = Chart("layers-l2", "Layers", "layer", "distance", series)
    return Page("Layers", "", [Section("Layer by layer", charts=[chart])])


def make_answers(word: str, *, in_order: float) -> ModelAnswers:
    guesses = (Candidate(word, 7, 0.6), Candidate("", 8, 0.3))
    return ModelAnswers((guesses, guesses), (in_order, in_order))


def make_result(**changes: Any) -> QuickstartResult:
    """A whole quickstart in which everything went well."""
    values = {
        "settings": QuickstartSettings(),
        "out": Path("out"),
        "text": TextSource("the King James Bible", [], None, "the King James Bible, public domain.", "1"),
        "pretraining": make_run(),
        "reviews": make_reviews(0.5, 2.3, 4.1),
        "reviews_note": "sentences of film reviews.",
        "masks": MASKS,
        "orders": ORDERS,
        "answers": {
            "just trained": make_answers("the", in_order=0.8),
            "released: nano": make_answers("night", in_order=0.3),
        },
        "layers": make_layers("pretrain", "nano", "untrained"),
        "left_out": (),
        "seconds": 360.0,
    }
    return QuickstartResult(**{**values, **changes})
