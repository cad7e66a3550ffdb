"""ALBERT in PyTorch: pretraining, fine-tuning, evaluation and prediction.

Public names are imported on first use, because importing torch takes seconds.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from albert.inference.predictor import Predictor
    from albert.inference.sequence_encoder import SequenceEncoder, load_encoder
    from albert.integrations.accelerate import accelerate
    from albert.tasks.evaluate import evaluate
    from albert.tasks.finetune import finetune
    from albert.tasks.predictor import TaskPredictor, load
    from albert.threads import tune_threads
    from albert.training.pretrain import distill, pretrain

__version__ = "0.1.0"
__all__ = [
    "Predictor",
    "SequenceEncoder",
    "TaskPredictor",
    "__version__",
    "accelerate",
    "distill",
    "evaluate",
    "finetune",
    "load",
    "load_encoder",
    "pretrain",
    "tune_threads",
]

_MODULES = {
    "load": "albert.tasks.predictor",
    "TaskPredictor": "albert.tasks.predictor",
    "Predictor": "albert.inference.predictor",
    "load_encoder": "albert.inference.sequence_encoder",
    "SequenceEncoder": "albert.inference.sequence_encoder",
    "accelerate": "albert.integrations.accelerate",
    "distill": "albert.training.pretrain",
    "pretrain": "albert.training.pretrain",
    "finetune": "albert.tasks.finetune",
    "evaluate": "albert.tasks.evaluate",
    "tune_threads": "albert.threads",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'albert' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
