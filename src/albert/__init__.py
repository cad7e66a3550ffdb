"""ALBERT in PyTorch: pretraining, fine-tuning, evaluation and prediction.

Public names are imported on first use, because importing torch takes seconds.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from albert.export.int8 import export_int8
    from albert.export.onnx import export_onnx
    from albert.inference.predictor import Predictor
    from albert.inference.sequence_encoder import SequenceEncoder, load_encoder
    from albert.integrations.accelerate import accelerate
    from albert.tasks.evaluate import evaluate
    from albert.tasks.finetune import finetune
    from albert.tasks.many_texts import embed_files, predict_files
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
    "embed_files",
    "evaluate",
    "export_int8",
    "export_onnx",
    "finetune",
    "load",
    "load_encoder",
    "predict_files",
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
    "embed_files": "albert.tasks.many_texts",
    "predict_files": "albert.tasks.many_texts",
    "export_int8": "albert.export.int8",
    "export_onnx": "albert.export.onnx",
    "tune_threads": "albert.threads",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'albert' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
