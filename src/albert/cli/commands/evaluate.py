"""`albert evaluate`: score fine-tuned models on a task, or a pretrained model on a corpus."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from albert.cli import command
from albert.errors import InputError
from albert.files import write_json

if TYPE_CHECKING:
    from albert.tasks.evaluate import Evaluation
    from albert.tasks.exit_curve import ExitCurve

_MAX_LABELS = 12  # in a printed confusion matrix; the report has larger ones


def evaluate(
    task: Annotated[
        str,
        Argument(
            metavar="TASK",
            help="Task of the models, such as sst-2, squad-2.0 or classification; or pretraining, for masked "
            "tokens, sentence order and next sentence.",
        ),
    ],
    model: Annotated[list[str], Option(help="Model folder, run or hub name. Repeat it for an ensemble.")],
    data: Annotated[str, Option(help="Task folder or table; for pretraining, a prepared corpus.")],
    split: Annotated[str | None, Option(help="Split of the task, such as test. [default: dev]")] = None,
    out: Annotated[
        Path | None, Option(help="Folder for scores, predictions, the report and official files.")
    ] = None,
    report: Annotated[Path | None, Option(help="HTML file for the report only.")] = None,
    select: Annotated[bool, Option("--select", help="Select members on one half, score the other.")] = False,
    exits: Annotated[
        bool, Option("--exits", help="Also measure the score and speed of every depth and patience.")
    ] = False,
    num_examples: Annotated[
        int | None, Option("--examples", help="For pretraining: number of examples. [default: 2000]")
    ] = None,
    held_out: Annotated[bool, Option("--held-out", help="For pretraining: only held-out documents.")] = False,
    depth: command.Depth = None,
    device: command.Device = "auto",
    precision: command.PrecisionName = "float32",
    revision: command.Revision = None,
    seed: Annotated[int | None, Option(help="Seed of halves and intervals. [default: 0]")] = None,
    settings: Annotated[list[str] | None, command.key_values("columns.text=review or max_length=128")] = None,
) -> command.CommandResult:
    """Evaluate fine-tuned or pretrained models. Several fine-tuned models are evaluated as an ensemble."""
    is_pretraining = task.lower() == "pretraining"
    of_tasks = {"split": split, "out": out, "report": report, "select": select, "exits": exits, "seed": seed}
    of_pretraining = {"examples": num_examples, "held-out": held_out}
    for name, value in (of_tasks if is_pretraining else of_pretraining).items():
        if value is not None and value is not False:
            raise InputError(f"--{name} is not supported for {task}; leave it out")
    common: dict[str, Any] = {"depth": depth, "device": device, "precision": precision, "revision": revision}
    if is_pretraining:
        number = 2000 if num_examples is None else num_examples
        return _evaluate_pretraining(model, data, settings or [], number, is_held_out=held_out, **common)
    from albert.pretrained.hub import resolve_source
    from albert.settings import apply_overrides
    from albert.tasks.catalogue import find_task, read_config
    from albert.tasks.evaluate import EXITS_NAME, check_folder, summarize_evaluation, write_evaluation
    from albert.tasks.evaluate import evaluate as run
    from albert.tasks.exit_curve import measure_folder
    from albert.tasks.report import write_report

    # Mistakes are reported before the work.
    values = apply_overrides({}, settings or [], literal="columns")
    if unknown := values.keys() - {"columns"}:
        raise InputError(f"unknown key {min(unknown)}; only columns can be set, as in columns.text=review")
    definition = find_task(task)
    if out is not None:
        check_folder(out, task=definition.name, split=definition.find_split(Path(data), split)[0])
    if report is not None and report.exists() and report.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"--report {report}: already exists and is not an HTML file; choose another name")
    if exits:
        if len(model) > 1:
            raise InputError(f"--exits: measures one model, got {len(model)}; give one --model")
        config = read_config(resolve_source(model[0], revision=revision))
        if config is None or not config.has_early_exits:
            raise InputError(f"--exits: {model[0]} has no early exits; fine-tune a model with has_exits=true")
    curve, files = None, []
    with command.ProgressDisplay() as display:
        found = run(
            task,
            model=model,
            data=data,
            split=split,
            columns=values.get("columns", {}),
            select=select,
            needs_labels=exits or report is not None,
            seed=seed or 0,
            reporter=display,
            **common,
        )
        if exits:
            display.show("exits", "measuring every depth and every patience")
            curve = measure_folder(resolve_source(found.models[0], revision=revision), found.examples)
    if out is not None:
        files = write_evaluation(out, found)
        if curve is not None:
            files.append(out / EXITS_NAME)
            write_json(files[-1], dataclasses.asdict(curve))
    if report is not None:
        write_report(report, found)
        files.append(report)
    result = {**summarize_evaluation(found), "files": [str(path) for path in files]}
    if curve is not None:
        result["exits"] = dataclasses.asdict(curve)

    def render(console: Any) -> None:
        _print_evaluation(console, found)
        if curve is not None:
            _print_exits(console, curve)
        for path in files:
            console.print(str(path), soft_wrap=True)

    return command.CommandResult(result, render)


def _print_evaluation(console: Any, found: "Evaluation") -> None:
    """Print the scores with intervals, and members, classes, calibration and threshold if there are any."""
    from albert.tasks.metrics.scores import format_score

    of = "" if found.num_scored in (0, len(found.examples)) else f"{found.num_scored:,} of "
    models = found.models[0] if len(found.models) == 1 else f"{len(found.models)} models"
    console.print(f"{found.task} on {found.split}: {of}{len(found.examples):,} examples, {models}")
    if not found.scores:
        console.print("no scores, because the split has no labels")
        return
    named = [value for name, value in found.scores.items() if name != "score"]
    rows = []
    for name, value in found.scores.items():
        if name != "score" or value not in named:  # a score that is a metric is printed once
            interval = found.intervals.get(name)
            ends = "–" if interval is None else f"{interval.low:.2f} – {interval.high:.2f}"
            rows.append((name.replace("_", " "), format_score(value), ends))
    command.print_table(console, ("", "value", "95% interval"), rows)
    if (selection := found.selection) is not None:
        steps = ", ".join(f"{name} ({score:.2f})" for name, score in selection.steps)
        console.print(
            f"members selected on {selection.chosen_on} ({selection.num_chosen_on:,} examples): {steps}"
        )
    if found.member_scores:
        members = [
            (member.name, "yes" if member.is_chosen else "no", f"{member.scores['score']:.2f}")
            for member in found.member_scores
        ]
        command.print_table(console, ("member", "selected", "score"), members)
    if found.classes:
        classes = [
            (str(each.label), *(f"{100 * value:.2f}" for value in (each.precision, each.recall, each.f1)),
             f"{each.support:,}")
            for each in found.classes[: 2 * _MAX_LABELS]
        ]  # fmt: skip
        command.print_table(console, ("class", "precision", "recall", "f1", "examples"), classes)
        if len(found.classes) > len(classes):
            console.print(f"and {len(found.classes) - len(classes)} more classes")
    if found.confusion is not None and len(found.confusion.labels) <= _MAX_LABELS:
        labels = [*map(str, found.confusion.labels)]
        counts = zip(labels, found.confusion.counts, strict=True)
        lines = [(label, *(f"{count:,}" for count in row)) for label, row in counts]
        command.print_table(console, ("gold ↓ predicted →", *labels), lines)
    if (calibration := found.calibration) is not None:
        used = "each model's temperature"
        if calibration.temperature is not None:
            used = f"temperature {calibration.temperature:.3f}"
        if calibration.is_tuned_here:  # a temperature that was chosen on these examples is cross-fitted
            used = "temperatures fitted on the other half"
        console.print(f"calibration error: {100 * calibration.ece:.2f} points ({used})")
    if (threshold := found.threshold) is not None:
        console.print(f"threshold {format_score(threshold.threshold, '.4g')}: {threshold.source}")
        if threshold.elsewhere is not None:
            scores = threshold.elsewhere.scores.overall
            console.print(
                f"chosen on {threshold.num_chosen_on:,} examples and scored on the other "
                f"{threshold.num_reported:,}: exact {scores.exact:.2f}, f1 {scores.f1:.2f}"
            )


def _print_exits(console: Any, curve: "ExitCurve") -> None:
    rows = [
        (str(point.depth), "–" if point.patience is None else str(point.patience),
         f"{point.score:.2f}", f"{point.mean_layers:.2f}", f"{point.speed:.2f}")
        for point in (*curve.depths, *curve.patiences)
    ]  # fmt: skip
    command.print_table(console, ("layers", "patience", "score", "mean layers", "speedup"), rows)
    chosen = curve.choose()
    fastest = "none" if chosen is None else f"{chosen.option}, {chosen.speed:.2f} times as fast"
    console.print(f"fastest within half a point of all layers: {fastest}")


def _evaluate_pretraining(
    models: list[str],
    data: str,
    overrides: list[str],
    num_examples: int,
    *,
    is_held_out: bool,
    depth: int | None,
    device: str,
    precision: str,
    revision: str | None,
) -> command.CommandResult:
    """Score masked tokens, sentence order and next sentence, if the model has heads for them."""
    from albert.data.corpus import open_corpus
    from albert.examples.settings import ExampleSettings
    from albert.model.runtime import autocast, build_runtime, select_device
    from albert.pretrained.folder import check_vocabulary, load_model, load_vocabulary
    from albert.pretrained.int8 import apply_runtime
    from albert.settings import build_settings
    from albert.training.losses import evaluate_pretraining
    from albert.training.pretrain import open_data
    from albert.training.run_folder import has_run, read_pretrain_run
    from albert.training.settings import HeldOutSettings

    if len(models) > 1:
        raise InputError(f"{len(models)} models, but pretraining is evaluated for one; give one --model")
    if num_examples < 1:
        raise InputError(f"--examples is {num_examples}; give at least 1")
    loaded = load_model(models[0], revision=revision)
    runtime = build_runtime(device, precision, source="evaluate")
    runtime = apply_runtime(loaded.model, loaded.int8, runtime)
    loaded.model.to(select_device(runtime.device))
    tokenizer = load_vocabulary(loaded.path)
    check_vocabulary(loaded.config, tokenizer)
    loaded.model.head("mlm")
    # The settings of the run, if the model is in a run folder.
    runs = [folder for folder in (loaded.path, loaded.path.resolve().parent) if has_run(folder)]
    run = read_pretrain_run(runs[0])[0] if runs else None
    limit = loaded.config.max_position_embeddings
    length = min(512, limit) if run is None else run.examples.max_length
    values = {"max_length": length}
    settings = build_settings(ExampleSettings, values=values, overrides=overrides, source="evaluate")
    if settings.max_length > limit:
        raise InputError(f"max_length {settings.max_length} exceeds the model's {limit} positions; lower it")
    total = num_examples * (1 + 2 * any(head in loaded.model.heads for head in ("sop", "nsp")))
    done = 0
    with command.ProgressDisplay() as display:
        if is_held_out:
            share = HeldOutSettings() if run is None else run.held_out
            objective = "sop" if run is None else run.examples.objective
            corpus = open_data(data, share, objective=objective, reporter=display).held_out
        else:
            corpus = open_corpus(data, reporter=display)

        def advance(number: int) -> None:
            nonlocal done
            done += number
            display.show("evaluate", f"{done:,} examples", fraction=min(1.0, done / total))

        options: dict[str, Any] = {"num_examples": num_examples, "depth": depth, "advance": advance}
        with autocast(select_device(runtime.device), runtime.precision):
            scores = evaluate_pretraining(loaded.model, corpus, tokenizer, settings=settings, **options)
    found = {name: {**dataclasses.asdict(each), "interval": each.interval} for name, each in scores.items()}

    def render(console: Any) -> None:
        rows = []
        for name, score in scores.items():
            interval = "–" if score.interval is None else "{:.4f} – {:.4f}".format(*score.interval)
            rows.append((name.replace("_", " "), f"{score.mean:.4f}", interval, f"{score.count:,}"))
        command.print_table(console, ("", "mean", "95% interval", "predictions"), rows)

    return command.CommandResult({"model": models[0], "data": data, "scores": found}, render)
