"""What models answered comes in and lies in a folder; whoever starts again finds it there."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert.errors import InputError
from albert.files import read_json, write_json, write_text
from albert.model.albert_model import AlbertModel
from albert.settings import Settings, build_settings, find_change
from albert.study.agreement.pairs import Pair, format_pairs, identify_pairs
from albert.study.agreement.scoring import AgreementScores, PhenomenonScore, summarise
from albert.study.agreement.settings import AgreementSettings
from albert.study.arms.folder import refuse_strangers
from albert.text.tokenizer import Tokenizer

RESULTS_NAME, PAIRS_NAME, ANSWERS_DIR = "results.json", "pairs.jsonl", "answers"


class ModelAnswers(Settings):
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


def begin_folder(out: Path, settings: AgreementSettings, pairs: Sequence[Pair]) -> None:
    """Write down what is asked; refused: a folder in which other settings, or something else, lie."""
    path, asked = out / RESULTS_NAME, _describe_questions(settings, pairs)
    if path.exists():
        _check_same(out, read_json(path), asked)
    else:
        refuse_strangers(out)
        write_json(path, {**asked, "models": [], "refused": []})
    if not (out / PAIRS_NAME).exists():
        write_text(out / PAIRS_NAME, format_pairs(pairs))


def _check_same(out: Path, known: Any, asked: Mapping[str, Any]) -> None:
    if not isinstance(known, dict) or "settings" not in known:
        raise InputError(f"{out / RESULTS_NAME}: is not of this study; choose another --out")
    change = find_change(known["settings"], asked["settings"])
    if change is None and known.get("pairs") != asked["pairs"]:
        change = "the pairs were drawn by another version of the grammar"
    if change is not None:
        raise InputError(f"{out}: {change}; a study goes on as it began. Choose another --out")


def _describe_questions(settings: AgreementSettings, pairs: Sequence[Pair]) -> dict[str, Any]:
    # The pairs as well: another version of the grammar may draw others from the same seed.
    return {"settings": settings.model_dump(mode="json"), "pairs": identify_pairs(pairs)}


def find_answers(out: Path, identity: str) -> ModelAnswers | None:
    """What the same weights answered before."""
    path = _find_path(out, identity)
    return build_settings(ModelAnswers, values=read_json(path), source=str(path)) if path.exists() else None


def keep_answers(out: Path, answers: ModelAnswers) -> None:
    """Write them down, whole or not at all."""
    write_json(_find_path(out, answers.identity), answers.model_dump(mode="json"))


def _find_path(out: Path, identity: str) -> Path:
    return out / ANSWERS_DIR / f"{identity[:16]}.json"


def write_results(
    out: Path,
    settings: AgreementSettings,
    *,
    pairs: Sequence[Pair],
    models: Sequence[ModelAnswers],
    refused: Sequence[Refusal],
) -> None:
    """The figures of all models, for a program to read."""
    values = {
        **_describe_questions(settings, pairs),
        "models": [_describe_model(model, summarise(pairs, model.margins)) for model in models],
        "refused": [{"source": each.source, "reason": each.reason} for each in refused],
    }
    write_json(out / RESULTS_NAME, values)


def _describe_model(model: ModelAnswers, scores: AgreementScores) -> Mapping[str, Any]:
    return {
        **model.model_dump(mode="json", exclude={"margins"}),
        "mean": scores.mean,
        "num_pairs": scores.num_pairs,
        "num_left_out": scores.num_left_out,
        "phenomena": {each.name: _describe_phenomenon(each) for each in scores.phenomena},
    }


def _describe_phenomenon(score: PhenomenonScore) -> Mapping[str, Any]:
    low, high = score.interval or (None, None)
    return {
        "accuracy": score.accuracy,
        "low": low,
        "high": high,
        "num_pairs": score.num_pairs,
        "num_left_out": score.num_left_out,
    }
