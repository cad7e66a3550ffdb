"""Hugging Face's folder layout: the names of files, and the conversion of config.json."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from albert.errors import FileFormatError
from albert.model.config import ModelConfig
from albert.settings import build_settings

NameLayout = Literal["albert", "bert", "tensorflow"]
# The files of a model folder; those of its tokenizer are in text/folder.py.
CONFIG_NAME = "config.json"
CARD_NAME = "README.md"
SAFETENSORS_NAME = "model.safetensors"
PICKLED_NAME = "pytorch_model.bin"
TASK_NAME = "task.json"  # the task of a fine-tuned model
# Of an exported folder, as in those of transformers.js.
ONNX_NAME, ONNX_INT8_NAME = "onnx/model.onnx", "onnx/model_quantized.onnx"
SPECIAL_TOKENS_NAME = "special_tokens_map.json"
# The key of config.json for settings that the classes of `transformers` do not have.
OUR_KEY = "albert_encoder"

_SHARED_KEYS = (
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
    "hidden_dropout_prob", "attention_probs_dropout_prob", "max_position_embeddings", "type_vocab_size",
    "initializer_range", "layer_norm_eps", "pad_token_id",
)  # fmt: skip
_ALBERT_KEYS = ("embedding_size", "num_hidden_groups", "inner_group_num", "classifier_dropout_prob")
_REQUIRED = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
_ACTIVATIONS = {
    "gelu_new": "gelu_new",
    "gelu_pytorch_tanh": "gelu_new",
    "gelu_fast": "gelu_new",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "relu": "relu",
}

# The class of `transformers` that opens a folder: the first one whose heads are all present.
_ARCHITECTURES: tuple[tuple[frozenset[str], str, tuple[NameLayout, ...]], ...] = (
    (frozenset({"classification"}), "ForSequenceClassification", ("albert", "bert")),
    (frozenset({"token_classification"}), "ForTokenClassification", ("albert", "bert")),
    (frozenset({"choice"}), "ForMultipleChoice", ("albert", "bert")),
    (frozenset({"span"}), "ForQuestionAnswering", ("albert", "bert")),
    (frozenset({"beam_span"}), "ForBeamQuestionAnswering", ("albert", "bert")),  # not in `transformers`
    (frozenset({"mlm", "sop"}), "ForPreTraining", ("albert",)),
    (frozenset({"mlm", "nsp"}), "ForPreTraining", ("bert",)),
    (frozenset({"mlm"}), "ForMaskedLM", ("albert", "bert")),
    (frozenset(), "Model", ("albert", "bert")),
)
# The head that is stored as `classifier`, by the ending of the folder's architecture.
_CLASSIFIERS = {
    "ForSequenceClassification": "classification",
    "ForTokenClassification": "token_classification",
    "ForMultipleChoice": "choice",
}


@dataclass(frozen=True)
class FolderConfig:
    """The content of a config.json: the config, the layout of weight names, and the labels of the head."""

    model: ModelConfig
    layout: NameLayout
    classifier_head: str = "classification"
    is_classifier_declared: bool = False
    labels: tuple[str, ...] = ()
    problem_type: str | None = None


def parse_config(values: Any, *, source: Path) -> FolderConfig:
    """Parse a config.json; raise a FileFormatError if a key is missing or not supported."""
    if not isinstance(values, dict):
        raise FileFormatError(f"{source}: not a JSON object; give a model's config.json")
    model_type = values.get("model_type") or ("albert" if "embedding_size" in values else "bert")
    if model_type not in ("albert", "bert"):
        raise FileFormatError(f"{source}: model_type is {model_type!r}; only albert and bert are supported")
    layout: NameLayout = "albert" if model_type == "albert" else "bert"
    missing = [key for key in _REQUIRED if values.get(key) is None]
    if missing:
        raise FileFormatError(f"{source}: has no {', '.join(missing)}; give a model's config.json")
    _reject_unsupported(values, source)
    keys = (*_SHARED_KEYS, *_ALBERT_KEYS) if layout == "albert" else _SHARED_KEYS
    ours = {key: values[key] for key in keys if values.get(key) is not None}
    activation = values.get("hidden_act") or ("gelu_new" if layout == "albert" else "gelu")
    ours["hidden_act"] = _ACTIVATIONS[activation]
    if layout == "bert":
        ours |= {"embedding_size": ours["hidden_size"], "sharing": "none", "has_embedding_map": False}
        dropouts = (values.get("classifier_dropout"), values.get("hidden_dropout_prob"))
        ours["classifier_dropout_prob"] = next((value for value in dropouts if value is not None), 0.1)
    else:
        ours["has_embedding_map"] = True  # the class of `transformers` has one even if E = H
    ours |= values.get(OUR_KEY) or {}
    model = build_settings(ModelConfig, values=ours, source=str(source))
    if model.has_embedding_map == (model.embedding_size != model.hidden_size):
        model = model.model_copy(update={"has_embedding_map": None})  # implied by the widths
    names = values.get("architectures") or ()
    heads = (head for name in names for ending, head in _CLASSIFIERS.items() if name.endswith(ending))
    classifier = next(heads, None)
    id2label = values.get("id2label") or {}
    try:
        labels = tuple(str(id2label[key]) for key in sorted(id2label, key=int))
    except (TypeError, ValueError) as error:
        raise FileFormatError(f"{source}: id2label must map 0, 1, … to names ({error})") from error
    return FolderConfig(
        model=model,
        layout=layout,
        classifier_head=classifier or "classification",
        is_classifier_declared=classifier is not None,
        labels=labels,
        problem_type=values.get("problem_type"),
    )


def _reject_unsupported(values: dict[str, Any], source: Path) -> None:
    activation = values.get("hidden_act")
    if activation is not None and activation not in _ACTIVATIONS:
        known = ", ".join(_ACTIVATIONS)
        raise FileFormatError(f"{source}: hidden_act is {activation!r}; only {known} are supported")
    if (found := values.get("position_embedding_type", "absolute")) != "absolute":
        raise FileFormatError(f"{source}: position_embedding_type is {found!r}; only absolute is supported")
    if values.get("is_decoder"):
        raise FileFormatError(f"{source}: is_decoder is true; only encoders are supported")


def choose_layout(config: ModelConfig) -> NameLayout:
    """Choose BERT's layout for a model that is a BERT, ALBERT's for any other."""
    return "bert" if config.is_bert else "albert"


def format_config(folder: FolderConfig, *, heads: set[str]) -> dict[str, Any]:
    """Format the config.json of a folder with these heads."""
    model, layout = folder.model, folder.layout
    family = "Albert" if layout == "albert" else "Bert"
    ending = next(name for needed, name, known in _ARCHITECTURES if needed <= heads and layout in known)
    values: dict[str, Any] = {"architectures": [family + ending], "model_type": layout}
    values |= {key: getattr(model, key) for key in _SHARED_KEYS}
    values["hidden_act"] = model.hidden_act
    if layout == "bert":
        values["classifier_dropout"] = model.classifier_dropout_prob
    else:
        values |= {key: getattr(model, key) for key in _ALBERT_KEYS}
        values |= {"bos_token_id": 2, "eos_token_id": 3}
        ours: dict[str, Any] = {}
        if model.sharing != "all":
            # Groups in `transformers` share no blocks: each layer is a group, with copies of shared blocks.
            ours |= {"sharing": model.sharing, "num_hidden_groups": model.num_hidden_groups}
            values["num_hidden_groups"] = model.num_hidden_layers
        if not model.maps_embeddings:
            ours["has_embedding_map"] = False
        if ours:
            values[OUR_KEY] = ours
    if folder.labels:
        values["id2label"] = {str(i): label for i, label in enumerate(folder.labels)}
        values["label2id"] = {label: i for i, label in enumerate(folder.labels)}
    if folder.problem_type:
        values["problem_type"] = folder.problem_type
    return values
