"""`albert finetune`: fine-tune a pretrained model on a task, with one seed or several."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from albert.cli import command
from albert.errors import InputError

if TYPE_CHECKING:
    from albert.tasks.finetune import FinetuneResult, SeedRuns


def finetune(
    task: Annotated[
        str,
        Argument(
            metavar="TASK",
            help="sst-2, mrpc, squad-2.0, race, …; or for your own table: classification, multilabel, "
            "regression, token-classification, question-answering, multiple-choice, embedding.",
        ),
    ],
    model: Annotated[str, Option(help="Pretrained model: folder, run, nano, or hub name.")],
    data: Annotated[Path, Option(help="Task folder, table, or folder with train.* and dev.*.")],
    out: Annotated[Path, Option(help="Run folder; the model is in OUT/model.")],
    settings: Annotated[list[str] | None, command.key_values("num_epochs=3 columns.text=review")] = None,
    dev: Annotated[Path | None, Option(help="Table of the dev set. [default: hold out 10%]")] = None,
    recipe: Annotated[
        str | None, Option(help="small, paper, …, or a YAML file. [default: by task and model width]")
    ] = None,
    seeds: Annotated[int, Option(min=1, help="Number of runs; prints their median and spread.")] = 1,
    seed: Annotated[
        int | None, Option(help="Seed of head, data order and dropout; the first with --seeds. [default: 0]")
    ] = None,
    revision: command.Revision = None,
    teacher: Annotated[
        str | None, Option(help="Fine-tuned model of the same task to follow: folder, run, or hub name.")
    ] = None,
    unlabeled: Annotated[
        str | None,
        Option("--unlabeled", "--unlabelled", help="Table of further examples that only the teacher labels."),
    ] = None,
    resume: command.Resume = False,
) -> command.CommandResult:
    """Fine-tune a pretrained model on a task. Ctrl-C stops and saves; --resume continues."""
    from albert.settings import add_seed
    from albert.tasks.finetune import finetune as run
    from albert.tasks.finetune import finetune_seeds

    overrides = settings or []
    fixed = [override for override in overrides if override.startswith("seed=")]
    if fixed and seeds > 1:
        raise InputError(f"{fixed[-1]} and --seeds are both given; use --seed instead of {fixed[-1]}")
    with command.ProgressDisplay() as display:

        def train(number: int | None, folder: Path) -> "FinetuneResult":
            return run(
                task,
                model=model,
                data=data,
                out=folder,
                dev=dev,
                recipe=recipe,
                overrides=add_seed(overrides, number),
                revision=revision,
                teacher=teacher,
                unlabeled=unlabeled,
                resume=resume,
                reporter=display,
            )

        if seeds == 1:
            return _report_one(train(seed, out))
        numbers = range(seed or 0, (seed or 0) + seeds)
        found = finetune_seeds(train, seeds=numbers, out=out, resume=resume, reporter=display)
    return _report_one(found.stopped) if found.stopped is not None else _report_seeds(found, out)


def _report_one(result: "FinetuneResult") -> command.CommandResult:
    from albert.tasks.metrics.scores import format_score

    scores = None if result.scores is None else dict(result.scores.metrics)
    rows = {f"dev, {name.replace('_', ' ')}": format_score(value) for name, value in (scores or {}).items()}
    return command.report_run(result, num_steps=result.num_steps, data={"scores": scores}, rows=rows)


def _report_seeds(found: "SeedRuns", out: Path) -> command.CommandResult:
    from albert.tasks.metrics.scores import format_score
    from albert.training.distributed import is_first_process

    summary, model = found.summary, out / f"seed-{found.best_seed}" / "model"
    assert summary is not None
    values = {
        "run": str(out),
        "model": str(model),
        "best_seed": found.best_seed,
        "summary": vars(summary),
        "scores": {seed: dict(each.metrics) for seed, each in found.scores.items()},
    }

    def render(console: Any) -> None:
        names = list(next(iter(found.scores.values())).metrics)
        rows = [
            (str(seed), *(format_score(scores.metrics[name]) for name in names))
            for seed, scores in found.scores.items()
        ]
        command.print_table(console, ("seed", *(name.replace("_", " ") for name in names)), rows)
        spread = "–" if summary.spread is None else f"{summary.spread:.2f}"
        console.print(
            f"median {summary.median:.2f}, spread {spread} ({summary.lowest:.2f} – {summary.highest:.2f}); "
            f"the best is seed {found.best_seed}: {model}",
            soft_wrap=True,
        )

    return command.CommandResult(values, render, is_silent=not is_first_process())
