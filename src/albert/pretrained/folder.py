"""Model folders: load a model with its vocabulary, and write one with its card."""

import dataclasses
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from albert import __version__
from albert.errors import FileFormatError, InputError, WeightsError
from albert.files import atomic_dir, read_json, read_text, reject_other_content, write_json, write_text
from albert.model.albert_model import HEADS, AlbertModel, Heads, build_model, check_head, init_weights
from albert.model.config import FreshStart, ModelConfig
from albert.pretrained import tensorflow
from albert.pretrained.hub import resolve_source
from albert.pretrained.huggingface import (
    CARD_NAME,
    CONFIG_NAME,
    PICKLED_NAME,
    SAFETENSORS_NAME,
    SPECIAL_TOKENS_NAME,
    TASK_NAME,
    FolderConfig,
    choose_layout,
    format_config,
    parse_config,
)
from albert.pretrained.names import SHARED_CLASSIFIERS, to_ours, to_theirs
from albert.pretrained.sentence_transformers import SENTENCE_NAMES
from albert.pretrained.weights_file import find_weights, read_weights, write_weights
from albert.text.folder import ADDED_NAME, TOKENIZER_FILES, has_tokenizer, load_tokenizer, save_tokenizer
from albert.text.tokenizer import Tokenizer

DROPOUT_KEYS = frozenset({"hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout_prob"})
# What a model folder may hold: what we write, and what others write beside it.
MODEL_FILES = frozenset(
    {
        CONFIG_NAME, CARD_NAME, SAFETENSORS_NAME, PICKLED_NAME, TASK_NAME, *TOKENIZER_FILES, ADDED_NAME,
        SPECIAL_TOKENS_NAME, "generation_config.json", ".gitattributes", *SENTENCE_NAMES,
    }
)  # fmt: skip


class NewWeightsWarning(UserWarning):
    """Parts that were asked for and that the folder does not hold: they start from random weights."""


@dataclass(frozen=True)
class Pretrained:
    """A loaded folder: the model, what its labels are called, where it lies, and which parts are fresh."""

    model: AlbertModel
    folder_config: FolderConfig
    path: Path
    new_parts: tuple[str, ...] = ()

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
) -> Pretrained:
    """Load a folder, a weights file with its config.json beside it, or a hub name; in evaluation mode.

    `heads=None` loads the heads that the folder has. A head that is asked for and not there, or there with
    another number of outputs, and a pooler that it needs, start fresh from `seed` and are named in a
    warning. Weights come out as float32, in memory of their own. `dropouts` are other probabilities than the
    folder's, by their keys in config.json. With `has_fresh_heads` all heads start fresh.
    """
    path = resolve_source(source, revision=revision)
    folder, tensors = _read(path)
    if heads is not None:
        folder = _prefer_classifier(folder, heads)
    if dropouts:
        assert dropouts.keys() <= DROPOUT_KEYS, "nothing that a weight has the shape of"
        folder = dataclasses.replace(folder, model=folder.model.model_copy(update=dict(dropouts)))
    # Copies: safetensors maps the file, and a file that is written over later must not change the model.
    ours = {
        name: tensor.to(torch.float32, copy=True).contiguous()
        for name, tensor in to_ours(tensors, folder, source=str(path)).items()
        if not (has_fresh_heads and name.startswith("heads."))
    }
    wanted = find_heads(ours) if heads is None else dict(heads)
    has_pooler = any(HEADS[check_head(name)].is_pooled for name in wanted)
    with torch.device("meta"):
        model = AlbertModel(
            folder.model, heads=wanted, has_pooler=has_pooler or (heads is None and "pooler.weight" in ours)
        )
    new_parts = fill_model(model, ours, source=str(path), seed=seed)
    model.encoder.gradient_checkpointing = gradient_checkpointing
    if new_parts:
        warnings.warn(
            f"{path}: no weights for {', '.join(new_parts)}; started fresh, so train before you trust it",
            NewWeightsWarning,
            stacklevel=2,
        )
    return Pretrained(model.to(device).eval(), folder, path, new_parts)


def _read(path: Path) -> tuple[FolderConfig, dict[str, Tensor]]:
    """Configuration and raw tensors of whatever kind of folder or file this is."""
    if tensorflow.is_tensorflow_source(path):
        return tensorflow.read_tensorflow_config(path), tensorflow.read_tensorflow_weights(path)
    config_path = (path if path.is_dir() else path.parent) / CONFIG_NAME
    folder = parse_config(read_json(config_path), source=config_path)
    return folder, read_weights(find_weights(path) if path.is_dir() else path)


def _prefer_classifier(folder: FolderConfig, heads: Heads) -> FolderConfig:
    """`classifier` in a file that declares no architecture means the head that was asked for."""
    asked = [name for name in heads if name in SHARED_CLASSIFIERS]
    if folder.is_classifier_declared or len(asked) != 1:
        return folder
    return dataclasses.replace(folder, classifier_head=asked[0])


def find_heads(tensors: Mapping[str, Tensor]) -> dict[str, int | None]:
    """Find the heads in the weights, with the number of outputs where that is open."""
    names = {name.split(".")[1] for name in tensors if name.startswith("heads.")}
    return {head: _count_outputs(head, tensors) for head in HEADS if head in names}


def _count_outputs(head: str, tensors: Mapping[str, Tensor]) -> int | None:
    kind, name = HEADS[head], f"heads.{head}.{HEADS[head].counted}"
    if kind.num_outputs is not None:
        return None
    if name not in tensors:
        raise WeightsError(f"the weights have a part of the {head} head but no {name}; fetch the file again")
    return len(tensors[name])


def fill_model(
    model: AlbertModel, tensors: Mapping[str, Tensor], *, source: str, seed: int
) -> tuple[str, ...]:
    """Load the tensors into a model on the meta device; return the parts that are initialized instead.

    Parts of the file that the model does not have (a head, an unused pooler) are ignored. A head with another
    number of outputs is initialized: a task with other labels.
    """
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
    if missing:
        raise WeightsError(
            f"{source}: lacks {', '.join(missing)}; the file is incomplete, or of another shape than its "
            "config.json: fetch both again"
        )
    for name, tensor in kept.items():
        if name not in expected:
            raise WeightsError(
                f"{source}: {name} has no place in this model; it is of another shape than its config.json: "
                "fetch both again"
            )
        if tensor.shape != expected[name].shape:
            raise WeightsError(
                f"{source}: {name} is {list(tensor.shape)} and config.json asks for "
                f"{list(expected[name].shape)}; the two are not of one model: fetch both again"
            )
    generator = torch.Generator().manual_seed(seed)
    for part in new_parts:
        module = model.get_submodule(part).to_empty(device="cpu")
        init_weights(module, std=model.config.initializer_range, generator=generator)
    model.load_state_dict(kept, strict=False, assign=True)
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    return new_parts


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
    """Write a folder that `transformers` opens: configuration, weights, tokenizer, card; all or nothing.

    A model folder at `path` is replaced; any other folder raises an InputError.
    """
    path = Path(path)
    reject_other_content(path, MODEL_FILES, doing="saving a model there")
    heads = set(model.heads)
    classifiers = heads & set(SHARED_CLASSIFIERS)
    if len(classifiers) > 1:
        raise InputError(f"a folder has room for one of {', '.join(sorted(classifiers))}; save them apart")
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
    with atomic_dir(path) as aside:
        write_weights(aside / SAFETENSORS_NAME, to_theirs(tensors, folder))
        write_json(aside / CONFIG_NAME, values)
        if tokenizer is not None:
            save_tokenizer(tokenizer, aside, model_max_length=model.config.max_position_embeddings)
        write_text(aside / CARD_NAME, card or format_card(model))
        for name, text in (extras or {}).items():
            write_text(aside / name, text)


def _cast(name: str, tensor: Tensor, dtype: torch.dtype) -> Tensor:
    cast = tensor.to(dtype)
    if dtype != tensor.dtype and not bool(cast.isfinite().all()) and bool(tensor.isfinite().all()):
        largest = float(tensor.abs().max())
        raise WeightsError(
            f"{name}: holds {largest:g}, and {dtype} ends at {torch.finfo(dtype).max:g}; leave out --half"
        )
    return cast


def _check_labels(model: AlbertModel, labels: tuple[str, ...]) -> tuple[str, ...]:
    """One label for each output; without any, the names that `transformers` would give them."""
    for head in ("classification", "token_classification"):
        if head in model.heads:
            count = model.heads[head].get_parameter("linear.weight").shape[0]
            labels = labels or tuple(f"LABEL_{i}" for i in range(count))
            if count != len(labels):
                raise InputError(f"{len(labels)} labels for a {head} head of {count} outputs")
    return labels


def save_untrained(source: Path, out: Path, *, seed: int, start: FreshStart) -> None:
    """Write a folder of the same config and vocabulary with fresh weights, initialized as in its recipe."""
    config = load_model(source, heads={}).config
    fresh = build_model(config, heads={}, has_pooler=True, seed=seed)
    start.apply(fresh)
    save_model(out, fresh, tokenizer=load_vocabulary(source))


def find_vocabulary(path: Path) -> Tokenizer | None:
    """Load the tokenizer of a folder, of the folder around a weights file, or of an original checkpoint."""
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
            f"{path}: has no vocabulary (spiece.model, vocab.txt, symbols.txt or tokenizer.json); copy the "
            "one it was trained with there, or use albert.load_encoder with ids"
        )
    return tokenizer


def check_vocabulary(config: ModelConfig, tokenizer: Tokenizer) -> None:
    """Raise a WeightsError if vocabulary and embedding table do not fit; the table may be a little longer."""
    pieces, rows = tokenizer.vocab_size, config.vocab_size
    # Tables are often rounded up to a multiple of 64 or 128; the Italian BERTs have a thousand rows to spare.
    if pieces > rows or rows - pieces >= max(128, rows // 20):
        raise WeightsError(
            f"the vocabulary has {pieces} pieces and the embedding table {rows} rows; "
            "use the vocabulary that the model was trained with"
        )


def format_card(model: AlbertModel) -> str:
    """Format the README.md of a model: shape, size, heads and how to open it."""
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
| longest input | {config.max_position_embeddings} pieces |
| heads | {heads} |

Open it with `albert.load(folder)`, or with `AutoModel.from_pretrained(folder)` of `transformers`.

Written by albert {__version__}. What else it was trained on, and its limits, only you can say: do so above
before you share it.
"""


def format_rows(rows: Mapping[str, str]) -> str:
    """Format a table of names and values for a card."""
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())])


def read_card(path: Path) -> str | None:
    """What the folder of a model, or of its weights file, says of itself: data, scores, license."""
    card = (path if path.is_dir() else path.parent) / CARD_NAME
    return read_text(card) if card.is_file() else None
