"""`albert evaluate`: a task, models and data come in; scores with their intervals go out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from albert.app.commands.evaluate_pretraining import evaluate_pretrained
from albert.app.commands.evaluate_task import TaskRequest, evaluate_finetuned
from albert.app.options import Depth, Device, Revision
from albert.app.results import CommandResult
from albert.errors import InputError

PRETRAINING = "pretraining"


def evaluate(
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK",
            help="what the models were fine-tuned for, as in sst-2, squad-2.0, race or classification; or "
            "pretraining: masked words, order, next sentence",
        ),
    ],
    model: Annotated[
        list[str],
        typer.Option("--model", help="a model folder, a run folder, or a hub name; several are an ensemble"),
    ],
    data: Annotated[
        str,
        typer.Option(
            "--data", help="the folder of the task, or a table; of pretraining, a prepared corpus or its URL"
        ),
    ],
    split: Annotated[
        str | None, typer.Option("--split", help="dev, or another that the task has, as in test")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="the folder for scores, predictions, the page and official files"),
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="an HTML file for the page of errors alone")
    ] = None,
    select: Annotated[
        bool, typer.Option("--select", help="choose the members on one half, and score the other")
    ] = False,
    select_on: Annotated[
        str | None, typer.Option("--select-on", metavar="SPLIT", help="choose the members on another split")
    ] = None,
    exits: Annotated[
        bool, typer.Option("--exits", help="also time early exit: accuracy against speed")
    ] = False,
    num_examples: Annotated[
        int | None, typer.Option("--examples", help="of pretraining: how many to ask about [default: 2000]")
    ] = None,
    held_out: Annotated[
        bool, typer.Option("--held-out", help="of pretraining: ask about the last documents of --data")
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
    """Score fine-tuned models, alone or as an ensemble, or a pretrained one: figures with 95% intervals."""
    if task.lower() == PRETRAINING:
        others = {
            "--split": split, "--out": out, "--report": report, "--select": select or None,
            "--select-on": select_on, "--exits": exits or None, "--seed": seed,
        }  # fmt: skip
        _refuse(PRETRAINING, others)
        if len(model) > 1:
            raise InputError(f"{len(model)} models, and pretraining is scored for one; give one --model")
        return evaluate_pretrained(
            model[0],
            data,
            num_examples=num_examples,
            held_out=held_out,
            depth=depth,
            device=device,
            revision=revision,
            overrides=settings or [],
        )
    _refuse(task, {"--examples": num_examples, "--held-out": held_out or None})
    request = TaskRequest(
        task=task,
        models=tuple(model),
        data=data,
        split=split,
        out=out,
        report=report,
        select=select,
        select_on=select_on,
        has_exits=exits,
        depth=depth,
        device=device,
        revision=revision,
        seed=seed or 0,
        overrides=tuple(settings or ()),
    )
    return evaluate_finetuned(request)


def _refuse(task: str, options: Mapping[str, object]) -> None:
    """An option that means nothing to a task is a mistake, not a wish to be passed over."""
    for name, value in options.items():
        if value is not None:
            raise InputError(f"{name} means nothing to {task}; leave it out")
