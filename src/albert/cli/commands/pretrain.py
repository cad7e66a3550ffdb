"""`albert pretrain`: pretrain a model on a prepared corpus."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from albert.cli.command import Budget, CommandResult, ProgressDisplay, Resume, key_values, report_run


def pretrain(
    recipe: Annotated[
        str,
        Argument(
            metavar="RECIPE",
            help="nano, small; albert-base, albert-large, albert-xlarge, albert-xxlarge, each also as -v2; "
            "bert-base, bert-large, bert-xlarge; continue (with init_from=MODEL); study; albert-nano-en; "
            "or a YAML file.",
        ),
    ],
    data: Annotated[str, Option(help="Prepared corpus, or its URL.")],
    out: Annotated[Path, Option(help="Run folder; the model is in OUT/model.")],
    settings: Annotated[list[str] | None, key_values("num_steps=5000 optimizer.learning_rate=1e-3")] = None,
    resume: Resume = False,
    budget: Budget = None,
    batch_size: Annotated[
        int | None, Option(help="Batch size; also rescales learning rate and steps.")
    ] = None,
    seed: Annotated[int | None, Option(help="Seed of weights, examples and dropout. [default: 0]")] = None,
) -> CommandResult:
    """Pretrain a model on a prepared corpus. Ctrl-C stops and saves; --resume continues."""
    from albert.settings import add_seed
    from albert.training.pretrain import pretrain as run

    with ProgressDisplay() as display:
        result = run(
            recipe,
            data=data,
            out=out,
            overrides=add_seed(settings or [], seed),
            batch_size=batch_size,
            budget=budget,
            resume=resume,
            reporter=display,
        )
    progress = result.outcome.progress
    scores = {f"held out, {key.replace('_', ' ')}": f"{score:.4f}" for key, score in progress.figures.items()}
    return report_run(
        result,
        num_steps=result.settings.num_steps,
        data={"tokens": progress.num_tokens, "held_out": progress.figures},
        rows={"tokens": f"{progress.num_tokens:,}", **scores},
    )
