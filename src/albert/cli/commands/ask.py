"""`albert fill-mask`, `sentence-order` and `embed`: a model and texts come in, its answers go out."""

import dataclasses
import io
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from albert.cli.options import (
    Depth,
    Device,
    Force,
    PrecisionName,
    Revision,
    Texts,
    check_new_file,
    read_texts,
)
from albert.cli.results import CommandResult
from albert.errors import InputError

Model = Annotated[str, typer.Option("--model", "-m", help="a folder, a weights file, nano, or a hub name")]


def fill_mask(
    texts: Texts,
    model: Model,
    top: Annotated[int, typer.Option("--top", help="candidates for each mask")] = 5,
    depth: Depth = None,
    device: Device = "auto",
    precision: PrecisionName = "float32",
    revision: Revision = None,
) -> CommandResult:
    """Guess the words at each [MASK] of the texts."""
    words = read_texts(texts)
    answers = _load(model, device, precision, revision).fill_mask(words, top=top, depth=depth)
    data = [
        {"text": text, "masks": [[dataclasses.asdict(candidate) for candidate in mask] for mask in masks]}
        for text, masks in zip(words, answers, strict=True)
    ]

    def render(console: Any) -> None:
        for text, masks in zip(words, answers, strict=True):
            console.print(text, markup=False, soft_wrap=True)
            for number, mask in enumerate(masks, start=1):
                # The piece that begins a word and is nothing else has no text.
                guesses = "  ".join(f"{guess.text or '▁'} {guess.probability:.1%}" for guess in mask)
                console.print(f"  mask {number}: {guesses}", markup=False, soft_wrap=True)

    return CommandResult(data, render)


def sentence_order(
    texts: Texts,
    model: Model,
    depth: Depth = None,
    device: Device = "auto",
    precision: PrecisionName = "float32",
    revision: Revision = None,
) -> CommandResult:
    """Tell whether the second text of each pair follows the first, or came before it."""
    words = read_texts(texts)
    if len(words) % 2:
        raise InputError(f"{len(words)} texts do not make pairs; give an even number: A B A B …")
    pairs = list(zip(words[::2], words[1::2], strict=True))
    answers = _load(model, device, precision, revision).sentence_order(pairs, depth=depth)
    data = [
        {"first": a, "second": b, "in_order": answer.in_order}
        for (a, b), answer in zip(pairs, answers, strict=True)
    ]

    def render(console: Any) -> None:
        for row in data:
            verdict = "in order" if row["in_order"] >= 0.5 else "swapped"
            console.print(
                f"{verdict} ({row['in_order']:.1%} in order): {row['first']} | {row['second']}", markup=False
            )

    return CommandResult(data, render)


def embed(
    texts: Texts,
    model: Model,
    out: Annotated[Path | None, typer.Option("--out", help="write the vectors to this .npy file")] = None,
    force: Force = False,
    pooling: Annotated[
        str | None,
        typer.Option("--pooling", help="mean, cls or pooler; else as the model's folder says, or the mean"),
    ] = None,
    normalise: Annotated[
        bool | None,
        typer.Option(
            "--normalise/--no-normalise", help="scale each vector to length 1; else as the folder says"
        ),
    ] = None,
    depth: Depth = None,
    device: Device = "auto",
    precision: PrecisionName = "float32",
    revision: Revision = None,
) -> CommandResult:
    """Turn each text into one vector."""
    import numpy as np

    from albert.files import open_output

    check_new_file(out, force=force)
    words = read_texts(texts)
    with ExitStack() as held:
        file = None if out is None else held.enter_context(open_output(out))  # refused now, if at all
        predictor = _load(model, device, precision, revision)
        vectors = predictor.embed(words, pooling=pooling, is_normalised=normalise, depth=depth)
        if file is not None:
            content = io.BytesIO()  # numpy asks a file where it stands, which a pipe does not know
            np.save(content, vectors)
            file.write(content.getbuffer())
    data: dict[str, Any] = {"count": len(vectors), "width": vectors.shape[1]}
    if out is not None:
        data["file"] = str(out)
    else:
        data["vectors"] = [
            {"text": text, "vector": vector.tolist()} for text, vector in zip(words, vectors, strict=True)
        ]

    def render(console: Any) -> None:
        if out is not None:
            console.print(f"{out}: {len(vectors)} vectors of width {vectors.shape[1]}", markup=False)
            return
        for text, vector in zip(words, vectors, strict=True):
            start = " ".join(f"{value:+.3f}" for value in vector[:6])
            console.print(f"{start} … ({len(vector)} numbers): {text}", markup=False)

    return CommandResult(data, render)


def _load(model: str, device: str, precision: Any, revision: str | None) -> Any:
    from albert.tasks.predictor import load

    return load(model, device=device, precision=precision, revision=revision)
