"""What a model answered, and the hash of its weights under which it is found again."""

import hashlib
from dataclasses import dataclass

from albert.model.albert_model import AlbertModel
from albert.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class ModelAnswers:
    """A model, and its margin for each pair. `identity` is a hash of its shape, weights and vocabulary.

    `heads` are those that it was trained with: they tell its objectives.
    """

    source: str
    identity: str
    sharing: str
    num_hidden_layers: int
    hidden_size: int
    embedding_size: int
    intermediate_size: int
    num_attention_heads: int
    hidden_act: str
    heads: tuple[str, ...]
    num_parameters: int
    vocabulary: str
    seconds: float
    margins: tuple[float | None, ...]


@dataclass(frozen=True)
class Refusal:
    """A model that could not be asked, and why."""

    source: str
    reason: str


def identify_model(model: AlbertModel, tokenizer: Tokenizer) -> str:
    """Equal for equal shapes, weights and vocabularies, wherever they lie.

    The shape as well: a shared block has the same weights at every depth and with every activation.
    """
    digest = hashlib.sha256(tokenizer.fingerprint.encode())
    digest.update(model.config.model_dump_json().encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
