"""`albert corpus prepare`, `show` and `overlap`: prepare a corpus for pretraining, inspect one."""

import dataclasses
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from albert.cli.command import (
    CommandResult,
    ProgressDisplay,
    Sources,
    TextKey,
    Vocabulary,
    key_values,
    print_table,
)
from albert.errors import InputError

if TYPE_CHECKING:
    from albert.data.corpus import Corpus
    from albert.text.tokenizer import Tokenizer

Folder = Annotated[str, Argument(metavar="DIR", help="Prepared corpus, or its URL.")]


def prepare(
    corpus: Sources,
    vocab: Vocabulary,
    out: Annotated[str, Option(help="Folder to write, or a URL such as s3://bucket/corpus.")],
    engine: Annotated[str, Option(help="local, or ray for a cluster.")] = "local",
    address: Annotated[
        str | None, Option(help="host:port of a Ray cluster. [default: start one on this machine]")
    ] = None,
    workers: Annotated[int | None, Option(help="Number of processes. [default: one per core]")] = None,
    language: Annotated[str, Option(help="en, de, fr, zh, or xx for any other.")] = "en",
    text_key: TextKey = "text",
    layout: Annotated[
        str | None, Option(help="sentences, paragraphs, spaced, wrapped or dense. [default: detected]")
    ] = None,
    min_duplicate: Annotated[
        int, Option(help="Minimum length of a duplicate paragraph to drop, in characters.")
    ] = 64,
    passages: Annotated[
        int | None, Option(help="Split documents into passages of at least this many characters.")
    ] = None,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace the corpus in --out.")] = False,
) -> CommandResult:
    """Clean, deduplicate and tokenize text. Run the same command again to continue."""
    from albert.data.prepare import PrepareSettings, prepare_corpus
    from albert.pretrained.hub import find_vocabulary_path
    from albert.settings import build_settings
    from albert.threads import count_cores

    values = {"language": language, "text_key": text_key, "layout": layout}
    lengths = {"min_duplicate_characters": min_duplicate, "passage_characters": passages}
    if workers is None and engine == "local":
        workers = count_cores()
    start = time.monotonic()
    with ProgressDisplay() as display:
        manifest = prepare_corpus(
            corpus,
            vocab=find_vocabulary_path(vocab),
            out=out,
            settings=build_settings(PrepareSettings, values={**values, **lengths}, source="corpus prepare"),
            num_workers=workers,
            engine=engine,
            address=address,
            overwrite=overwrite,
            reporter=display,
        )
    data: dict[str, Any] = {
        "folder": out,
        "documents": manifest.num_documents,
        "sentences": manifest.num_sentences,
        "tokens": manifest.num_tokens,
        "unknown_tokens": manifest.num_unknown,
        "dropped": manifest.dropped,
        "shards": len(manifest.shards),
        "source_bytes": sum(source.num_bytes for source in manifest.sources),
        "seconds": round(time.monotonic() - start, 1),
    }

    speed = data["source_bytes"] / 1e6 / max(data["seconds"], 0.1)
    text = (
        f"{out}: {data['documents']:,} documents, {data['sentences']:,} sentences, {data['tokens']:,} tokens "
        f"in {data['shards']} shards; {data['seconds']} s, {speed:.1f} MB/s"
    )
    if manifest.dropped:
        text += f"\ndropped or fixed: {_format_counts(manifest.dropped)}"
    return CommandResult(data, text)


def show(
    folder: Folder,
    example: Annotated[int | None, Option(help="Show the pretraining example with this index.")] = None,
    epoch: Annotated[int | None, Option(help="Epoch of the example. [default: 0]")] = None,
    seed: Annotated[int | None, Option(help="Seed of the example. [default: 0]")] = None,
    settings: Annotated[list[str] | None, key_values("objective=nsp, for --example")] = None,
) -> CommandResult:
    """Show the statistics of a corpus, or one pretraining example."""
    from albert.data.corpus import summarize_corpus
    from albert.data.layouts import LAYOUTS

    if example is not None:
        return _show_example(folder, example, epoch=epoch or 0, seed=seed or 0, overrides=settings or [])
    for name, value in {"--epoch": epoch, "--seed": seed, "key=value": settings or None}.items():
        if value is not None:
            raise InputError(f"{name} {value} needs --example N; add it, or leave {name} out")
    found = summarize_corpus(_open(folder)[0])

    def render(console: Any) -> None:
        counts = {name: found[f"num_{name}"] for name in ("documents", "sentences", "tokens", "characters")}
        unknown = f"tokens ({found['unknown_share']:.3%} unknown)"
        console.print(_format_counts(counts).replace("tokens", unknown), soft_wrap=True)
        lengths = {
            "tokens in a sentence": found["sentence_tokens"],
            "sentences in a document": found["document_sentences"],
            "tokens in a document": found["document_tokens"],
        }
        rows = [
            (name, f"{each['mean']:,.1f}", *(f"{length:,}" for length in each["at"].values()))
            for name, each in lengths.items()
        ]
        print_table(console, ("", "mean>", *(f"{name}>" for name in found["sentence_tokens"]["at"])), rows)
        console.print(f"dropped or fixed: {_format_counts(found['dropped']) or 'nothing'}", soft_wrap=True)
        console.print(f"{found['num_sources']:,} sources, {found['num_source_bytes'] / 1e6:,.1f} MB:")
        for layout, number in sorted(found["layouts"].items()):
            console.print(f"  {number:,} × {LAYOUTS.get(layout, layout)}", soft_wrap=True)
        console.print(
            f"{found['num_shards']:,} shards, {found['num_shard_bytes'] / 1e6:,.1f} MB, "
            f"vocabulary {found['vocabulary'][:12]}… of {found['vocab_size']:,} tokens"
        )

    return CommandResult(found, render)


def _show_example(folder: str, number: int, *, epoch: int, seed: int, overrides: list[str]) -> CommandResult:
    from albert.examples.batches import build_source, describe_example, format_segment
    from albert.examples.settings import ExampleSettings
    from albert.settings import build_settings

    corpus, tokenizer = _open(folder)
    settings = build_settings(ExampleSettings, overrides=overrides, source="corpus show")
    source = build_source(corpus, tokenizer, settings=settings, seed=seed)
    view = describe_example(source, tokenizer, number, epoch=epoch)

    text = (
        f"example {number} of {source.num_examples:,} in epoch {epoch}: {view.num_tokens} tokens, "
        f"{view.num_predicted} masked, {view.answer}"
    )
    for name, segment in (("first", view.first), ("second", view.second)):
        text += f"\n\n{name}:\n{format_segment(segment)}"
    return CommandResult(dataclasses.asdict(view), text)


def overlap(
    folder: Folder,
    files: Annotated[list[Path], Argument(metavar="FILE", help="A task's files: tsv, csv, jsonl, text, …")],
    tokens: Annotated[
        int, Option("--tokens", "--pieces", help="Number of consecutive tokens that count as an overlap.")
    ] = 13,
) -> CommandResult:
    """Count the texts of a task's files that occur in a corpus."""
    from albert.data.overlap import find_overlap

    corpus, tokenizer = _open(folder)
    found = find_overlap(corpus, files, tokenizer, num_tokens=tokens)

    def render(console: Any) -> None:
        rows = []
        for each in found:
            counts = (each.num_texts, each.num_short, each.num_overlapping, each.num_mostly, each.num_whole)
            rows.append((each.name, *(f"{count:,}" for count in counts)))
        run = f"{tokens} tokens in a row>"
        print_table(console, ("file", "texts>", "too short>", run, "half or more>", "whole>"), rows)
        for each in found:
            for example in each.examples:
                share = "whole" if example.is_whole else f"{example.share:.0%}"
                console.print(f"{Path(each.name).name}, {share}: {example.text[:160]}", soft_wrap=True)

    return CommandResult({"tokens": tokens, "files": [dataclasses.asdict(each) for each in found]}, render)


def _open(folder: str) -> "tuple[Corpus, Tokenizer]":
    from albert.data.corpus import open_corpus
    from albert.data.shards import VOCAB_DIR
    from albert.text.folder import load_tokenizer

    with ProgressDisplay() as display:
        corpus = open_corpus(folder, reporter=display)
    return corpus, load_tokenizer(corpus.folder / VOCAB_DIR)


def _format_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in counts.items())
