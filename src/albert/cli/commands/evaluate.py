"""`albert evaluate`: score fine-tuned models on a task, or a pretrained model on a corpus."""

import dataclasses
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from albert.cli.options import Depth, Device, Revision
from albert.cli.progress import ProgressDisplay
from albert.cli.results import CommandResult
from albert.errors import InputError
from albert.files import write_json

if TYPE_CHECKING:
    from albert.training.settings import PretrainSettings

PRETRAINING = "pretraining"
NUM_EXAMPLES = 2000


def evaluate(
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK",
            help="what the models were fine-tuned for, as in sst-2, squad-2.0, race or classification; or "
            "pretraining: masked tokens, sentence order, next sentence",
        ),
    ],
    model: Annotated[
        list[str],
        typer.Option("--model", help="a model folder, a run folder, or a hub name; several are an ensemble"),
    ],
    data: Annotated[
        str,
        typer.Option(
            "--data", help="the folder of the task, or a table; for pretraining, a prepared corpus or its URL"
        ),
    ],
    split: Annotated[
        str | None, typer.Option("--split", help="dev, or another split of the task, as in test")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="the folder for scores, predictions, the report and official files"),
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="an HTML file for the error report alone")
    ] = None,
    select: Annotated[
        bool, typer.Option("--select", help="choose the members on one half, and score the other")
    ] = False,
    exits: Annotated[
        bool, typer.Option("--exits", help="also time early exit: accuracy against speed")
    ] = False,
    num_examples: Annotated[
        int | None, typer.Option("--examples", help="of pretraining: the number of examples [default: 2000]")
    ] = None,
    held_out: Annotated[
        bool, typer.Option("--held-out", help="of pretraining: use the last documents of --data")
    ] = False,
    depth: Depth = None,
    device: Device = "auto",
    revision: Revision = None,
    seed: Annotated[int | None, typer.Option("--seed", help="of halves and intervals [default: 0]")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[key=value…]",
            help="of own tables, as in columns.text=review; of pretraining, as in max_length=128",
        ),
    ] = None,
) -> CommandResult:
    """Score fine-tuned models, alone or as an ensemble, or a pretrained one, with 95% intervals."""
    if task.lower() == PRETRAINING:
        _reject_options(
            PRETRAINING,
            split=split,
            out=out,
            report=report,
            select=select,
            exits=exits,
            seed=seed is not None,
        )
        if len(model) > 1:
            raise InputError(f"{len(model)} models, and pretraining is scored for one; give one --model")
        return _evaluate_pretraining(
            model[0],
            data,
            num_examples=NUM_EXAMPLES if num_examples is None else num_examples,
            is_held_out=held_out,
            depth=depth,
            device=device,
            revision=revision,
            overrides=settings or [],
        )
    _reject_options(task, examples=num_examples is not None, held_out=held_out)
    return _evaluate_task(
        task,
        model,
        data,
        out=out,
        report=report,
        has_exits=exits,
        revision=revision,
        columns=_read_columns(settings or []),
        split=split,
        depth=depth,
        select=select,
        device=device,
        seed=seed or 0,
    )


def _reject_options(task: str, **options: object) -> None:
    for name, value in options.items():
        if value:
            raise InputError(f"--{name.replace('_', '-')} means nothing to {task}; leave it out")


def _read_columns(overrides: list[str]) -> dict[str, Any]:
    from albert.settings import apply_overrides

    values = apply_overrides({}, overrides, literal="columns")
    columns = values.pop("columns", {})
    if values or not isinstance(columns, dict):
        raise InputError(
            f"{next(iter(values), 'columns')}: only the columns of an own table can be set, as in "
            "columns.text=review; the rest is in the model's folder"
        )
    return columns


def _evaluate_task(
    task: str,
    models: list[str],
    data: str,
    *,
    out: Path | None,
    report: Path | None,
    has_exits: bool,
    revision: str | None,
    **options: Any,
) -> CommandResult:
    """Run the models, write the files and show the figures; all that can be checked is checked first."""
    from albert.cli.commands.evaluate_tables import render_evaluation, render_exits
    from albert.pretrained.hub import resolve_source
    from albert.tasks.evaluation import evaluate_task
    from albert.tasks.evaluation_files import (
        EXITS_NAME,
        check_folder,
        summarise_evaluation,
        write_evaluation,
    )
    from albert.tasks.evaluation_goal import find_goal, find_questions
    from albert.tasks.exit_curve import measure_folder
    from albert.tasks.report import write_report

    goal = find_goal(task)
    split, _ = find_questions(goal, Path(data), split=options["split"])
    if out is not None:
        check_folder(out, task=goal.name, split=split)
    if report is not None:
        _check_report(report)
    if has_exits:
        _check_exits(models, revision=revision)
    curve, files = None, []
    with ProgressDisplay() as display:
        found = evaluate_task(
            task,
            models=models,
            data=data,
            revision=revision,
            needs_labels=has_exits or report is not None,
            reporter=display,
            **options,
        )
        if has_exits:
            display.show("exits", "timing every depth and every patience")
            path = resolve_source(found.models[0], revision=revision)
            curve = measure_folder(path, found.examples)  # type: ignore[arg-type]
    if out is not None:
        files = write_evaluation(out, found)
        if curve is not None:
            files.append(out / EXITS_NAME)
            write_json(files[-1], dataclasses.asdict(curve))
    if report is not None:
        write_report(report, found)
        files.append(report)
    values = {**summarise_evaluation(found), "files": [str(path) for path in files]}
    if curve is not None:
        values["exits"] = dataclasses.asdict(curve)

    def render(console: Any) -> None:
        render_evaluation(console, found)
        if curve is not None:
            render_exits(console, curve)
        for path in files:
            console.print(str(path), markup=False, soft_wrap=True)

    return CommandResult(values, render)


def _check_report(path: Path) -> None:
    if path.is_dir():
        raise InputError(f"--report {path}: is a folder; give the name of an HTML file")
    if path.is_file() and path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"--report {path}: exists and is no HTML file; choose another name")
    parent = next(folder for folder in path.absolute().parents if folder.exists())
    try:
        with tempfile.TemporaryFile(dir=parent):
            pass
    except OSError as error:
        raise InputError(f"--report {path}: cannot write in {parent} ({error.strerror})") from error


def _check_exits(models: list[str], *, revision: str | None) -> None:
    from albert.pretrained.hub import resolve_source
    from albert.tasks.task_facts import read_facts

    if len(models) > 1:
        raise InputError(f"--exits: {len(models)} models, and the curve is that of one; give one --model")
    facts = read_facts(resolve_source(models[0], revision=revision))
    if facts is None or not facts.has_exits:
        raise InputError(f"--exits: {models[0]} has none; fine-tune a model with has_exits=true")


def _evaluate_pretraining(
    source: str,
    data: str,
    *,
    num_examples: int,
    is_held_out: bool,
    depth: int | None,
    device: str,
    revision: str | None,
    overrides: list[str],
) -> CommandResult:
    """Score masked tokens, sentence order and next sentence, as far as the model has heads for them."""
    from albert.data.corpus import open_corpus
    from albert.examples.settings import ExampleSettings
    from albert.model.runtime import select_device
    from albert.pretrained.folder import check_vocabulary, load_model, load_vocabulary
    from albert.settings import build_settings
    from albert.training.losses import evaluate_pretraining
    from albert.training.pretrain import open_data
    from albert.training.settings import HeldOutSettings

    if num_examples < 1:
        raise InputError(f"--examples is {num_examples}; at least 1")
    loaded = load_model(source, revision=revision, device=select_device(device))
    tokenizer = load_vocabulary(loaded.path)
    check_vocabulary(loaded.config, tokenizer)
    loaded.model.head("mlm")
    run = _read_run(loaded.path)
    limit = loaded.config.max_position_embeddings
    length = min(512, limit) if run is None else run.examples.max_length
    rules = build_settings(
        ExampleSettings, values={"max_length": length}, overrides=overrides, source="evaluate"
    )
    if rules.max_length > limit:
        raise InputError(f"max_length {rules.max_length} exceeds the model's {limit} positions; lower it")
    num_passes = 1 + 2 * any(head in loaded.model.heads for head in ("sop", "nsp"))
    done = 0
    with ProgressDisplay() as display:
        if is_held_out:
            asked = HeldOutSettings() if run is None else run.held_out
            objective = "sop" if run is None else run.examples.objective
            corpus = open_data(data, asked, objective=objective, reporter=display).held_out
        else:
            corpus = open_corpus(data, reporter=display)

        def advance(number: int) -> None:
            nonlocal done
            done += number
            fraction = min(1.0, done / (num_examples * num_passes))
            display.show("evaluate", f"{done:,} examples", fraction=fraction)

        scores = evaluate_pretraining(
            loaded.model,
            corpus,
            tokenizer,
            settings=rules,
            num_examples=num_examples,
            depth=depth,
            advance=advance,
        )
    values = {
        name: {**dataclasses.asdict(score), "interval": score.interval} for name, score in scores.items()
    }

    def render(console: Any) -> None:
        from rich.table import Table

        table = Table("", "mean", "95% interval", "answers")
        for name, score in scores.items():
            interval = "–" if score.interval is None else "{:.4f} – {:.4f}".format(*score.interval)
            table.add_row(name.replace("_", " "), f"{score.mean:.4f}", interval, f"{score.count:,}")
        console.print(table)

    return CommandResult({"model": source, "data": data, "scores": values}, render)


def _read_run(model: Path) -> "PretrainSettings | None":
    """Read the settings of the model's pretraining run, if its folder is still around it."""
    from albert.training.run_folder import has_run, read_pretrain_run

    for folder in (model, model.resolve().parent):
        if has_run(folder):
            return read_pretrain_run(folder)[0]
    return None
