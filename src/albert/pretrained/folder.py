"""Load a model folder with its vocabulary, and save one with its card."""

import dataclasses
import hashlib
import os
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from albert import __version__
from albert.errors import FileFormatError, InputError, WeightsError, first_line
from albert.files import (
    atomic_dir,
    atomic_path,
    default_cache_dir,
    hold,
    read_json,
    read_text,
    reject_other_content,
    write_json,
    write_text,
    writing_to,
)
from albert.model.albert_model import AlbertModel, build_model
from albert.model.config import Initialization, ModelConfig
from albert.model.heads import HEADS, LABELED_HEADS, Heads, check_head
from albert.model.initialization import init_weights
from albert.model.int8 import is_quantized
from albert.pretrained import tensorflow
from albert.pretrained.hub import COMPANIONS, hash_model_files, resolve_source
from albert.pretrained.huggingface import (
    CARD_NAME,
    CONFIG_NAME,
    ONNX_NAME,
    PICKLED_NAME,
    SAFETENSORS_NAME,
    FolderConfig,
    choose_layout,
    format_config,
    parse_config,
)
from albert.pretrained.int8 import INT8_CONFIG_NAME, INT8_NAME, Int8Config, apply_scales, read_int8_config
from albert.pretrained.names import SHARED_CLASSIFIERS, to_ours, to_theirs
from albert.text.folder import has_tokenizer, load_tokenizer, save_tokenizer
from albert.text.tokenizer import Tokenizer

WEIGHTS_DIR = "weights"  # in the cache
DROPOUT_KEYS = frozenset({"hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout_prob"})
# The files of a model folder: those that we write, and those that other libraries add.
MODEL_FILES = frozenset(
    {
        *(*COMPANIONS, SAFETENSORS_NAME, PICKLED_NAME, INT8_NAME, INT8_CONFIG_NAME),
        *("generation_config.json", ".gitattributes"),
    }
)


class NewWeightsWarning(UserWarning):
    """Some requested parts are not in the folder and are initialized at random."""


@dataclass(frozen=True)
class Pretrained:
    """A loaded folder: the model, its config with labels, its path, and the newly initialized parts."""

    model: AlbertModel
    folder_config: FolderConfig
    path: Path
    new_parts: tuple[str, ...] = ()
    int8: Int8Config | None = None  # of a folder with int8 weights, which are in float here

    @property
    def config(self) -> ModelConfig:
        return self.model.config


def load_model(
    source: str | Path,
    *,
    heads: Heads | None = None,
    revision: str | None = None,
    device: torch.device | str = "cpu",
    seed: int = 0,
    gradient_checkpointing: bool = False,
    dropouts: Mapping[str, float] | None = None,
    has_fresh_heads: bool = False,
    is_shared: bool = False,
) -> Pretrained:
    """Load a model in evaluation mode, as float32.

    `source` is a folder, run, weights file, released name or hub name. `heads` default to those of the
    folder; heads that are missing or have another number of outputs, and a pooler that they need, are
    initialized from `seed` with a NewWeightsWarning. `dropouts` replace those of config.json. `is_shared`
    maps the weights from a file in the cache, so that all processes of a machine share one copy.
    """
    path = resolve_source(source, revision=revision)
    folder = _read_config(path)
    requested = [name for name in heads or () if name in SHARED_CLASSIFIERS]
    if not folder.is_classifier_declared and len(requested) == 1:
        folder = dataclasses.replace(folder, classifier_head=requested[0])
    if dropouts:
        assert dropouts.keys() <= DROPOUT_KEYS
        folder = dataclasses.replace(folder, model=folder.model.model_copy(update=dict(dropouts)))
    ours = _map_tensors(path, folder) if is_shared else _copy_tensors(path, folder)
    if has_fresh_heads:
        ours = {name: tensor for name, tensor in ours.items() if not name.startswith("heads.")}
    chosen = find_heads(ours) if heads is None else dict(heads)
    has_pooler = any(HEADS[check_head(name)].is_pooled for name in chosen)
    with torch.device("meta"):
        model = AlbertModel(
            folder.model, heads=chosen, has_pooler=has_pooler or (heads is None and "pooler.weight" in ours)
        )
    new_parts = fill_model(model, ours, source=str(path), seed=seed)
    model.encoder.gradient_checkpointing = gradient_checkpointing
    if new_parts:
        warnings.warn(
            f"{path}: has no weights for {', '.join(new_parts)}; initialized at random: train before use",
            NewWeightsWarning,
            stacklevel=2,
        )
    int8 = read_int8_config(path if path.is_dir() else path.parent)
    return Pretrained(model.to(device).eval(), folder, path, new_parts, int8)


def _read_config(path: Path) -> FolderConfig:
    if tensorflow.is_tensorflow_source(path):
        return tensorflow.read_tensorflow_config(path)
    config_path = (path if path.is_dir() else path.parent) / CONFIG_NAME
    return parse_config(read_json(config_path), source=config_path)


def _copy_tensors(path: Path, folder: FolderConfig) -> dict[str, Tensor]:
    """Read the weights with our names, as float32."""
    if tensorflow.is_tensorflow_source(path):
        tensors = tensorflow.read_tensorflow_weights(path)
    else:
        tensors = read_weights(find_weights(path) if path.is_dir() else path)
    # Copied, because safetensors maps the file: overwriting it must not change the model.
    return {
        name: tensor.to(torch.float32, copy=True).contiguous()
        for name, tensor in to_ours(tensors, folder, source=str(path)).items()
    }


def _map_tensors(path: Path, folder: FolderConfig) -> dict[str, Tensor]:
    """Map the weights from a float32 copy in the cache, which the first process writes."""
    content = repr([hash_model_files(path), folder]).encode()
    file = default_cache_dir() / WEIGHTS_DIR / f"{hashlib.sha256(content).hexdigest()[:32]}.safetensors"
    hint = "free disk space, or set ALBERT_CACHE to another folder"
    with writing_to(file.parent, hint=hint), hold(file.with_suffix(".lock"), busy=None):
        if not file.exists():
            with atomic_path(file) as temporary:
                save_tensors(temporary, _copy_tensors(path, folder))
    return read_weights(file)


def find_heads(tensors: Mapping[str, Tensor]) -> dict[str, int | None]:
    """Find the heads in the weights, with the number of outputs where it is not fixed."""
    names = {name.split(".")[1] for name in tensors if name.startswith("heads.")}
    return {head: _count_outputs(head, tensors) for head in HEADS if head in names}


def _count_outputs(head: str, tensors: Mapping[str, Tensor]) -> int | None:
    name = f"heads.{head}.{HEADS[head].counted}"
    if HEADS[head].num_outputs is not None:
        return None
    if name not in tensors:
        raise WeightsError(f"the weights have parts of the {head} head but no {name}; download them again")
    return len(tensors[name])


def fill_model(
    model: AlbertModel, tensors: Mapping[str, Tensor], *, source: str, seed: int
) -> tuple[str, ...]:
    """Load tensors into a meta model; initialize and return parts that are missing or of another size."""
    expected = dict(model.state_dict())
    heads = find_heads(tensors)
    parts = ("pooler", *(f"heads.{head}" for head in HEADS))
    replaced = {
        f"heads.{head}"
        for head, count in heads.items()
        if head in model.heads and count != _count_outputs(head, expected)
    }
    kept = {
        name: tensor
        for name, tensor in tensors.items()
        if name in expected or not name.startswith(tuple(f"{part}." for part in parts))
        if not name.startswith(tuple(f"{part}." for part in replaced))
    }
    new_parts = tuple(
        part
        for part in parts
        if any(name.startswith(f"{part}.") for name in expected)
        and not any(name.startswith(f"{part}.") for name in kept)
    )
    fresh = tuple(f"{part}." for part in new_parts)
    missing = sorted(name for name in expected if name not in kept and not name.startswith(fresh))
    extra = sorted(name for name in kept if name not in expected)
    if missing or extra:
        problem = f"lacks {', '.join(missing)}" if missing else f"has {', '.join(extra)}"
        raise WeightsError(
            f"{source}: {problem}; the weights do not belong to this config.json: download both again"
        )
    for name, tensor in kept.items():
        if tensor.shape != expected[name].shape:
            raise WeightsError(
                f"{source}: {name} has the shape {list(tensor.shape)}, but config.json needs "
                f"{list(expected[name].shape)}; download both again"
            )
    generator = torch.Generator().manual_seed(seed)
    for part in new_parts:
        module = model.get_submodule(part).to_empty(device="cpu")
        init_weights(module, std=model.config.initializer_range, generator=generator)
    model.load_state_dict(kept, strict=False, assign=True)
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    return new_parts


def find_weights(folder: Path) -> Path:
    """Find the weights file of a folder; safetensors are preferred to pickled weights."""
    for name in (SAFETENSORS_NAME, PICKLED_NAME, INT8_NAME):
        if (folder / name).is_file():
            return folder / name
    if (folder / ONNX_NAME).is_file():
        raise FileFormatError(f"{folder}: has only {ONNX_NAME}; choose the backend onnx, or give its source")
    raise FileFormatError(f"{folder}: has no {SAFETENSORS_NAME} or {PICKLED_NAME}; give a model folder")


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a file; raise a FileFormatError if it is damaged or contains anything else."""
    try:
        path.open("rb").close()  # else the libraries below report it as damaged
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    if path.suffix not in (".bin", ".pt", ".pth"):
        try:
            return apply_scales(load_file(path))
        except SafetensorError as error:
            raise FileFormatError(
                f"{path}: truncated, or not a safetensors file; download or save it again"
            ) from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle can raise any error
        # Only the type: torch's message advises to load the file without weights_only.
        raise FileFormatError(
            f"{path}: truncated, or has more than weights ({type(error).__name__}); "
            "download it again, or save it as safetensors"
        ) from error
    if not isinstance(values, dict) or not all(isinstance(value, Tensor) for value in values.values()):
        raise FileFormatError(f"{path}: not a state_dict; save the model's state_dict")
    return values


def write_weights(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write a safetensors file that `transformers` reads, atomically."""
    # Cloned, because safetensors rejects tensors that share memory.
    plain = {name: tensor.detach().to("cpu").contiguous().clone() for name, tensor in tensors.items()}
    with atomic_path(path) as temporary:
        save_tensors(temporary, plain, metadata={"format": "pt"})


def save_tensors(path: Path, tensors: dict[str, Tensor], *, metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file; raise an OSError if that fails."""
    try:
        save_file(tensors, path, metadata=metadata)
    except SafetensorError as error:  # the message of a system error ends with its number
        number = re.search(r"\(os error (\d+)\)", str(error))
        reason = first_line(error) if number is None else os.strerror(int(number[1]))
        raise OSError(None if number is None else int(number[1]), reason, str(path)) from error


def save_model(
    path: Path,
    model: AlbertModel,
    *,
    tokenizer: Tokenizer | None = None,
    labels: Iterable[str] = (),
    problem_type: str | None = None,
    card: str | None = None,
    dtype: torch.dtype = torch.float32,
    extras: Mapping[str, str] | None = None,
) -> None:
    """Write a model folder that `transformers` opens, atomically, replacing one that exists.

    `labels` and `problem_type` are written to config.json, `card` to README.md, `extras` to files by name.
    """
    path = Path(path)
    if is_quantized(model):
        raise InputError("an int8 model cannot be saved; copy its folder, or load the model with float32")
    reject_other_content(path, MODEL_FILES, doing="saving a model there")
    heads = set(model.heads)
    classifiers = heads & set(SHARED_CLASSIFIERS)
    if len(classifiers) > 1:
        raise InputError(f"a folder can hold one of {', '.join(sorted(classifiers))}; save them separately")
    if tokenizer is not None:
        check_vocabulary(model.config, tokenizer)
    folder = FolderConfig(
        model=model.config,
        layout=choose_layout(model.config),
        classifier_head=next(iter(classifiers), "classification"),
        labels=_check_labels(model, tuple(labels)),
        problem_type=problem_type,
    )
    tensors = {name: _cast(name, tensor, dtype) for name, tensor in model.state_dict().items()}
    values = format_config(folder, heads=heads)
    if tokenizer is not None and "bos_token_id" in values:
        values |= {"bos_token_id": tokenizer.cls_id, "eos_token_id": tokenizer.sep_id}
    with atomic_dir(path) as temporary:
        write_weights(temporary / SAFETENSORS_NAME, to_theirs(tensors, folder))
        write_json(temporary / CONFIG_NAME, values)
        if tokenizer is not None:
            save_tokenizer(tokenizer, temporary, model_max_length=model.config.max_position_embeddings)
        write_text(temporary / CARD_NAME, card or format_card(model))
        for name, text in (extras or {}).items():
            write_text(temporary / name, text)


def _cast(name: str, tensor: Tensor, dtype: torch.dtype) -> Tensor:
    cast = tensor.to(dtype)
    if dtype != tensor.dtype and not bool(cast.isfinite().all()) and bool(tensor.isfinite().all()):
        largest = float(tensor.abs().max())
        raise WeightsError(
            f"{name}: {largest:g} exceeds the largest {dtype}, {torch.finfo(dtype).max:g}; omit --half"
        )
    return cast


def _check_labels(model: AlbertModel, labels: tuple[str, ...]) -> tuple[str, ...]:
    for head in LABELED_HEADS:
        if head in model.heads:
            count = model.heads[head].get_parameter("linear.weight").shape[0]
            labels = labels or tuple(f"LABEL_{i}" for i in range(count))
            if count != len(labels):
                raise InputError(f"{len(labels)} labels for a {head} head of {count} outputs; give {count}")
    return labels


def save_untrained(source: Path, out: Path, *, seed: int, start: Initialization) -> None:
    """Write a model folder with the config and the vocabulary of `source` and new weights."""
    config = load_model(source, heads={}).config
    model = build_model(config, heads={}, has_pooler=True, seed=seed)
    start.apply(model)
    save_model(out, model, tokenizer=load_vocabulary(source))


def find_vocabulary(path: Path) -> Tokenizer | None:
    """Load the tokenizer of a folder, of the folder of a weights file, or of an original checkpoint."""
    if tensorflow.is_tensorflow_source(path):
        file = tensorflow.find_tensorflow_vocabulary(path)
        return None if file is None else load_tokenizer(file)
    directory = path if path.is_dir() else path.parent
    return load_tokenizer(directory) if has_tokenizer(directory) else None


def load_vocabulary(path: Path) -> Tokenizer:
    """Load the tokenizer; raise a FileFormatError if there is none."""
    tokenizer = find_vocabulary(path)
    if tokenizer is None:
        raise FileFormatError(
            f"{path}: has no vocabulary (spiece.model, vocab.txt, symbols.txt or tokenizer.json); copy that "
            "of its training there, or use albert.load_encoder with ids"
        )
    return tokenizer


def check_vocabulary(config: ModelConfig, tokenizer: Tokenizer) -> None:
    """Raise a WeightsError unless the embedding table has a row per token and few more."""
    size, rows = tokenizer.vocab_size, config.vocab_size
    # Tables are often rounded up to a multiple of 64 or 128; Italian BERT models have a thousand extra rows.
    if size > rows or rows - size >= max(128, rows // 20):
        raise WeightsError(
            f"the vocabulary has {size} tokens and the embedding table {rows} rows; "
            "use the vocabulary that the model was trained with"
        )


def format_card(model: AlbertModel) -> str:
    """Format the README.md of a model: shape, size, heads, and how to open it."""
    config = model.config
    count = sum(parameter.numel() for parameter in model.parameters())
    heads = ", ".join(model.heads) or "none"
    return f"""---
library_name: transformers
tags:
- {"bert" if config.is_bert else "albert"}
---

# A text encoder

| | |
|---|---|
| parameters | {count:,} |
| layers × width | {config.num_hidden_layers} × {config.hidden_size} |
| sharing | {config.sharing}, {config.num_hidden_groups} group(s), {config.inner_group_num} inner block(s) |
| embedding width | {config.embedding_size} |
| vocabulary | {config.vocab_size:,} |
| longest input | {config.max_position_embeddings} tokens |
| heads | {heads} |

Open it with `albert.load(folder)`, or with `AutoModel.from_pretrained(folder)` of `transformers`.

Written by albert {__version__}. Before you share it, describe above its training data and its limits.
"""


def format_rows(rows: Mapping[str, str]) -> str:
    """Format names and values as a Markdown table for a card."""
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())])


def read_card(path: Path) -> str | None:
    """Read the README.md of a model folder; return None if there is none."""
    card = (path if path.is_dir() else path.parent) / CARD_NAME
    return read_text(card) if card.is_file() else None
