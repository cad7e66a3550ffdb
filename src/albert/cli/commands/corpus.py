"""`albert corpus`: sources come in, a prepared corpus goes out; one comes in, what is in it goes out."""

import dataclasses
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from albert.cli.options import Sources, TextKey, Vocabulary
from albert.cli.progress import ProgressDisplay
from albert.cli.results import CommandResult
from albert.errors import InputError


def prepare(
    corpus: Sources,
    vocab: Vocabulary,
    out: Annotated[str, typer.Option("--out", help="the folder to write, or a URL as s3://bucket/corpus")],
    engine: Annotated[str, typer.Option("--engine", help="local, or ray for a cluster")] = "local",
    address: Annotated[
        str | None, typer.Option("--address", help="of a running Ray cluster; else one is started here")
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", help="processes [default: one for each core]")
    ] = None,
    language: Annotated[str, typer.Option("--language", help="en, de, fr, zh, or xx for any other")] = "en",
    text_key: TextKey = "text",
    layout: Annotated[
        str | None,
        typer.Option("--layout", help="sentences, paragraphs, spaced, wrapped or dense [default: detected]"),
    ] = None,
    min_duplicate: Annotated[
        int, typer.Option("--min-duplicate", help="shorter paragraphs may come back, in characters")
    ] = 64,
    passages: Annotated[
        int | None,
        typer.Option("--passages", help="documents of whole paragraphs, each of so many characters or more"),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="replace the corpus in --out")] = False,
) -> CommandResult:
    """Clean, deduplicate, split and tokenize text into shards; started again, it goes on where it stopped."""
    from albert.data.prepare import prepare_corpus
    from albert.data.units import PrepareSettings
    from albert.pretrained.hub import find_vocabulary_path
    from albert.settings import build_settings
    from albert.training.metrics import count_cores

    values = {
        "language": language,
        "text_key": text_key,
        "layout": layout,
        "min_duplicate_characters": min_duplicate,
        "passage_characters": passages,
    }
    if workers is None and engine == "local":
        workers = count_cores()
    start = time.monotonic()
    with ProgressDisplay() as display:
        manifest = prepare_corpus(
            corpus,
            vocab=find_vocabulary_path(vocab),
            out=out,
            settings=build_settings(PrepareSettings, values=values, source="corpus prepare"),
            num_workers=workers,
            engine=engine,
            address=address,
            overwrite=overwrite,
            reporter=display,
        )
    data = {
        "folder": out,
        "documents": manifest.num_documents,
        "sentences": manifest.num_sentences,
        "pieces": manifest.num_pieces,
        "unknown_pieces": manifest.num_unknown,
        "dropped": manifest.dropped,
        "shards": len(manifest.shards),
        "source_bytes": sum(source.num_bytes for source in manifest.sources),
        "seconds": round(time.monotonic() - start, 1),
    }
    return CommandResult(data, lambda console: _render_prepared(console, data))


def show(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="a prepared corpus, or its URL")],
    example: Annotated[
        int | None, typer.Option("--example", help="show this pretraining example instead")
    ] = None,
    epoch: Annotated[int | None, typer.Option("--epoch", help="of the example [default: 0]")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="of the example [default: 0]")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[key=value…]", help="of the example, as in objective=nsp max_length=128"),
    ] = None,
) -> CommandResult:
    """Show what a corpus holds: counts, lengths, unknown pieces, what was dropped; or one example of it."""
    from albert.data.corpus import open_corpus
    from albert.data.summary import summarise_corpus

    if example is not None:
        return _show_example(folder, example, epoch=epoch or 0, seed=seed or 0, overrides=settings or [])
    options = {"--epoch": epoch, "--seed": seed}
    given = [*(settings or []), *(name for name, value in options.items() if value is not None)]
    if given:
        raise InputError(f"{given[0]} is for an example; add --example N, or leave it out")
    with ProgressDisplay() as display:
        corpus = open_corpus(folder, reporter=display)
    data = dataclasses.asdict(summarise_corpus(corpus))
    return CommandResult(data, lambda console: _render_summary(console, data))


def overlap(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="a prepared corpus, or its URL")],
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE…", help="a task's files: tsv, csv, json, jsonl, lines of text"),
    ],
    pieces: Annotated[int, typer.Option("--pieces", help="how many pieces in a row are no chance")] = 13,
) -> CommandResult:
    """Count the texts of a task's files that occur in a corpus, whole or in part."""
    from albert.data.corpus import open_corpus
    from albert.data.manifest import VOCAB_DIR
    from albert.data.overlap import find_overlap
    from albert.text.folder import load_tokenizer

    with ProgressDisplay() as display:
        corpus = open_corpus(folder, reporter=display)
    tokenizer = load_tokenizer(corpus.folder / VOCAB_DIR)
    found = find_overlap(corpus, files, tokenizer, num_pieces=pieces)
    data = {"pieces": pieces, "files": [dataclasses.asdict(report) for report in found]}
    return CommandResult(data, lambda console: _render_overlap(console, data))


def _show_example(folder: str, number: int, *, epoch: int, seed: int, overrides: list[str]) -> CommandResult:
    from albert.data.corpus import open_corpus
    from albert.data.manifest import VOCAB_DIR
    from albert.examples.describe import describe_example, format_segment
    from albert.examples.settings import ExampleSettings
    from albert.examples.source import build_source
    from albert.settings import build_settings
    from albert.text.folder import load_tokenizer

    with ProgressDisplay() as display:
        corpus = open_corpus(folder, reporter=display)
    tokenizer = load_tokenizer(corpus.folder / VOCAB_DIR)
    rules = build_settings(ExampleSettings, overrides=overrides, source="corpus show")
    source = build_source(corpus, tokenizer, settings=rules, seed=seed)
    view = describe_example(source, tokenizer, number, epoch=epoch)

    def render(console: Any) -> None:
        console.print(
            f"example {number} of {source.num_examples:,} in epoch {epoch}: {view.num_pieces} pieces, "
            f"{view.num_predicted} to predict, {view.answer}"
        )
        for name, pieces in (("first", view.first), ("second", view.second)):
            console.print(f"\n{name}:\n{format_segment(pieces)}", markup=False)

    return CommandResult(dataclasses.asdict(view), render)


def _render_prepared(console: Any, data: dict[str, Any]) -> None:
    speed = data["source_bytes"] / 1e6 / max(data["seconds"], 0.1)
    console.print(
        f"{data['folder']}: {data['documents']:,} documents, {data['sentences']:,} sentences, "
        f"{data['pieces']:,} pieces in {data['shards']} shards; {data['seconds']} s, {speed:.1f} MB/s",
        soft_wrap=True,
    )
    if data["dropped"]:
        console.print(f"dropped or mended: {_list_counts(data['dropped'])}", soft_wrap=True)


def _list_counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{number:,} {kind.replace('_', ' ')}" for kind, number in counts.items())


def _render_summary(console: Any, data: dict[str, Any]) -> None:
    from rich.table import Table

    console.print(
        f"{data['num_documents']:,} documents, {data['num_sentences']:,} sentences, "
        f"{data['num_pieces']:,} pieces ({data['unknown_share']:.3%} unknown), "
        f"{data['num_characters']:,} characters",
        soft_wrap=True,
    )
    table = Table()
    kinds = {
        "pieces in a sentence": data["sentence_pieces"],
        "sentences in a document": data["document_sentences"],
        "pieces in a document": data["document_pieces"],
    }
    table.add_column("")
    for name in ("mean", *data["sentence_pieces"]["at"]):
        table.add_column(name, justify="right")
    for kind, lengths in kinds.items():
        table.add_row(kind, f"{lengths['mean']:,.1f}", *(f"{length:,}" for length in lengths["at"].values()))
    console.print(table)
    console.print(f"dropped or mended: {_list_counts(data['dropped']) or 'nothing'}", soft_wrap=True)
    console.print(
        f"{data['num_sources']:,} sources, {data['num_source_bytes'] / 1e6:,.1f} MB:", soft_wrap=True
    )
    for layout, number in sorted(data["layouts"].items()):
        console.print(f"  {number:,} × {_describe_layout(layout)}", soft_wrap=True)
    console.print(
        f"{data['num_shards']:,} shards, {data['num_shard_bytes'] / 1e6:,.1f} MB, "
        f"vocabulary {data['vocabulary'][:12]}… of {data['vocab_size']:,} pieces",
        soft_wrap=True,
    )


def _describe_layout(name: str) -> str:
    from albert.data.layouts import LAYOUTS

    return LAYOUTS.get(name, name)


def _render_overlap(console: Any, data: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    run = f"a run of {data['pieces']}"
    table = Table()
    for name in ("file", "texts", "too short", run, "half or more", "whole"):
        table.add_column(name, justify="left" if name == "file" else "right")
    keys = ("num_texts", "num_short", "num_overlapping", "num_mostly", "num_whole")
    for report in data["files"]:
        table.add_row(Text(report["name"]), *(f"{report[key]:,}" for key in keys))
    console.print(table)
    for report in data["files"]:
        for example in report["examples"]:
            kind = "whole" if example["is_whole"] else f"{example['share']:.0%}"
            line = f"{Path(report['name']).name}, {kind}: {example['text'][:160]}"
            console.print(line, markup=False, soft_wrap=True)
