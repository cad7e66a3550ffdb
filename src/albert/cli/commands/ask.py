"""`albert fill-mask`, `sentence-order` and `embed`: the predictions of a pretrained model for texts."""

import dataclasses
import io
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from albert.cli.command import (
    CommandResult,
    Depth,
    Device,
    Force,
    PrecisionName,
    Revision,
    Texts,
    check_new_file,
    read_texts,
)
from albert.errors import InputError

Model = Annotated[str, Option("--model", "-m", help="folder, weights file, nano, or hub name")]


def fill_mask(
    texts: Texts,
    model: Model,
    top: Annotated[int, Option(help="candidates for each mask")] = 5,
    depth: Depth = None,
    device: Device = "auto",
    precision: PrecisionName = "float32",
    revision: Revision = None,
) -> CommandResult:
    """Predict the token at each [MASK] of the texts."""
    texts = read_texts(texts)
    found = _load(model, device, precision, revision).fill_mask(texts, top=top, depth=depth)
    data = [
        {"text": text, "masks": [[dataclasses.asdict(candidate) for candidate in mask] for mask in masks]}
        for text, masks in zip(texts, found, strict=True)
    ]

    def render(console: Any) -> None:
        for text, masks in zip(texts, found, strict=True):
            console.print(text, soft_wrap=True)
            for number, mask in enumerate(masks, start=1):
                # The token that only begins a word has no text.
                candidates = "  ".join(f"{each.text or '▁'} {each.probability:.1%}" for each in mask)
                console.print(f"  mask {number}: {candidates}", soft_wrap=True)

    return CommandResult(data, render)


def sentence_order(
    texts: Texts,
    model: Model,
    depth: Depth = None,
    device: Device = "auto",
    precision: PrecisionName = "float32",
    revision: Revision = None,
) -> CommandResult:
    """Predict whether pairs of texts are in order or swapped."""
    texts = read_texts(texts)
    if len(texts) % 2:
        raise InputError(f"{len(texts)} texts do not make pairs; give an even number: A B A B …")
    pairs = list(zip(texts[::2], texts[1::2], strict=True))
    found = _load(model, device, precision, revision).sentence_order(pairs, depth=depth)
    rows = [(first, second, each.in_order) for (first, second), each in zip(pairs, found, strict=True)]

    def render(console: Any) -> None:
        for first, second, in_order in rows:
            order = "in order" if in_order >= 0.5 else "swapped"
            console.print(f"{order} ({in_order:.1%} in order): {first} | {second}")

    data = [dict(zip(("first", "second", "in_order"), row, strict=True)) for row in rows]
    return CommandResult(data, render)


def embed(
    texts: Texts,
    model: Model,
    out: Annotated[Path | None, Option(help="write the vectors to this .npy file")] = None,
    force: Force = False,
    pooling: Annotated[
        str | None, Option(help="mean, cls or pooler [default: as in the model's folder, or mean]")
    ] = None,
    normalise: Annotated[
        bool | None,
        Option(
            "--normalise/--no-normalise",
            help="scale each vector to length 1 [default: as in the model's folder]",
        ),
    ] = None,
    depth: Depth = None,
    device: Device = "auto",
    precision: PrecisionName = "float32",
    revision: Revision = None,
) -> CommandResult:
    """Compute one vector for each text."""
    import numpy as np

    from albert.files import open_output

    check_new_file(out, force=force)
    texts = read_texts(texts)
    with ExitStack() as stack:
        # Opened first: a path that cannot be written is reported before the work.
        file = None if out is None else stack.enter_context(open_output(out))
        predictor = _load(model, device, precision, revision)
        vectors = predictor.embed(texts, pooling=pooling, is_normalised=normalise, depth=depth)
        if file is not None:
            content = io.BytesIO()  # np.save seeks, which a pipe cannot
            np.save(content, vectors)
            file.write(content.getbuffer())
    data: dict[str, Any] = {"count": len(vectors), "width": vectors.shape[1]}
    if out is not None:
        data["file"] = str(out)
    else:
        rows = zip(texts, vectors, strict=True)
        data["vectors"] = [{"text": text, "vector": vector.tolist()} for text, vector in rows]

    def render(console: Any) -> None:
        if out is not None:
            console.print(f"{out}: {len(vectors)} vectors of width {vectors.shape[1]}")
            return
        for text, vector in zip(texts, vectors, strict=True):
            start = " ".join(f"{value:+.3f}" for value in vector[:6])
            console.print(f"{start} … ({len(vector)} numbers): {text}")

    return CommandResult(data, render)


def _load(model: str, device: str, precision: Any, revision: str | None) -> Any:
    from albert.tasks.predictor import load

    return load(model, device=device, precision=precision, revision=revision)
