"""The content of a `tokenizer.json` comes in, what it says of case, accents and cutting goes out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from albert.errors import FileFormatError


def get_section(content: Mapping[str, Any], key: str, path: Path) -> dict[str, Any]:
    """A part of `tokenizer.json`, which may be missing but is an object if it is there."""
    value = content.get(key) or {}
    if not isinstance(value, dict):
        raise FileFormatError(f"{path}: {key} is a {type(value).__name__}, not an object; fetch it again")
    return value


def read_rules(content: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The options that the file comes to, by the names of `tokenizer_config.json`.

    Refused is a WordPiece that finds words or marks their continuations in another way than BERT's.
    """
    kind = get_section(content, "model", path).get("type")
    if kind == "Unigram":
        return _read_unigram_rules(get_section(content, "normalizer", path))
    if kind == "WordLevel":
        cutter = get_section(content, "pre_tokenizer", path)
        return {"is_per_character": cutter.get("type") == "Sequence"}
    if kind == "WordPiece":
        _refuse_other_cuts(content, path)
        return _read_bert_rules(get_section(content, "normalizer", path))
    return {}


def _refuse_other_cuts(content: Mapping[str, Any], path: Path) -> None:
    cutter = get_section(content, "pre_tokenizer", path).get("type")
    if cutter != "BertPreTokenizer":
        raise FileFormatError(
            f"{path}: cuts texts into words by {cutter}, and WordPiece is opened only with BertPreTokenizer; "
            "take a model whose words are cut as BERT's"
        )
    prefix = get_section(content, "model", path).get("continuing_subword_prefix", "##")
    if prefix != "##":
        raise FileFormatError(
            f"{path}: continues words with {prefix!r}, and WordPiece is opened only with BERT's '##'; "
            "take a model whose pieces are written as BERT's"
        )


def _read_unigram_rules(normalizer: Mapping[str, Any]) -> dict[str, bool]:
    steps = _list_steps(normalizer)
    # Of what is no step nothing is done: without a word of case, a text keeps its own.
    return {"do_lower_case": "Lowercase" in steps, "keep_accents": not steps & {"NFKD", "StripAccents"}}


def _read_bert_rules(normalizer: Mapping[str, Any]) -> dict[str, bool | None]:
    if normalizer.get("type") == "BertNormalizer":
        return {
            "do_lower_case": normalizer.get("lowercase"),
            "strip_accents": normalizer.get("strip_accents"),
            "tokenize_chinese_chars": normalizer.get("handle_chinese_chars"),
        }
    steps = _list_steps(normalizer)
    return {
        "do_lower_case": "Lowercase" in steps,
        "strip_accents": "StripAccents" in steps,
        "tokenize_chinese_chars": False,
    }


def _list_steps(normalizer: Mapping[str, Any]) -> set[str]:
    steps = normalizer.get("normalizers") or [normalizer]
    # Beside a vocabulary file nobody has looked yet whether these are objects in a list.
    listed = steps if isinstance(steps, list) else []
    return {str(step.get("type")) for step in listed if isinstance(step, dict)}
