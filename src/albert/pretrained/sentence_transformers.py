"""The files by which sentence-transformers opens a folder as an embedding model.

They are written as its early versions wrote them, which the later ones read too. The vector of a text is the
mean over all its tokens, [CLS] and [SEP] among them, at length 1.
"""

from pathlib import Path
from typing import Any

from albert.files import format_json, read_json, read_text
from albert.model.config import ModelConfig

MODULES_NAME = "modules.json"
_CONFIG_NAME = "sentence_bert_config.json"
_KINDS = ("Transformer", "Pooling", "Normalize")
_POOLING_DIR, _NORMALIZE_DIR = "1_Pooling", "2_Normalize"
_OUR_POOLINGS = {"mean_tokens": "mean", "cls_token": "cls"}
# What these files, and those that sentence-transformers writes in their place, are called in a folder.
SENTENCE_NAMES = (
    MODULES_NAME,
    _CONFIG_NAME,
    "config_sentence_transformers.json",
    _POOLING_DIR,
    _NORMALIZE_DIR,
)


def format_sentence_files(config: ModelConfig, *, max_length: int) -> dict[str, str]:
    """What is written, by name within the folder; texts are cut at `max_length` pieces, borders included."""
    limit = min(max_length, config.max_position_embeddings)
    pooling = {f"pooling_mode_{name}": False for name in ("cls_token", "max_tokens", "mean_sqrt_len_tokens")}
    values: dict[str, Any] = {
        MODULES_NAME: [
            _describe_module(0, "", "Transformer"),
            _describe_module(1, _POOLING_DIR, "Pooling"),
            _describe_module(2, _NORMALIZE_DIR, "Normalize"),  # it has no file of its own
        ],
        _CONFIG_NAME: {
            "max_seq_length": limit,
            "do_lower_case": False,
            "model_args": {"add_pooling_layer": False},  # else it warns of a pooler that nothing reads
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
    """What a folder of sentence-transformers has beyond encoder, pooling and normalising, by its paths."""
    return [name for name, kind in _read_modules(folder).items() if kind not in _KINDS]


def is_normalising(folder: Path) -> bool:
    """Whether the folder of an embedding model says that its vectors have the length 1."""
    return "Normalize" in _read_modules(folder).values()


def _read_modules(folder: Path) -> dict[str, str]:
    """The modules that a folder lists, by their paths: which class each is."""
    path = folder / MODULES_NAME
    modules = read_json(path) if path.is_file() else []
    described = [each for each in modules if isinstance(each, dict)] if isinstance(modules, list) else []
    kinds = {str(each.get("path") or each.get("name")): str(each.get("type")) for each in described}
    return {name: kind.rpartition(".")[2] for name, kind in kinds.items()}


def read_sentence_files(folder: Path) -> dict[str, str]:
    """The files of a folder that say how its vectors are made, by name; without any there are none.

    Where they name a module that is not read here, the list of modules stays behind: it would promise that.
    """
    names = [name for name in SENTENCE_NAMES if name != MODULES_NAME or not find_other_modules(folder)]
    places = [folder / name for name in names]
    files = [file for place in places for file in (place, *place.rglob("*.json")) if file.is_file()]
    return {file.relative_to(folder).as_posix(): read_text(file) for file in files}


def read_max_length(folder: Path) -> int | None:
    """At how many pieces the folder of an embedding model says that texts are cut, if it is one."""
    path = folder / _CONFIG_NAME
    values = read_json(path) if path.is_file() else {}
    found = values.get("max_seq_length") if isinstance(values, dict) else None
    return found if isinstance(found, int) and found > 2 else None


def read_pooling(folder: Path) -> str | None:
    """How the folder of an embedding model says that a text's tokens become one vector, if it is one.

    "mean" and "cls" as ours; what we have not is called as the folder calls it, as in max_tokens.
    """
    path = folder / _POOLING_DIR / "config.json"
    values = read_json(path) if path.is_file() else {}
    if not isinstance(values, dict):
        return None
    # Early versions have a switch for each, in later ones it is called by name.
    prefix = "pooling_mode_"
    switched = [key.removeprefix(prefix) for key in values if key.startswith(prefix) and values[key] is True]
    named = [values[key] for key in ("pooling_mode",) if isinstance(values.get(key), str)]
    return "+".join(_OUR_POOLINGS.get(mode, mode) for mode in switched + named) or None


def _describe_module(place: int, path: str, name: str) -> dict[str, Any]:
    return {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{name}"}
