"""Write the model card: README.md from `card.md.j2` and the record of a release, and its figures.

The record is the folder in which the other steps have written run/, data.json, scores.json, downstream/,
checkpoints.jsonl and predictions.json. All figures in the card come from these files.
"""

import argparse
import json
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from albert.errors import InputError
from albert.files import read_json, read_text, write_text
from albert.model.config import count_parameters
from albert.pretrained.huggingface import CARD_NAME
from albert.progress import Reporter, format_seconds
from albert.report.charts import draw_chart
from albert.report.content import Chart, Level, Series
from albert.report.write import FIGURES, MISSING
from albert.tasks.metrics.intervals import SeedSummary
from albert.training.checkpoints import STATE_NAME, CheckpointFolder
from albert.training.run_folder import (
    CHECKPOINTS_DIR,
    FREE_KEYS,
    PretrainMetadata,
    list_records,
    read_pretrain_run,
)
from albert.training.settings import PretrainSettings, read_recipe
from bench.downstream.findings import list_findings
from bench.downstream.reference import BERT_TINY, OFFICIAL_SIZES, list_shown
from bench.downstream.results import TaskResults, read_results
from release.nano.checkpoints import read_lines

_MAX_POINTS = 200
# Settings that come from the corpus, or that the command shows as a path.
_FILLED = {"model.vocab_size", "model.pad_token_id", "held_out.data"}
Record = Mapping[str, Any]


@dataclass(frozen=True)
class FinishedRun:
    """The settings and measurements of a finished pretraining run."""

    settings: PretrainSettings
    metadata: PretrainMetadata
    starts: Sequence[Record]
    train: Sequence[Record]
    evaluations: Sequence[Record]
    seconds: float
    num_tokens: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the step."""
    parser.add_argument("--record", type=Path, required=True, help="folder of the other steps' output")
    parser.add_argument("--recipe", default="albert-nano-en", help="the recipe of the run")
    parser.add_argument("--out", type=Path, required=True, help="folder for README.md and figures/")


def run(args: argparse.Namespace, reporter: Reporter) -> str:
    """Draw the figures and render the template."""
    pretraining, data = read_finished_run(args.record / "run"), read_json(args.record / "data.json")
    scores = read_json(args.record / "scores.json")
    parts = scores["parts"].items()
    depths = dict(sorted((int(name[6:]), part) for name, part in parts if name.startswith("depth-")))
    checkpoints = read_lines(args.record / "checkpoints.jsonl")
    results = read_results(args.record / "downstream")
    config = pretraining.settings.model
    assert config is not None, "a finished run has a model config"
    charts = [*_chart_pretraining(pretraining), _chart_depths(depths), _chart_checkpoints(checkpoints)]
    for chart in charts:
        reporter.show("card", f"drawing {chart.name}")
        write_text(args.out / FIGURES / f"{chart.name}.svg", draw_chart(chart))
    card = render_card(
        Path(__file__).parent,
        run=pretraining,
        config=config,
        num_parameters=count_parameters(config).backbone,
        time=format_seconds(pretraining.seconds),
        data=data,
        pretraining_commands=list_commands(pretraining, recipe=args.recipe, data=data),
        scores=scores,
        depths=depths,
        findings=[line.replace("**", "") for line in list_findings(results, [])],
        downstream_rows=[row for result in results for row in list_rows(result)],
        downstream_command=_read_command(args.record / "downstream" / "table.md"),
        checkpoints=checkpoints,
        predictions=read_json(args.record / "predictions.json"),
        charts={chart.name: chart for chart in charts},
    )
    write_text(args.out / CARD_NAME, card)
    return f"{args.out / CARD_NAME}: {len(card.splitlines())} lines, {len(charts)} figures"


def render_card(folder: Path, **values: Any) -> str:
    """Render the template `card.md.j2` of a folder."""
    environment = Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"fmt": format, "escape_cell": _escape_cell}
    return environment.get_template("card.md.j2").render(**values)


def read_finished_run(run_dir: Path) -> FinishedRun:
    """Read a run; raise `InputError` if it is not finished."""
    settings, metadata = read_pretrain_run(run_dir)
    checkpoints = CheckpointFolder(run_dir / CHECKPOINTS_DIR)
    step = max(checkpoints.list_steps(), default=0)
    if step != settings.num_steps:
        raise InputError(
            f"{run_dir}: is at step {step} of {settings.num_steps}; the card needs a finished run, so resume "
            "it with --resume"
        )
    progress = read_json(checkpoints.step_dir(step) / STATE_NAME)["progress"]
    starts, train, evaluations = (list_records(run_dir, name) for name in ("start", "train", "evaluate"))
    return FinishedRun(
        settings, metadata, starts, train, evaluations, progress["seconds"], progress["num_tokens"]
    )


def list_commands(run: FinishedRun, *, recipe: str, data: Record) -> list[str]:
    """List the commands from text to model."""
    return [
        f"python -m release.nano data --data DATA --out DIR --vocab-size {data['vocab_size']} "
        f"--passages {data['passages']}",
        " ".join(
            [f"albert pretrain {Path(recipe).name} --data DIR/corpus --out RUN", *list_changes(run, recipe)]
        ),
        "albert convert RUN HALF --half",
    ]


def list_changes(run: FinishedRun, recipe: str, *, job: str = "pretrain") -> list[str]:
    """List the settings of a run that change a weight and differ from the recipe, as typed in a shell."""
    before = _flatten(read_recipe(recipe, job=job).model_dump(mode="json"))
    after = _flatten(run.settings.model_dump(mode="json"))
    held_out = ["held_out.data=DIR/held-out"] if run.settings.held_out.data is not None else []
    return held_out + [
        shlex.quote(f"{key}={json.dumps(value)}")
        for key, value in after.items()
        if value != before.get(key) and key not in _FILLED | FREE_KEYS
    ]


def _flatten(values: Record, prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        found |= _flatten(value, f"{name}.") if isinstance(value, dict) else {name: value}
    return found


def list_rows(result: TaskResults) -> list[list[str]]:
    """Format one row per metric; sizes are only in the first."""
    rows: list[list[str]] = []
    train, dev = OFFICIAL_SIZES[result.task]
    sizes = [
        f"{result.data.num_train:,}" + ("" if result.data.has_all_train else f" of {train:,}"),
        f"{result.data.num_dev:,}" + ("" if result.data.is_complete else f" of {dev:,}"),
    ]
    for metric in list_shown(result.task):
        own = result.summarize("pretrained", metric)
        if own is None:
            continue
        trivial, words = (result.find_best(metric, is_trivial=flag) for flag in (True, False))
        published = BERT_TINY.get(result.task, {}).get(metric)
        tiny = MISSING if published is None else f"{published:.1f}"
        rows.append(
            [
                result.task,
                metric.replace("_", " "),
                *(["", ""] if rows else sizes),
                *(MISSING if found is None else f"{found[1]:.1f}" for found in (trivial, words)),
                _format_seeds(result.summarize("untrained", metric)),
                _format_seeds(own),
                tiny if published is None or result.data.is_complete else f"({tiny})",
            ]
        )
    return rows


def _format_seeds(summary: SeedSummary | None) -> str:
    if summary is None:
        return MISSING
    return f"{summary.median:.1f}" + ("" if summary.spread is None else f" ± {summary.spread:.1f}")


def _read_command(path: Path) -> str:
    """Read the command from the first line of the table that bench.downstream wrote."""
    return read_text(path).partition("\n")[0].removeprefix("Command: ").strip("`")


def _chart_pretraining(run: FinishedRun) -> list[Chart]:
    unigram, last = run.metadata.unigram_loss, run.evaluations[-1]
    return [
        Chart(
            "loss", "MLM loss during pretraining", "step", "loss, nats per token",
            [_build_series("training text", run.train, "mlm_loss"),
             _build_series("held-out books", run.evaluations, "mlm_loss")],
            levels=[Level(unigram, "unigram baseline")],
            caption=f"MLM loss on the held-out books: {last['mlm_loss']:.3f} at the end; "
            f"the unigram baseline has {unigram:.3f}.",
        ),
        Chart(
            "sop", "SOP accuracy during pretraining", "step", "accuracy, %",
            [_build_series("held-out books", run.evaluations, "sop_accuracy", scale=100.0)],
            levels=[Level(50.0, "chance")],
            caption=f"SOP accuracy on the held-out books: {last['sop_accuracy']:.1%} at the end; "
            "chance is 50%.",
        ),
    ]  # fmt: skip


def _build_series(name: str, records: Sequence[Record], key: str, *, scale: float = 1.0) -> Series:
    """Keep at most about 200 points, and the last one."""
    points = [(float(each["step"]), scale * each[key]) for each in records if each.get(key) is not None]
    points = [*points[: -1 : math.ceil(len(points) / _MAX_POINTS)], points[-1]]
    return Series(name, xs=[step for step, _ in points], ys=[value for _, value in points])


def _chart_depths(depths: Mapping[int, Record]) -> Chart:
    accuracies = {depth: 100.0 * part["mlm_accuracy"]["mean"] for depth, part in depths.items()}
    best = max(accuracies, key=lambda depth: accuracies[depth])
    return Chart(
        "depth", "MLM accuracy by number of layers", "layers", "accuracy, %",
        [Series("held-out books", [float(depth) for depth in accuracies], [*accuracies.values()])],
        caption=f"MLM accuracy on the held-out books: {accuracies[1]:.1f}% with one layer, "
        f"{accuracies[best]:.1f}% with {best}.",
    )  # fmt: skip


def _chart_checkpoints(lines: Sequence[Record]) -> Chart:
    xs = [float(line["step"]) for line in lines]
    series = [
        Series(task, xs, [line["tasks"][task]["score"] for line in lines]) for task in lines[0]["tasks"]
    ]
    told = "; ".join(f"{each.name} {each.ys[0]:.1f} and {each.ys[-1]:.1f}" for each in series)
    return Chart(
        "downstream", "Score after short fine-tuning", "pretraining step", "score", series,
        caption=f"First and last checkpoint: {told}.",
    )  # fmt: skip


def _escape_cell(text: str) -> str:
    return re.sub(r"[\\`*_\[\]<|~$]", r"\\\g<0>", text)
