"""Tensors under the other side's names ↔ tensors under ours: nothing is lost and nothing left over."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from albert.errors import WeightsError
from albert.model.config import ModelConfig
from albert.pretrained.huggingface import OUR_KEY, FolderConfig
from albert.pretrained.names import COPIES, NameLayout, NamePair, iter_names

_PREFIXES = {"albert": "albert.", "bert": "bert."}
# Buffers and old spellings that older files of `transformers` hold.
_BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")
_OLD_SPELLINGS = ((".LayerNorm.gamma", ".LayerNorm.weight"), (".LayerNorm.beta", ".LayerNorm.bias"))
# What weights are saved in; whole numbers, and the 8 bits of quantised models, mean nothing by themselves.
_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
_MAP = "encoder.embeddings.map"
# Heads that share the name `classifier` on the other side; a folder has room for one of them.
SHARED_CLASSIFIERS = ("classification", "token_classification", "choice")


def to_ours(tensors: Mapping[str, Tensor], folder: FolderConfig, *, source: str) -> dict[str, Tensor]:
    """Rename to our names. Repeated tensors must agree; a name that the table does not know is an error.

    Refused, too: what holds no floating point numbers, and one that is not a number or is infinite.
    """
    theirs = _respell(tensors, folder.layout)
    for name, tensor in theirs.items():
        _check_numbers(name, tensor, source)
    _drop_aliases(theirs, folder.layout, source)
    ours: dict[str, Tensor] = {}
    origin: dict[str, str] = {}
    for pair in _iter_pairs(folder):
        if pair.theirs not in theirs:
            continue
        tensor = theirs.pop(pair.theirs)
        tensor = tensor.t() if pair.is_transposed else tensor
        if pair.ours in ours and not torch.equal(ours[pair.ours], tensor):
            raise WeightsError(
                f"{source}: {origin[pair.ours]} and {pair.theirs} differ, but sharing={folder.model.sharing} "
                f"makes them one; remove {OUR_KEY} from its config.json to load them apart"
            )
        ours.setdefault(pair.ours, tensor)
        origin.setdefault(pair.ours, pair.theirs)
    if theirs:
        raise WeightsError(
            f"{source}: unknown tensors {_list(theirs)}; it is no {folder.layout} of this shape: take the "
            "config.json and the weights of one model"
        )
    _drop_identity_map(ours, folder.model, source)
    return ours


def to_theirs(tensors: Mapping[str, Tensor], folder: FolderConfig) -> dict[str, Tensor]:
    """Rename to the other side's names, repeating what it cannot share."""
    ours = dict(tensors)
    if folder.layout == "albert" and f"{_MAP}.weight" not in ours:
        # Their class has a map at E = H too: the identity leaves every number as it is.
        word = ours["encoder.embeddings.word.weight"]
        width = folder.model.hidden_size
        ours[f"{_MAP}.weight"] = torch.eye(width, dtype=word.dtype)
        ours[f"{_MAP}.bias"] = torch.zeros(width, dtype=word.dtype)
    theirs = {pair.theirs: ours[pair.ours] for pair in _iter_pairs(folder) if pair.ours in ours}
    left = set(ours) - {pair.ours for pair in _iter_pairs(folder)}
    assert not left, f"the table of names lacks {_list(left)}"
    return theirs


def _iter_pairs(folder: FolderConfig) -> Iterable[NamePair]:
    """The table for this folder; of the heads that share the name `classifier`, the one it means."""
    unmeant = tuple(f"heads.{head}." for head in SHARED_CLASSIFIERS if head != folder.classifier_head)
    pairs = iter_names(folder.model, folder.layout)
    return [pair for pair in pairs if not pair.ours.startswith(unmeant)]


def _respell(tensors: Mapping[str, Tensor], layout: NameLayout) -> dict[str, Tensor]:
    """Undo what differs between files of one layout: an absent prefix, old norms, buffers."""
    prefix = _PREFIXES.get(layout, "")
    bare = bool(prefix) and not any(name.startswith(prefix) for name in tensors)
    respelled = {}
    for name, tensor in tensors.items():
        if name.endswith(_BUFFERS):
            continue
        for old, new in _OLD_SPELLINGS:
            name = name.replace(old, new) if name.endswith(old) else name
        if bare and name.startswith(("embeddings.", "encoder.", "pooler.")):
            name = prefix + name
        respelled[name] = tensor
    return respelled


def _check_numbers(name: str, tensor: Tensor, source: str) -> None:
    if tensor.dtype not in _FLOATS:
        raise WeightsError(
            f"{source}: {name} is of {tensor.dtype}, and weights are of {', '.join(map(str, _FLOATS))}; save "
            "the model in one of them"
        )
    if not tensor.numel():
        return
    limit = torch.finfo(torch.float32).max
    lowest, highest = torch.aminmax(tensor)  # NaN where there is one, in a twentieth of isfinite's time
    if not (float(lowest) >= -limit and float(highest) <= limit):
        raise WeightsError(
            f"{source}: {name} holds a number that is NaN or beyond {limit:.3g}, so that every answer would "
            "be NaN; fetch the file again, or take a checkpoint from before the training diverged"
        )


def _drop_aliases(theirs: dict[str, Tensor], layout: NameLayout, source: str) -> None:
    for alias, original in COPIES[layout].items():
        if alias not in theirs:
            continue
        if original not in theirs and alias.endswith("bias"):
            theirs[original] = theirs.pop(alias)
            continue
        tensor = theirs.pop(alias)
        if original in theirs and not torch.equal(tensor, theirs[original]):
            raise WeightsError(
                f"{source}: {alias} differs from {original}; the word table is tied here, so a model "
                "with its own output table cannot be read"
            )


def _drop_identity_map(ours: dict[str, Tensor], config: ModelConfig, source: str) -> None:
    if config.maps_embeddings or not {f"{_MAP}.weight", f"{_MAP}.bias"} <= set(ours):
        return
    weight, bias = ours.pop(f"{_MAP}.weight"), ours.pop(f"{_MAP}.bias")
    if not torch.equal(weight, torch.eye(len(weight), dtype=weight.dtype)) or bias.any():
        raise WeightsError(
            f"{source}: has_embedding_map is false but the map is not the identity; "
            "remove has_embedding_map from its config.json"
        )


def _list(names: Iterable[str], most: int = 8) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more
