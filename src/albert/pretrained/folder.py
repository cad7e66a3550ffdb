"""Model folders: a path or a hub name comes in, a model goes out; and a model back into a folder."""

import dataclasses
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from albert.errors import InputError, WeightsError
from albert.files import atomic_dir, read_json, write_json, write_text
from albert.model.albert_model import HEADS, AlbertModel, Heads, check_head, resolve_outputs
from albert.model.config import ModelConfig
from albert.model.init import init_weights
from albert.pretrained import tensorflow
from albert.pretrained.card import format_card
from albert.pretrained.hub import resolve_source
from albert.pretrained.huggingface import FolderConfig, choose_layout, format_config, parse_config
from albert.pretrained.translate import to_ours, to_theirs
from albert.pretrained.weights_file import SAFETENSORS_NAME, find_weights, read_weights, write_weights
from albert.text.folder import save_tokenizer
from albert.text.tokenizer import Tokenizer

CONFIG_NAME = "config.json"
CARD_NAME = "README.md"


class NewWeightsWarning(UserWarning):
    """Parts that were asked for and that the folder does not hold: they start from random weights."""


@dataclass(frozen=True)
class Pretrained:
    """A loaded folder: the model, what its labels are called, where it lies, and which parts are fresh."""

    model: AlbertModel
    folder: FolderConfig
    path: Path
    new_parts: tuple[str, ...] = ()

    @property
    def config(self) -> ModelConfig:
        """The model's shape."""
        return self.model.config


def load_model(
    source: str | Path,
    *,
    heads: Heads | None = None,
    revision: str | None = None,
    device: torch.device | str = "cpu",
    seed: int = 0,
) -> Pretrained:
    """Load a folder, a weights file with its config.json beside it, or a hub name; in evaluation mode.

    `heads=None` loads the heads that the folder has. A head that is asked for and not there, and a pooler
    that it needs, start fresh from `seed` and are named in a warning. Weights come out as float32.
    """
    path = resolve_source(source, revision=revision)
    folder, tensors = _read(path)
    if heads is not None:
        folder = _prefer_classifier(folder, heads)
    ours = {
        name: tensor.to(torch.float32) for name, tensor in to_ours(tensors, folder, source=str(path)).items()
    }
    found = _find_heads(ours)
    wanted = found if heads is None else dict(heads)
    has_pooler = "pooler.weight" in ours or any(HEADS[check_head(name)].is_pooled for name in wanted)
    with torch.device("meta"):
        model = AlbertModel(folder.model, heads=wanted, has_pooler=has_pooler)
    new_parts = _fill(model, ours, unwanted=set(found) - set(wanted), source=str(path), seed=seed)
    if new_parts:
        warnings.warn(
            f"{path}: no weights for {', '.join(new_parts)}; started fresh, so train before you trust it",
            NewWeightsWarning,
            stacklevel=2,
        )
    return Pretrained(model.to(device).eval(), folder, path, new_parts)


def _read(path: Path) -> tuple[FolderConfig, dict[str, Tensor]]:
    """Configuration and raw tensors of whatever kind of folder or file this is."""
    directory = path if path.is_dir() else path.parent
    if path.is_dir() and tensorflow.is_tensorflow_dir(path):
        return tensorflow.read_tensorflow_config(path), tensorflow.read_tensorflow_weights(path)
    config_path = directory / CONFIG_NAME
    folder = parse_config(read_json(config_path), source=config_path)
    return folder, read_weights(find_weights(path) if path.is_dir() else path)


def _prefer_classifier(folder: FolderConfig, heads: Heads) -> FolderConfig:
    """`classifier` in a file without a declared architecture means the head that was asked for."""
    asked = [name for name in heads if name in ("classification", "token_classification", "choice")]
    return dataclasses.replace(folder, classifier_head=asked[0]) if len(asked) == 1 else folder


def _find_heads(ours: dict[str, Tensor]) -> dict[str, int | None]:
    """The heads that the weights hold, with the number of outputs where that is open."""
    names = {name.split(".")[1] for name in ours if name.startswith("heads.")}
    return {
        head: None if kind.num_outputs is not None else len(ours[f"heads.{head}.linear.weight"])
        for head, kind in HEADS.items()
        if head in names
    }


def _fill(
    model: AlbertModel, ours: dict[str, Tensor], *, unwanted: set[str], source: str, seed: int
) -> tuple[str, ...]:
    """Put the tensors into the model; return the parts that had none and were drawn afresh."""
    dropped = tuple(f"heads.{head}." for head in unwanted)
    tensors = {name: tensor for name, tensor in ours.items() if not name.startswith(dropped)}
    expected = dict(model.state_dict())
    new_parts = [
        part
        for part in ("pooler", *(f"heads.{head}" for head in model.heads))
        if any(name.startswith(f"{part}.") for name in expected)
        and not any(name.startswith(f"{part}.") for name in tensors)
    ]
    fresh = tuple(f"{part}." for part in new_parts)
    missing = sorted(name for name in expected if name not in tensors and not name.startswith(fresh))
    if missing:
        raise WeightsError(
            f"{source}: lacks {', '.join(missing)}; the file is incomplete, or of another shape than its "
            "config.json: fetch both again"
        )
    for name, tensor in tensors.items():
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
    model.load_state_dict(tensors, strict=False, assign=True)
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    return tuple(new_parts)


def save_model(
    path: Path,
    model: AlbertModel,
    *,
    tokenizer: Tokenizer | None = None,
    labels: Iterable[str] = (),
    problem_type: str | None = None,
    card: str | None = None,
    dtype: torch.dtype = torch.float32,
) -> None:
    """Write a folder that `transformers` opens: configuration, weights, tokenizer, card; all or nothing."""
    heads = set(model.heads)
    classifiers = heads & {"classification", "token_classification", "choice"}
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
    tensors = {name: tensor.to(dtype) for name, tensor in model.state_dict().items()}
    with atomic_dir(Path(path)) as aside:
        write_weights(aside / SAFETENSORS_NAME, to_theirs(tensors, folder))
        write_json(aside / CONFIG_NAME, format_config(folder, heads=heads))
        if tokenizer is not None:
            save_tokenizer(tokenizer, aside)
        write_text(aside / CARD_NAME, card or format_card(model))


def _check_labels(model: AlbertModel, labels: tuple[str, ...]) -> tuple[str, ...]:
    for head in ("classification", "token_classification"):
        if head in model.heads and labels:
            count = model.heads[head].get_parameter("linear.weight").shape[0]
            if count != resolve_outputs(head, len(labels)):
                raise InputError(f"{len(labels)} labels for a {head} head of {count} outputs")
    return labels


def check_vocabulary(config: ModelConfig, tokenizer: Tokenizer) -> None:
    """Refuse a vocabulary that is not the one of the embedding table; a table may be a little longer."""
    pieces, rows = tokenizer.vocab_size, config.vocab_size
    # Tables are often rounded up to a multiple of 64 or 128.
    if pieces > rows or rows - pieces >= 128:
        raise WeightsError(
            f"the vocabulary has {pieces} pieces and the embedding table {rows} rows; "
            "use the vocabulary that the model was trained with"
        )
