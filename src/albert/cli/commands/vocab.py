"""`albert vocab train` and `albert vocab tokenize`: train a vocabulary, tokenize texts."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from albert.cli import command
from albert.errors import InputError

if TYPE_CHECKING:
    from albert.text.tokenizer import Tokenizer


def train(
    corpus: command.Sources,
    out: Annotated[Path, Option(help="Folder to write.")],
    size: Annotated[int | None, Option(help="Number of tokens. [default: 30000; symbols: all]")] = None,
    kind: Annotated[str, Option(help="sentencepiece or symbols.")] = "sentencepiece",
    lower: Annotated[
        bool | None,
        Option("--lower/--cased", help="Lower-case the text, or keep case and accents. [default: lower]"),
    ] = None,
    accents: Annotated[
        bool | None, Option("--accents/--no-accents", help="Keep accents. [default: only with --cased]")
    ] = None,
    sample: Annotated[
        int | None, Option(min=1, help="Maximum number of sentences. [default: 10000000]")
    ] = None,
    sample_mb: Annotated[
        int | None, Option(min=1, help="Maximum size of the sample in MB. [default: 100]")
    ] = None,
    seed: Annotated[int | None, Option(help="Seed of the sample. [default: 0]")] = None,
    characters: Annotated[
        bool | None,
        Option(
            "--characters/--spaced",
            help="Symbols are single characters, or separated by spaces. [default: spaced]",
        ),
    ] = None,
    min_count: Annotated[
        int | None, Option(min=1, help="Drop symbols that occur less often. [default: 1]")
    ] = None,
    text_key: command.TextKey = "text",
    overwrite: Annotated[bool, Option("--overwrite", help="Replace the vocabulary in --out.")] = False,
) -> command.CommandResult:
    """Train a vocabulary on text. The defaults are the published settings, on a sample of 100 MB."""
    from albert.data.sources import iter_plain_texts
    from albert.files import atomic_dir
    from albert.settings import build_settings
    from albert.text.folder import TOKENIZER_FILES, save_tokenizer
    from albert.text.symbol_tokenizer import SymbolOptions, build_symbol_vocabulary
    from albert.text.train_vocabulary import VocabularySettings, train_sentencepiece

    if kind not in ("sentencepiece", "symbols"):
        raise InputError(f"unknown --kind {kind!r}; give sentencepiece or symbols")
    others: dict[str, object] = {"--characters/--spaced": characters, "--min-count": min_count}
    if kind == "symbols":
        others = {"--lower/--cased": lower, "--accents": accents, "--sample": sample}
        others |= {"--sample-mb": sample_mb, "--seed": seed}
    for name, value in others.items():
        if value is not None:
            raise InputError(f"{name} does not apply to --kind {kind}; remove it")
    if command.check_new_folder(out, overwrite=overwrite) and (
        not out.is_dir() or {file.name for file in out.iterdir()}.difference(TOKENIZER_FILES)
    ):
        raise InputError(
            f"{out}: is not a vocabulary, so --overwrite does not replace it; choose another --out"
        )

    def warn(text: str) -> None:
        print(f"warning: {text}", file=sys.stderr)

    start = time.monotonic()
    texts = iter_plain_texts(corpus, text_key=text_key, keeps_long_tokens=bool(characters), warn=warn)
    tokenizer: Tokenizer
    notes = ""
    if kind == "symbols":
        symbols = SymbolOptions(is_per_character=bool(characters))
        tokenizer = build_symbol_vocabulary(texts, options=symbols, min_count=min_count or 1, max_size=size)
    else:
        if lower is False and accents is None:
            accents = True
        rules = _drop_none(do_lower_case=lower, keep_accents=accents)
        sizes = {"max_sample_sentences": sample, "max_sample_bytes": sample_mb and sample_mb * 1_000_000}
        values = _drop_none(size=size, normalization=rules, seed=seed, **sizes)
        settings = build_settings(VocabularySettings, values=values, source="vocab train")
        with command.ProgressDisplay() as display:
            tokenizer = train_sentencepiece(
                texts,
                settings=settings,
                on_progress=lambda done: display.show(done.stage, done.message, fraction=done.fraction),
                warn=warn,
            )
        case = "lower-cased" if settings.normalization.do_lower_case else "case kept"
        marks = "accents kept" if settings.normalization.keep_accents else "accents removed (é → e)"
        notes = f"\nnormalization: {case}, {marks}, white space and quotation marks unified"
    with atomic_dir(out) as aside:
        save_tokenizer(tokenizer, aside)
    data = {
        "folder": str(out),
        "kind": kind,
        "size": tokenizer.vocab_size,
        "fingerprint": tokenizer.fingerprint,
        "seconds": round(time.monotonic() - start, 1),
    }
    text = f"{out}: {data['size']:,} tokens in {data['seconds']} s{notes}"
    return command.CommandResult(data, text)


def _drop_none(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def tokenize(texts: command.Texts, vocab: command.Vocabulary) -> command.CommandResult:
    """Show the tokens of each text with their ids and character offsets."""
    from albert.pretrained.hub import find_vocabulary_path
    from albert.text.folder import load_tokenizer

    tokenizer = load_tokenizer(find_vocabulary_path(vocab))
    data: list[dict[str, Any]] = []
    for text in command.read_texts(texts):
        encoding = tokenizer.encode(text, masks=True)
        tokens = [
            {"token": tokenizer.token(i), "id": i, "start": start, "end": end, "text": text[start:end]}
            for i, (start, end) in zip(encoding.ids, encoding.spans, strict=True)
        ]
        data.append({"text": text, "tokens": tokens})

    def render(console: Any) -> None:
        for row in data:
            console.print(row["text"])
            cells = [[str(value) for value in token.values()] for token in row["tokens"]]
            command.print_table(console, ("token", "id>", "start>", "end>", "text"), cells)

    return command.CommandResult(data, render)
