"""`albert distill`: train a small model to follow a trained one."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from albert.cli.command import Budget, CommandResult, ProgressDisplay, Resume, key_values, report_run


def distill(
    recipe: Annotated[str, Argument(metavar="RECIPE", help="mini, or a YAML file")],
    teacher: Annotated[str, Option(help="folder or name of a BERT, ALBERT or sentence-transformers model")],
    data: Annotated[str, Option(help="prepared corpus, or a file or folder of text")],
    out: Annotated[Path, Option(help="folder of the run; its model is in OUT/model")],
    settings: Annotated[list[str] | None, key_values("num_steps=5000 distillation.mlm_weight=0")] = None,
    vocab: Annotated[str | None, Option(help="vocabulary of the student [default: the teacher's]")] = None,
    resume: Resume = False,
    budget: Budget = None,
    batch_size: Annotated[int | None, Option(help="rescales learning rate and steps as well")] = None,
    seed: Annotated[int | None, Option(help="of weights, examples and dropout")] = None,
) -> CommandResult:
    """Distill a teacher into a smaller model. Press Ctrl-C to stop and save; --resume continues."""
    from albert.settings import add_seed
    from albert.training.pretrain import distill as run

    with ProgressDisplay() as display:
        result = run(
            recipe,
            teacher=teacher,
            data=data,
            out=out,
            vocab=vocab,
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
