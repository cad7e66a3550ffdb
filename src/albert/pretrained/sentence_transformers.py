"""Read and write the files with which sentence-transformers opens a folder as an embedding model.

They are written in the format of its early versions, which later ones also read. The vector of a text is the
mean over all tokens, including [CLS] and [SEP], normalized to length 1.
"""

from pathlib import Path
from typing import Any

from albert.files import format_json, read_json, read_text
from albert.model.config import ModelConfig

MODULES_NAME = "modules.json"
_CONFIG_NAME = "sentence_bert_config.json"
_POOLING_DIR, _NORMALIZE_DIR = "1_Pooling", "2_Normalize"
_MODULES = {"": "Transformer", _POOLING_DIR: "Pooling", _NORMALIZE_DIR: "Normalize"}  # the last has no file
_OUR_POOLINGS = {"mean_tokens": "mean", "cls_token": "cls"}
# All files and folders of this kind, also those that only sentence-transformers writes.
SENTENCE_NAMES = (
    MODULES_NAME,
    _CONFIG_NAME,
    "config_sentence_transformers.json",
    _POOLING_DIR,
    _NORMALIZE_DIR,
)


def format_sentence_files(config: ModelConfig, *, max_length: int) -> dict[str, str]:
    """Format the files by name; texts are truncated to `max_length` tokens, including [CLS] and [SEP]."""
    limit = min(max_length, config.max_position_embeddings)
    pooling = {f"pooling_mode_{name}": False for name in ("cls_token", "max_tokens", "mean_sqrt_len_tokens")}
    values: dict[str, Any] = {
        MODULES_NAME: [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{name}"}
            for i, (path, name) in enumerate(_MODULES.items())
        ],
        _CONFIG_NAME: {
            "max_seq_length": limit,
            "do_lower_case": False,
            "model_args": {"add_pooling_layer": False},  # else a warning about an unused pooler
        },
        "config_sentence_transformers.json": {
            "model_type": "SentenceTransformer",
            "prompts": {},
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
        f"{_POOLING_DIR}/config.json": {
            "word_embedding_dimension": config.hidden_size,
            "pooling_mode_mean_tokens": True,
            **pooling,
        },
    }
    return {name: format_json(value) for name, value in values.items()}


def find_other_modules(folder: Path) -> list[str]:
    """List the paths of modules other than encoder, pooling and normalization."""
    return [name for name, cls in _read_modules(folder).items() if cls not in _MODULES.values()]


def is_normalizing(folder: Path) -> bool:
    """Return whether the folder of an embedding model normalizes its vectors."""
    return "Normalize" in _read_modules(folder).values()


def _read_modules(folder: Path) -> dict[str, str]:
    path = folder / MODULES_NAME
    modules = read_json(path) if path.is_file() else []
    return {each["path"] or each["name"]: each["type"].rpartition(".")[2] for each in modules}


def read_sentence_files(folder: Path) -> dict[str, str]:
    """Read the files of sentence-transformers, without modules.json if a module is not supported."""
    names = [name for name in SENTENCE_NAMES if name != MODULES_NAME or not find_other_modules(folder)]
    paths = [folder / name for name in names]
    files = [file for path in paths for file in (path, *path.rglob("*.json")) if file.is_file()]
    return {file.relative_to(folder).as_posix(): read_text(file) for file in files}


def read_max_length(folder: Path) -> int | None:
    """Return the number of tokens to which an embedding model truncates texts, or None."""
    path = folder / _CONFIG_NAME
    values = read_json(path) if path.is_file() else {}
    found = values.get("max_seq_length")
    return found if found is not None and found > 2 else None


def read_pooling(folder: Path) -> str | None:
    """Return the pooling of an embedding model (mean, cls, or its name in the folder), or None."""
    path = folder / _POOLING_DIR / "config.json"
    values = read_json(path) if path.is_file() else {}
    # Early versions have a boolean for each pooling, later ones a name.
    prefix = "pooling_mode_"
    switched = [key.removeprefix(prefix) for key in values if key.startswith(prefix) and values[key] is True]
    named = [values["pooling_mode"]] if values.get("pooling_mode") else []
    return "+".join(_OUR_POOLINGS.get(mode, mode) for mode in switched + named) or None
