"""`albert fill-mask`, `sentence-order` and `embed`: predictions of a pretrained model for texts."""

import dataclasses
import io
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from albert.cli import command
from albert.errors import InputError

Model = Annotated[str, Option("--model", "-m", help="Model folder, run, weights file, nano, or hub name.")]


def fill_mask(
    texts: command.Texts,
    model: Model,
    top: Annotated[int, Option(help="Number of candidates for each mask.")] = 5,
    depth: command.Depth = None,
    device: command.Device = "auto",
    precision: command.PrecisionName = "float32",
    revision: command.Revision = None,
    backend: command.BackendName = "torch",
) -> command.CommandResult:
    """Predict the token at each [MASK]."""
    texts = command.read_texts(texts)
    found = _load(model, device, precision, revision, backend).fill_mask(texts, top=top, depth=depth)
    data = [
        {"text": text, "masks": [[*map(dataclasses.asdict, mask)] for mask in masks]}
        for text, masks in zip(texts, found, strict=True)
    ]

    lines = []
    for text, masks in zip(texts, found, strict=True):
        lines.append(text)
        for number, mask in enumerate(masks, start=1):
            # A token that is only a word border has no text.
            candidates = "  ".join(f"{each.text or '▁'} {each.probability:.1%}" for each in mask)
            lines.append(f"  mask {number}: {candidates}")
    return command.CommandResult(data, "\n".join(lines))


def sentence_order(
    texts: command.Texts,
    model: Model,
    depth: command.Depth = None,
    device: command.Device = "auto",
    precision: command.PrecisionName = "float32",
    revision: command.Revision = None,
    backend: command.BackendName = "torch",
) -> command.CommandResult:
    """Predict whether pairs of texts are in order or swapped."""
    texts = command.read_texts(texts)
    if len(texts) % 2:
        raise InputError(f"{len(texts)} texts are not pairs; give an even number of texts")
    pairs = list(zip(texts[::2], texts[1::2], strict=True))
    found = _load(model, device, precision, revision, backend).sentence_order(pairs, depth=depth)
    data, lines = [], []
    for (first, second), each in zip(pairs, found, strict=True):
        data.append({"first": first, "second": second, "in_order": each.in_order})
        order = "swapped" if each.is_swapped else "in order"
        lines.append(f"{order} ({each.in_order:.1%} in order): {first} | {second}")
    return command.CommandResult(data, "\n".join(lines))


def embed(
    model: Model,
    texts: Annotated[
        list[str] | None,
        Argument(
            metavar="TEXT",
            help="Texts, or - to read one per line from stdin; with --input, settings: columns.text=review.",
        ),
    ] = None,
    out: Annotated[
        str | None, Option(help="Write the vectors to this .npy file, with --input to this folder or URL.")
    ] = None,
    force: command.Force = False,
    source: Annotated[
        str | None,
        Option("--input", help="Embed all texts of this table or text file, or of a folder or URL of them."),
    ] = None,
    format: Annotated[
        str | None,
        Option(help="csv, tsv, jsonl, parquet, or lines (one text per line). [default: by suffix]"),
    ] = None,
    workers: command.Workers = None,
    engine: command.EngineName = None,
    address: command.Address = None,
    shard_rows: command.ShardRows = None,
    pooling: Annotated[
        str | None, Option(help="mean, cls or pooler. [default: the model's, or mean]")
    ] = None,
    normalize: Annotated[
        bool | None, Option(help="Scale vectors to length 1. [default: as the model does]")
    ] = None,
    depth: command.Depth = None,
    device: command.Device = "auto",
    precision: command.PrecisionName = "float32",
    revision: command.Revision = None,
    backend: command.BackendName = "torch",
) -> command.CommandResult:
    """Compute a vector for each text.

    With --input, several processes write the vectors to a folder of Parquet files. Run the same command again
    to resume it.
    """
    import numpy as np

    from albert.files import open_output

    if source is not None:
        from albert.model.runtime import build_runtime
        from albert.settings import apply_overrides, build_settings
        from albert.tasks.many_texts import SHARD_ROWS, EmbeddingSettings, embed_files
        from albert.threads import count_cores

        command.reject_options({"--force": force}, hint="does not apply to a folder; remove the folder")
        command.reject_options({"--backend": backend != "torch"}, hint="does not apply to --input; remove it")
        if out is None:
            raise InputError(f"--input {source} needs a folder for the vectors; give --out FOLDER")
        values = apply_overrides({}, texts or [], literal="columns")
        chosen = build_settings(EmbeddingSettings, values=values, source="embed --input")
        with command.ProgressDisplay() as display:
            found = embed_files(
                source,
                model=model,
                out=out,
                columns=chosen.columns.model_dump(exclude_none=True),
                format=format,
                pooling=pooling,
                is_normalized=normalize,
                depth=depth,
                shard_rows=SHARD_ROWS if shard_rows is None else shard_rows,
                num_workers=count_cores() if workers is None and engine in (None, "local") else workers,
                engine=engine or "local",
                address=address,
                revision=revision,
                runtime=build_runtime(device, precision, source="embed"),
                reporter=display,
            )
        return command.report_shards(found)
    others = {"--workers": workers, "--engine": engine, "--address": address}
    command.reject_options(
        {**others, "--shard-rows": shard_rows, "--format": format}, hint="is for a file; add --input FILE"
    )
    if not texts:
        raise InputError("no text to embed; give a TEXT, - for stdin, or --input FILE")
    path = None if out is None else Path(out)
    command.check_new_file(path, force=force)
    texts = command.read_texts(texts)
    # Opened first, so that a path that cannot be written is reported before the work.
    with nullcontext() if path is None else open_output(path) as file:
        predictor = _load(model, device, precision, revision, backend)
        vectors = predictor.embed(texts, pooling=pooling, is_normalized=normalize, depth=depth)
        if file is not None:
            content = io.BytesIO()  # np.save seeks, which a pipe cannot
            np.save(content, vectors)
            file.write(content.getbuffer())
    data: dict[str, Any] = {"count": len(vectors), "width": vectors.shape[1]}
    if out is not None:
        text = f"{out}: {len(vectors)} vectors of width {vectors.shape[1]}"
        return command.CommandResult({**data, "file": out}, text)
    rows = list(zip(texts, vectors, strict=True))
    data["vectors"] = [{"text": text, "vector": vector.tolist()} for text, vector in rows]
    lines = []
    for text, vector in rows:
        start = " ".join(f"{value:+.3f}" for value in vector[:6])
        lines.append(f"{start} … ({len(vector)} values): {text}")
    return command.CommandResult(data, "\n".join(lines))


def _load(model: str, device: str, precision: Any, revision: str | None, backend: Any) -> Any:
    from albert.tasks.predictor import load

    return load(model, device=device, precision=precision, revision=revision, backend=backend)
