"""Read and write files of tensors: safetensors, and pickles with weights only."""

import os
import re
import warnings
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from albert.errors import FileFormatError, first_line
from albert.files import atomic_path
from albert.pretrained.huggingface import PICKLED_NAME, SAFETENSORS_NAME


def find_weights(folder: Path) -> Path:
    """Find the weights file of a folder: safetensors before pickled."""
    for name in (SAFETENSORS_NAME, PICKLED_NAME):
        if (folder / name).is_file():
            return folder / name
    if (folder / f"{SAFETENSORS_NAME}.index.json").exists():
        raise FileFormatError(
            f"{folder}: the weights are in several files; save the model once as one {SAFETENSORS_NAME}"
        )
    raise FileFormatError(f"{folder}: no {SAFETENSORS_NAME} and no {PICKLED_NAME}; is it a model folder?")


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read all tensors of a file; raise a FileFormatError if it is damaged or holds anything else."""
    try:
        path.open("rb").close()  # the libraries below take what cannot be read for what is damaged
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    tensors = _read_pickled(path) if path.suffix in (".bin", ".pt", ".pth") else _read_safetensors(path)
    if not tensors:
        raise FileFormatError(f"{path}: holds no tensors; fetch or save it again")
    return tensors


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        tensors: dict[str, Tensor] = load_file(path)
        return tensors
    except (SafetensorError, OSError, ValueError) as error:
        raise FileFormatError(
            f"{path}: truncated, or no safetensors file ({first_line(error)}); fetch or save it again"
        ) from error


def _read_pickled(path: Path) -> dict[str, Tensor]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what torch suspects of a file, the error below says
            values = torch.load(path, map_location="cpu", weights_only=True)
    # A damaged pickle is a broken program: what it stumbles over (KeyError, IndexError, …) is past listing.
    except Exception as error:
        # The kind alone: torch's own text advises to load the file without this protection.
        raise FileFormatError(
            f"{path}: truncated, or holds more than weights ({type(error).__name__}); "
            "fetch it again, or save it as safetensors"
        ) from error
    if not isinstance(values, dict) or not all(isinstance(value, Tensor) for value in values.values()):
        raise FileFormatError(f"{path}: not a plain table of tensors by name; save the model's state_dict")
    return dict(values)


def write_weights(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write a safetensors file that `transformers` reads, atomically."""
    # Clones: safetensors refuses tensors that share memory, which repeated ones do.
    plain = {name: tensor.detach().to("cpu").contiguous().clone() for name, tensor in tensors.items()}
    with atomic_path(path) as aside:
        save_tensors(aside, plain, metadata={"format": "pt"})


def save_tensors(path: Path, tensors: dict[str, Tensor], *, metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file; raise an OSError where the system cannot write."""
    try:
        save_file(tensors, path, metadata=metadata)
    except SafetensorError as error:  # the system's errors come as its own, with their number at the end
        number = re.search(r"\(os error (\d+)\)", str(error))
        reason = first_line(error) if number is None else os.strerror(int(number[1]))
        raise OSError(None if number is None else int(number[1]), reason, str(path)) from error
