"""The model of a run: settings and a vocabulary come in; a model with its heads, and its card, go out."""

from albert.errors import InputError
from albert.model.albert_model import AlbertModel, build_model
from albert.model.config import ModelConfig
from albert.model.runtime import select_device
from albert.pretrained.card import format_card, format_rows
from albert.pretrained.folder import load_model
from albert.pretrained.hub import resolve_source
from albert.pretrained.vocabulary import load_vocabulary
from albert.reporting import format_seconds
from albert.settings import build_settings
from albert.text.tokenizer import Tokenizer
from albert.training.job import Progress
from albert.training.losses import list_heads
from albert.training.pretrain_facts import PretrainFacts
from albert.training.settings import PretrainSettings

# What a warm start may change: nothing that a weight has the shape of.
_FREE_KEYS = frozenset(
    {"num_hidden_layers", "hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout_prob",
     "initializer_range"}
)  # fmt: skip


# What the folder alone decides.
_FOLDER_KEYS = frozenset({"vocab_size", "pad_token_id", "has_embedding_map"})


def resolve_model(settings: PretrainSettings, tokenizer: Tokenizer) -> PretrainSettings:
    """The settings with the model's shape filled in: the vocabulary is the corpus's.

    With `init_from` the shape is the folder's, but for what `model` names.
    """
    model = settings.model
    if settings.init_from is not None:
        model = _resolve_warm_start(settings.init_from, model, tokenizer)
    elif model is None:
        raise InputError("a recipe needs a model, as in model.preset=nano, or init_from=FOLDER")
    else:
        model = model.model_copy(
            update={"vocab_size": tokenizer.vocab_size, "pad_token_id": tokenizer.pad_id}
        )
    # Built again, so that everything that depends on the shape is checked.
    values = {**settings.model_dump(mode="json"), "model": model.model_dump(mode="json")}
    return build_settings(PretrainSettings, values=values)


def _resolve_warm_start(source: str, asked: ModelConfig | None, tokenizer: Tokenizer) -> ModelConfig:
    path = resolve_source(source)
    if load_vocabulary(path).fingerprint != tokenizer.fingerprint:
        raise InputError(
            f"{source}: has another vocabulary than the corpus; prepare the corpus with --vocab {source}"
        )
    found = load_model(path, heads={"mlm": None}).config
    if asked is None:
        return found
    named = asked.model_dump(include=asked.model_fields_set)
    for key, value in named.items():
        if key not in _FREE_KEYS | _FOLDER_KEYS and value != getattr(found, key):
            raise InputError(
                f"{source}: has {key} {getattr(found, key)} and the recipe {value}; a warm start keeps the "
                "shape: set model=null to take the folder's, or train from the beginning without init_from"
            )
    changes = {key: value for key, value in named.items() if key in _FREE_KEYS}
    depth = changes.get("num_hidden_layers", found.num_hidden_layers)
    if depth != found.num_hidden_layers and not found.is_fully_shared:
        raise InputError(
            f"{source}: has {found.num_hidden_layers} layers of their own and cannot start a model of "
            f"{depth}; only one shared block can be looped more or less often"
        )
    return found.model_copy(update=changes)


def change_shape(config: ModelConfig, asked: ModelConfig | None) -> ModelConfig:
    """The shape of a run with what is named by name; what a folder says of itself is not asked for."""
    if asked is None:
        return config
    return config.model_copy(update=asked.model_dump(include=asked.model_fields_set - _FOLDER_KEYS))


def build_pretrain_model(settings: PretrainSettings, *, is_resumed: bool = False) -> AlbertModel:
    """The model with the heads of its objectives on its device, compiled if asked for.

    Its weights are fresh from the seed, or those of `init_from`, unless a checkpoint brings them.
    """
    assert settings.model is not None, "resolve_model comes first"
    heads = list_heads(pair_head=settings.examples.pair_objective)
    checkpointing = settings.gradient_checkpointing
    model = build_model(settings.model, heads=heads, seed=settings.seed, gradient_checkpointing=checkpointing)
    settings.fresh_start.apply(model)
    if settings.init_from is not None and not is_resumed:
        start = load_model(settings.init_from, heads=heads, seed=settings.seed).model
        model.load_state_dict(start.state_dict())
    model.to(select_device(settings.runtime.device))
    if settings.is_compiled:
        model.encoder.compile(dynamic=True)
    return model


def format_training_card(
    model: AlbertModel, settings: PretrainSettings, facts: PretrainFacts, progress: Progress
) -> str:
    """The card of a model, with how it was trained and what it knows of held-out text."""
    optimizer = settings.optimizer
    rows = {
        "steps": f"{progress.step:,} of {settings.batch_size} × {settings.examples.max_length} pieces",
        "pieces seen": f"{progress.num_tokens:,}, of a corpus of {facts.num_pieces:,}",
        "objectives": f"masked words, sentence objective {settings.examples.objective}",
        "optimiser": f"{optimizer.name}, {settings.schedule.name}, peak {optimizer.learning_rate:.3g}",
        "time": f"{format_seconds(progress.seconds)} on {facts.num_threads} threads",
        "versions": ", ".join(f"{name} {version}" for name, version in facts.versions.items()),
    }
    scores = {name.replace("_", " "): f"{value:.4f}" for name, value in progress.figures.items()}
    return f"""{format_card(model).rstrip()}

## Training

{format_rows(rows)}

On held-out documents, where the mere frequency of pieces gives a loss of {facts.unigram_loss:.4f}:

{format_rows(scores)}
"""
