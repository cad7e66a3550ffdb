"""`albert vocab train` and `albert vocab tokenize`: train a vocabulary, show the tokens of texts."""

import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from albert.cli.options import Sources, TextKey, Texts, Vocabulary, read_texts
from albert.cli.progress import ProgressDisplay
from albert.cli.results import CommandResult
from albert.errors import InputError

KINDS = ("sentencepiece", "symbols")


def train(
    corpus: Sources,
    out: Annotated[Path, typer.Option("--out", help="the folder to write")],
    size: Annotated[
        int | None,
        typer.Option("--size", help="tokens, with the special ones [default: 30000; symbols: all]"),
    ] = None,
    kind: Annotated[str, typer.Option("--kind", help="sentencepiece or symbols")] = "sentencepiece",
    lower: Annotated[
        bool | None,
        typer.Option(
            "--lower/--cased", help="lower-case the text, or keep case and accents [default: lower]"
        ),
    ] = None,
    accents: Annotated[
        bool | None, typer.Option("--accents/--no-accents", help="keep accents [default: only with --cased]")
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option("--sample", min=1, help="train on at most so many sentences [default: 10000000]"),
    ] = None,
    sample_mb: Annotated[
        int | None, typer.Option("--sample-mb", min=1, help="and on at most so many megabytes [default: 100]")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="draws the sample [default: 0]")] = None,
    characters: Annotated[
        bool | None, typer.Option("--characters/--spaced", help="symbols are single characters, or spaced")
    ] = None,
    min_count: Annotated[
        int | None, typer.Option("--min-count", min=1, help="leave out rarer symbols [default: 1]")
    ] = None,
    text_key: TextKey = "text",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="replace the vocabulary in --out")] = False,
) -> CommandResult:
    """Train a vocabulary on a corpus; the defaults are the published settings, on a sample of 100 MB."""
    from albert.data.sources import iter_plain_texts

    of_pieces = {"--lower/--cased": lower, "--accents": accents, "--sample": sample, "--sample-mb": sample_mb}
    of_symbols = {"--characters/--spaced": characters, "--min-count": min_count}
    _check_kind(kind, others={**of_pieces, "--seed": seed} if kind == "symbols" else of_symbols)
    _check_out(out, overwrite)
    start = time.monotonic()
    texts = iter_plain_texts(corpus, text_key=text_key, keeps_long_tokens=bool(characters), warn=_warn)
    if kind == "symbols":
        tokenizer = _build_symbols(texts, size=size, characters=characters, min_count=min_count)
    else:
        accents = True if lower is False and accents is None else accents
        values = {
            "size": size,
            "normalization": _given({"do_lower_case": lower, "keep_accents": accents}),
            "max_sample_sentences": sample,
            "max_sample_bytes": sample_mb and sample_mb * 1_000_000,
            "seed": seed,
        }
        tokenizer = _train_pieces(texts, _given(values))
    _save(tokenizer, out)
    data = {
        "folder": str(out),
        "kind": kind,
        "size": tokenizer.vocab_size,
        "fingerprint": tokenizer.fingerprint,
        "seconds": round(time.monotonic() - start, 1),
    }
    return CommandResult(data, lambda console: _print_trained(console, data, tokenizer))


def _print_trained(console: Any, data: Mapping[str, Any], tokenizer: Any) -> None:
    name = "symbols" if data["kind"] == "symbols" else "tokens"
    console.print(f"{data['folder']}: {data['size']:,} {name} in {data['seconds']} s")
    if data["kind"] == "sentencepiece":
        rules = tokenizer.options
        case = "lower-cased" if rules.do_lower_case else "case kept"
        accents = "accents kept" if rules.keep_accents else "accents removed (é → e)"
        console.print(f"normalization: {case}, {accents}, white space and quotation marks unified")


def tokenize(
    texts: Texts,
    vocab: Vocabulary,
) -> CommandResult:
    """Show the tokens of each text, their ids and their character offsets."""
    from albert.pretrained.hub import find_vocabulary_path
    from albert.text.folder import load_tokenizer

    tokenizer = load_tokenizer(find_vocabulary_path(vocab))
    data = []
    for text in read_texts(texts):
        encoding = tokenizer.encode(text, masks=True)
        pieces = [
            {"piece": tokenizer.token(i), "id": i, "start": start, "end": end, "text": text[start:end]}
            for i, (start, end) in zip(encoding.ids, encoding.spans, strict=True)
        ]
        data.append({"text": text, "pieces": pieces})
    return CommandResult(data, lambda console: _render_pieces(console, data))


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _check_kind(kind: str, *, others: Mapping[str, Any]) -> None:
    if kind not in KINDS:
        raise InputError(f"unknown kind {kind!r}; --kind is {' or '.join(KINDS)}")
    if unused := list(_given(others)):
        raise InputError(f"{unused[0]} is not for --kind {kind}; leave it out")


def _check_out(out: Path, overwrite: bool) -> None:
    from albert.text.folder import TOKENIZER_FILES

    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not overwrite:
        raise InputError(f"{out} exists; choose another folder, or add --overwrite")
    if not out.is_dir() or {file.name for file in out.iterdir()}.difference(TOKENIZER_FILES):
        raise InputError(
            f"{out} holds more than a vocabulary, which --overwrite would delete; choose another"
        )


def _train_pieces(texts: Iterator[str], values: Mapping[str, Any]) -> Any:
    from albert.settings import build_settings
    from albert.text.train_vocabulary import VocabularyProgress, VocabularySettings, train_sentencepiece

    settings = build_settings(VocabularySettings, values=values, source="vocab train")
    with ProgressDisplay() as display:

        def show(progress: VocabularyProgress) -> None:
            display.show(progress.stage, progress.message, fraction=progress.fraction)

        return train_sentencepiece(texts, settings=settings, on_progress=show, warn=_warn)


def _build_symbols(
    texts: Iterator[str], *, size: int | None, characters: bool | None, min_count: int | None
) -> Any:
    from albert.text.symbol_tokenizer import SymbolOptions, build_symbol_vocabulary

    options = SymbolOptions(is_per_character=bool(characters))
    return build_symbol_vocabulary(texts, options=options, min_count=min_count or 1, max_size=size)


def _warn(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr)


def _save(tokenizer: Any, out: Path) -> None:
    from albert.files import atomic_dir
    from albert.text.folder import save_tokenizer

    with atomic_dir(out) as aside:
        save_tokenizer(tokenizer, aside)


def _render_pieces(console: Any, rows: list[dict[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    for row in rows:
        table = Table(title=Text(row["text"]), title_justify="left")
        for column in ("piece", "id", "from", "to", "text"):
            table.add_column(column, justify="right" if column in ("id", "from", "to") else "left")
        for piece in row["pieces"]:
            numbers = (str(piece[key]) for key in ("id", "start", "end"))
            table.add_row(Text(piece["piece"]), *numbers, Text(piece["text"]))
        console.print(table)
