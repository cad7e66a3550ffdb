"""ALBERT (A Lite BERT): pretraining, fine-tuning and inference.

The names below are loaded on first use, so that `import albert` is fast.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from albert.inference.predictor import Predictor
    from albert.inference.sequence_encoder import SequenceEncoder, load_encoder
    from albert.tasks.evaluation import evaluate
    from albert.tasks.finetune import finetune
    from albert.tasks.task_predictor import TaskPredictor, load
    from albert.training.pretrain import pretrain

__version__ = "0.1.0"
__all__ = [
    "Predictor",
    "SequenceEncoder",
    "TaskPredictor",
    "__version__",
    "evaluate",
    "finetune",
    "load",
    "load_encoder",
    "pretrain",
]

_MODULES = {
    "load": "albert.tasks.task_predictor",
    "TaskPredictor": "albert.tasks.task_predictor",
    "Predictor": "albert.inference.predictor",
    "load_encoder": "albert.inference.sequence_encoder",
    "SequenceEncoder": "albert.inference.sequence_encoder",
    "pretrain": "albert.training.pretrain",
    "finetune": "albert.tasks.finetune",
    "evaluate": "albert.tasks.evaluation",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'albert' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
