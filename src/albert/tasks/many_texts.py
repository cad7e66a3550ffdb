"""Embed or predict many texts with several processes or on a Ray cluster, and write the results as shards.

This process reads the input, cuts it into shards of rows and writes their results. Workers only compute, and
those of a machine share one copy of the weights. A worker has one thread, because the number of threads
can change the last bits of a result. So the bytes of a shard depend on its rows, the models and the settings,
not on the engine or the number of workers. Finished shards are kept, so that the same call resumes an
interrupted run; the manifest is written last.
"""

import hashlib
import io
import json
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import PositiveInt

from albert import __version__
from albert.data import storage
from albert.data.engines import Engine, build_engine
from albert.data.rows import FORMATS, Problems, find_format
from albert.data.storage import PathOrUrl, Storage, open_storage, put_json
from albert.errors import FileFormatError, InputError
from albert.files import hold, read_json
from albert.inference.predictor import Pooling
from albert.model.runtime import RuntimeSettings
from albert.pretrained.hub import hash_model_files, resolve_source
from albert.progress import NullReporter, Reporter, format_seconds
from albert.settings import Settings, build_settings, find_change
from albert.tasks.catalogue import TaskDefinition, build_task, find_task
from albert.tasks.ensemble import Member, merge_configs, open_members
from albert.tasks.predict import (
    MAX_EXAMPLES,
    SILENT_SECONDS,
    PredictionInput,
    describe_answers,
    find_predicted_task,
    format_line,
    open_input,
)
from albert.tasks.predictor import load
from albert.tasks.sequences import iter_groups
from albert.tasks.task import Example, TaskConfig

MANIFEST_NAME = "_manifest.json"  # readers of a folder of Parquet files skip names that begin with _ or .
SCRATCH_NAME = ".run"
SETTINGS_NAME = "settings.json"
SHARD_ROWS = MAX_EXAMPLES
_MAX_ROW_CHARACTERS = 2048  # on average: rows of whole books make shorter shards


@dataclass(frozen=True)
class ShardSummary:
    """The result of a run: its folder, the numbers of rows and shards, and why rows were skipped.

    `num_kept` is the number of shards that earlier runs had finished.
    """

    out: str
    num_rows: int
    num_skipped: int
    num_shards: int
    num_kept: int
    problems: tuple[str, ...]
    seconds: float


class TextColumns(Settings):
    """The names of the columns to embed: the text, and by default no id."""

    text: str = "text"
    id: str | None = None


class EmbeddingSettings(Settings):
    """Settings of `albert embed --input`."""

    columns: TextColumns = TextColumns()


class _EmbeddingOptions(EmbeddingSettings):
    pooling: Pooling | None
    is_normalized: bool | None
    depth: PositiveInt | None


def embed_files(
    source: PathOrUrl,
    *,
    model: str | Path,
    out: PathOrUrl,
    columns: Mapping[str, str] | None = None,
    format: str | None = None,
    pooling: str | None = None,
    is_normalized: bool | None = None,
    depth: int | None = None,
    shard_rows: int = SHARD_ROWS,
    num_workers: int | None = None,
    engine: str = "local",
    address: str | None = None,
    revision: str | None = None,
    runtime: RuntimeSettings | None = None,
    reporter: Reporter | None = None,
) -> ShardSummary:
    """Embed all texts of a table, or of the tables in a folder, and write the vectors to Parquet files.

    The columns are `vector`, a list of float32 of fixed size, and `id` or else `line`, the line number (in
    Parquet files the row number); for a folder also `file`. Texts that are too long for the model are
    truncated and counted. Call it again with the same arguments to resume after an interruption. The bytes
    do not depend on the engine and the number of workers: every worker has one thread.

    Args:
        source: A CSV, TSV, JSON lines or Parquet file, a text file with one text per line, or a folder or
            URL of such files.
        model: Folder, run, released model or hub name.
        out: The folder or URL of the results: new, or of an interrupted run with the same arguments.
        columns: The names of the columns `text` and, if the rows have ids, `id`.
        format: The format of the files; by default that of their names.
        pooling: mean, cls or pooler; by default that of the model's folder, or mean.
        is_normalized: Whether vectors have length 1; by default as in the model's folder, or no.
        depth: The number of layers to run.
        shard_rows: The number of rows of a shard, which is computed by one worker at a time.
        num_workers: The number of processes: by default one, or all cores of a cluster.
        engine: local, or ray.
        address: The address of a Ray cluster; by default one is started on this machine.
        revision: The version of a model on the hub.
        runtime: Device and precision.
        reporter: Receives progress and warnings.

    Returns:
        The numbers of rows and shards, with warnings.

    Raises:
        InputError: If `out` holds anything else, or the input cannot be read.
    """
    runtime = runtime or RuntimeSettings()
    values = {"pooling": pooling, "is_normalized": is_normalized, "depth": depth, "columns": columns or {}}
    options = build_settings(_EmbeddingOptions, values=values, source="embed")
    paths = (resolve_source(model, revision=revision).absolute(),)
    settings = {
        "command": "embed",
        "model": _hash_models(paths),
        **options.model_dump(),
        "shard_rows": shard_rows,
        "runtime": runtime.model_dump(),
    }
    reading = {"columns": options.columns.model_dump(exclude_none=True), "format": format}
    return _run(
        _EmbedJob(json.dumps(settings), paths, runtime, options.depth, options=options),
        _find_input(source, find_task("embedding"), shard_rows, out, **reading),
        open_storage(out),
        settings=settings,
        workers=build_engine(engine, num_workers=num_workers, address=address),
        reporter=reporter or NullReporter(),
    )


def predict_files(
    task: str,
    source: PathOrUrl,
    *,
    models: Sequence[str | Path],
    out: PathOrUrl,
    columns: Mapping[str, Any] | None = None,
    split: str | None = None,
    format: str | None = None,
    depth: int | None = None,
    patience: int | None = None,
    shard_rows: int = SHARD_ROWS,
    num_workers: int | None = None,
    engine: str = "local",
    address: str | None = None,
    runtime: RuntimeSettings | None = None,
    reporter: Reporter | None = None,
) -> ShardSummary:
    """Predict all examples of a table, a folder of tables or a split, and write JSON lines.

    The files in `out`, one after the other, are the output of `albert predict` with one thread. Call it again
    with the same arguments to resume after an interruption. The bytes do not depend on the engine and the
    number of workers: every worker has one thread.

    Args:
        task: A published task or a task type.
        source: A table, a folder or URL of tables, or the folder or an official file of a published task.
        models: Folders, runs or hub names; several are an ensemble.
        out: The folder or URL of the results: new, or of an interrupted run with the same arguments.
        columns: Columns that differ from those of the first model.
        split: A split of a published task; test by default.
        format: The format of the tables; by default that of their names.
        depth: The number of layers to run.
        patience: Skip the remaining layers after one that agrees with so many before it (early exits).
        shard_rows: The number of rows of a shard, which is computed by one worker at a time.
        num_workers: The number of processes: by default one, or all cores of a cluster.
        engine: local, or ray.
        address: The address of a Ray cluster; by default one is started on this machine.
        runtime: Device and precision.
        reporter: Receives progress and warnings.

    Returns:
        The numbers of rows and shards, with warnings.

    Raises:
        InputError: If the models do not fit the task, `out` holds anything else, or the input cannot be read.
    """
    runtime = runtime or RuntimeSettings()
    definition = find_predicted_task(task, models)
    paths = tuple(resolve_source(model).absolute() for model in models)
    members, names = open_members(definition, paths, runtime=runtime, columns=columns or {})
    settings = {
        "command": "predict",
        "task": definition.name,
        "model": _hash_models(paths),
        "depth": depth,
        "patience": patience,
        "columns": names,
        "shard_rows": shard_rows,
        "runtime": runtime.model_dump(),
    }
    merged = merge_configs(members, definition)
    reading = {"columns": names, "named": tuple(columns or ()), "split": split, "format": format}
    return _run(
        _PredictJob(
            json.dumps(settings), paths, runtime, depth, members=members, merged=merged, patience=patience
        ),
        _find_input(source, definition, shard_rows, out, **reading),
        open_storage(out),
        settings=settings,
        workers=build_engine(engine, num_workers=num_workers, address=address),
        reporter=reporter or NullReporter(),
    )


def _hash_models(paths: Sequence[Path]) -> str:
    files = [hash_model_files(path) for path in paths]
    return hashlib.sha256(json.dumps(files).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class InputRow:
    """An example; its line, or None if it has an id, and its file, or None if the input is one file."""

    example: Example
    line: int | None
    file: str | None


@dataclass
class _Input:
    """The rows of a table, or of the tables in a folder; `problems` are those of the last reading."""

    files: list[tuple[str | None, PathOrUrl]]
    open: Callable[[PathOrUrl], PredictionInput]
    shard_rows: int
    problems: list[Problems] = field(default_factory=list)

    def iter_shards(self) -> Iterator[tuple[InputRow, ...]]:
        self.problems = []
        groups = iter_groups(
            self._iter_rows(),
            count_characters=lambda row: row.example.num_characters,
            max_items=self.shard_rows,
            max_characters=self.shard_rows * _MAX_ROW_CHARACTERS,
        )
        return map(tuple, groups)

    def _iter_rows(self) -> Iterator[InputRow]:
        for file, path in self.files:
            opened = self.open(path)
            self.problems.append(opened.problems)
            for each in opened.examples:
                yield InputRow(each.example, None if opened.has_ids else each.line, file)


def _find_input(
    source: PathOrUrl, definition: TaskDefinition, shard_rows: int, out: PathOrUrl, **reading: Any
) -> _Input:
    """Find the tables of a file, a folder or a URL; `reading` are the options of `open_input`."""
    if shard_rows < 1:
        raise InputError(f"the number of rows of a shard is {shard_rows}; set it to at least 1")
    names: list[str] | None = None  # of a folder
    if storage.is_url(source):
        if reading["format"] is None and find_format(source) not in FORMATS:
            names = storage.list_files(str(source))
    else:
        path = storage.to_path(source)
        if str(source) == "-" or (path.exists() and not path.is_file() and not path.is_dir()):
            raise InputError(f"{source}: is a stream, but the input is read twice; give a file")
        if path.is_dir() and not definition.is_published:
            if not storage.is_url(out) and storage.to_path(out).resolve().is_relative_to(path.resolve()):
                raise InputError(f"{out}: is in the folder of the input; choose another --out")
            found = (file.relative_to(path) for file in sorted(path.rglob("*")) if file.is_file())
            names = [each.as_posix() for each in found if not any(p.startswith(".") for p in each.parts)]
    files: list[tuple[str | None, PathOrUrl]] = [(None, source)]
    if names is not None:
        tables = [name for name in names if reading["format"] is not None or find_format(name) in FORMATS]
        if not tables:
            raise InputError(f"{source}: contains no tables; supported are {', '.join(FORMATS)}")
        files = [(name, f"{str(source).rstrip('/')}/{name}") for name in tables]
    return _Input(files, partial(open_input, definition=definition, **reading), shard_rows)


@dataclass(frozen=True)
class _ShardResult:
    content: bytes
    num_truncated: int


@dataclass(frozen=True)
class _Job:
    """What workers compute. Jobs with the same key are equal, so that a worker loads the models once."""

    key: str  # all settings
    paths: tuple[Path, ...] = field(compare=False)
    runtime: RuntimeSettings = field(compare=False)
    depth: int | None = field(compare=False)

    stage: ClassVar[str]
    suffix: ClassVar[str]

    def open(self) -> Callable[[Sequence[InputRow]], _ShardResult]:
        """Load the models, with shared weights, and return the function that computes a shard."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class _EmbedJob(_Job):
    options: _EmbeddingOptions = field(compare=False)

    stage = "embed"
    suffix = ".parquet"

    def open(self) -> Callable[[Sequence[InputRow]], _ShardResult]:
        (path,), device, precision = self.paths, self.runtime.device, self.runtime.precision
        predictor = load(path, device=device, precision=precision, is_shared=True)
        predictor.max_text = predictor.max_text or predictor.model.config.max_position_embeddings

        def compute(rows: Sequence[InputRow]) -> _ShardResult:
            texts = [str(row.example.texts[0]) for row in rows]
            predictor.num_truncated = 0
            vectors = [
                predictor.embed(
                    texts[start : start + MAX_EXAMPLES],
                    pooling=self.options.pooling,
                    is_normalized=self.options.is_normalized,
                    depth=self.depth,
                )
                for start in range(0, len(texts), MAX_EXAMPLES)
            ]
            return _ShardResult(_format_vectors(rows, np.concatenate(vectors)), predictor.num_truncated)

        return compute


def _format_vectors(rows: Sequence[InputRow], vectors: NDArray[np.float32]) -> bytes:
    """Format the content of a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, Any] = {}
    if rows[0].file is not None:
        columns["file"] = [row.file for row in rows]
    if rows[0].line is None:
        columns["id"] = [row.example.id for row in rows]
    else:
        columns["line"] = pa.array([row.line for row in rows], pa.int64())
    names = list(columns)
    columns["vector"] = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    content = io.BytesIO()
    pq.write_table(pa.table(columns), content, use_dictionary=names)  # hardly any float occurs twice
    return content.getvalue()


@dataclass(frozen=True, kw_only=True)
class _PredictJob(_Job):
    members: tuple[Member, ...] = field(compare=False)
    merged: TaskConfig = field(compare=False)
    patience: int | None = field(compare=False)

    stage = "predict"
    suffix = ".jsonl"

    def open(self) -> Callable[[Sequence[InputRow]], _ShardResult]:
        merged = build_task(self.merged)
        models = [
            member.load(self.runtime, is_shared=True).with_patience(self.patience) for member in self.members
        ]

        def compute(rows: Sequence[InputRow]) -> _ShardResult:
            for model in models:
                model.num_truncated = 0
            lines = []
            for start in range(0, len(rows), MAX_EXAMPLES):
                group = rows[start : start + MAX_EXAMPLES]
                examples = [row.example for row in group]
                answers = describe_answers(examples, self.members, models, merged, depth=self.depth)
                for row, answer in zip(group, answers, strict=True):
                    named = answer if row.file is None else {"file": row.file, **answer}
                    lines.append(format_line(named, row.line))
            num_truncated = max(model.num_truncated for model in models)
            return _ShardResult("".join(lines).encode(), num_truncated)

        return compute


@dataclass(frozen=True)
class _Shard:
    name: str
    num_rows: int
    sha256: str  # of the rows


@dataclass(frozen=True)
class _ShardTask:
    shard: _Shard
    job: _Job
    rows: tuple[InputRow, ...]


def _compute_shard(task: _ShardTask) -> _ShardResult:
    """Compute a shard with one thread; called in a worker."""
    if _hash_rows(task.rows) != task.shard.sha256:
        raise FileFormatError("the input changed while it was read; run the same command again")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _open_job(task.job)(task.rows)
    finally:
        torch.set_num_threads(before)


@lru_cache(maxsize=1)
def _open_job(job: _Job) -> Callable[[Sequence[InputRow]], _ShardResult]:
    if _hash_models(job.paths) != json.loads(job.key)["model"]:
        raise InputError(
            f"{job.paths[0]}: on {platform.node()} this is not the model of this run; copy the model to the "
            "same path on all nodes, and do not change it meanwhile"
        )
    return job.open()


def _run(
    job: _Job,
    inputs: _Input,
    out: Storage,
    *,
    settings: Mapping[str, Any],
    workers: Engine,
    reporter: Reporter,
) -> ShardSummary:
    """Compute and write the shards that are not finished, then the manifest."""
    start = time.monotonic()
    names = out.list_names()
    if names and not {MANIFEST_NAME, SCRATCH_NAME} & set(names):
        raise InputError(f"{out.location}: holds other files; choose an empty --out")
    shards = _scan(inputs, job.suffix, reporter)
    problems = [line for each in inputs.problems for line in each.describe()]
    num_rows = sum(each.num_rows for each in shards)
    num_skipped = sum(each.num_skipped for each in inputs.problems)
    digest = hashlib.sha256("".join(each.sha256 for each in shards).encode()).hexdigest()
    settings = json.loads(json.dumps({"albert": __version__, **settings, "input": digest}))
    scratch = out.subfolder(SCRATCH_NAME)
    if not all(name.startswith(".") for name in names):  # there are results
        _check_settings(out, scratch, settings)
    busy = f"{out.location}: another run is writing there; wait for it, or choose another --out"
    with hold(scratch.lock_path, busy=busy), workers as engine:
        put_json(scratch, SETTINGS_NAME, settings)
        out.remove_unfinished()
        kept = {shard.name for shard in shards} & set(out.list_names())
        if kept:
            reporter.say(f"{out.location}: {len(kept):,} of {len(shards):,} shards are already finished")
        tasks = (
            _ShardTask(shard, job, rows)
            for shard, rows in zip(shards, inputs.iter_shards(), strict=True)
            if shard.name not in kept
        )
        num_kept = sum(shard.num_rows for shard in shards if shard.name in kept)
        num_done, num_truncated, began = num_kept, 0, time.monotonic()
        for task, result in engine.run(_compute_shard, tasks):
            with out.writing(task.shard.name) as path:
                path.write_bytes(result.content)
            num_done += task.shard.num_rows
            num_truncated += result.num_truncated
            speed = (num_done - num_kept) / (time.monotonic() - began)
            left = format_seconds((num_rows - num_done) / speed)
            message = f"{num_done:,} of {num_rows:,} rows, {speed:,.0f} a second, {left} left"
            reporter.show(job.stage, message, fraction=num_done / num_rows)
        _open_job.cache_clear()
        manifest = {
            "settings": settings,
            "num_rows": num_rows,
            "num_skipped": num_skipped,
            "shards": [{"name": shard.name, "num_rows": shard.num_rows} for shard in shards],
        }
        put_json(out, MANIFEST_NAME, manifest)
    scratch.clear()
    if num_truncated:
        problems.append(
            f"Truncated {num_truncated:,} of {num_done - num_kept:,} texts to what the model reads."
        )
    for problem in problems:
        reporter.say(problem)
    seconds = time.monotonic() - start
    return ShardSummary(out.location, num_rows, num_skipped, len(shards), len(kept), tuple(problems), seconds)


def _scan(inputs: _Input, suffix: str, reporter: Reporter) -> list[_Shard]:
    """Read the input once to find its mistakes, and to recognize the rows of each shard later."""
    shards: list[_Shard] = []
    num_rows, start = 0, time.monotonic()
    for rows in inputs.iter_shards():
        shards.append(_Shard(f"{len(shards):06d}{suffix}", len(rows), _hash_rows(rows)))
        num_rows += len(rows)
        if time.monotonic() - start > SILENT_SECONDS:
            reporter.show("scanning", f"{num_rows:,} rows")
    if not shards:
        inputs.problems[0].check(0)
    return shards


def _hash_rows(rows: Sequence[InputRow]) -> str:
    return hashlib.sha256(repr(rows).encode()).hexdigest()


def _check_settings(out: Storage, scratch: Storage, settings: Mapping[str, Any]) -> None:
    """Raise an InputError if the results are those of other settings, models or rows."""
    for store, name in ((out, MANIFEST_NAME), (scratch, SETTINGS_NAME)):
        if store.find_size(name) is None:
            continue
        with store.reading(name) as path:
            before = read_json(path)
        change = find_change(before.get("settings", before), settings)
        if change is not None:
            other = {"input": "another input", "model": "another model"}.get(
                change.key, f"other settings ({change})"
            )
            raise InputError(
                f"{out.location}: holds results of {other}; choose another --out, or remove this folder"
            )
