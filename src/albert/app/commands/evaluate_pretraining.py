"""A pretrained model and text that it has not seen come in; figures with their intervals go out."""

import dataclasses
from pathlib import Path
from typing import Any

from albert.app.progress import ProgressDisplay
from albert.app.results import CommandResult
from albert.errors import InputError

NUM_EXAMPLES = 2000


def evaluate_pretrained(
    model: str,
    data: str,
    *,
    num_examples: int | None,
    held_out: bool,
    depth: int | None,
    device: str,
    revision: str | None,
    overrides: list[str],
) -> CommandResult:
    """Masked words, sentence order, next sentence: whatever the model has a head for."""
    number = NUM_EXAMPLES if num_examples is None else num_examples
    if number < 1:
        raise InputError(f"--examples is {number}; at least 1")
    scores = _evaluate(model, data, number, held_out, depth, device, revision, overrides)
    values = {
        "model": model,
        "data": data,
        "scores": {
            name: {**dataclasses.asdict(score), "interval": score.interval} for name, score in scores.items()
        },
    }
    return CommandResult(values, lambda console: _render(console, scores))


def _evaluate(
    model: str,
    data: str,
    num_examples: int,
    held_out: bool,
    depth: int | None,
    device: str,
    revision: str | None,
    overrides: list[str],
) -> dict[str, Any]:
    from albert.corpus.corpus import open_corpus
    from albert.examples.settings import ExampleSettings
    from albert.model.runtime import select_device
    from albert.pretrained.folder import check_vocabulary, load_model, load_vocabulary
    from albert.settings import build_settings
    from albert.training.evaluation import evaluate_pretraining
    from albert.training.pretrain_job import open_data
    from albert.training.settings import HeldOutSettings

    found = load_model(model, revision=revision, device=select_device(device))
    tokenizer = load_vocabulary(found.path)
    check_vocabulary(found.config, tokenizer)
    found.model.head("mlm")
    run = _find_run(found.path)
    asked = HeldOutSettings() if run is None else run.held_out
    objective = "sop" if run is None else run.examples.objective
    with ProgressDisplay() as display:
        if held_out:
            corpus = open_data(data, asked, objective=objective, reporter=display).held_out
        else:
            corpus = open_corpus(data, reporter=display)
    limit = found.config.max_position_embeddings
    length = min(512, limit) if run is None else run.examples.max_length
    rules = build_settings(
        ExampleSettings, values={"max_length": length}, overrides=overrides, source="evaluate"
    )
    if rules.max_length > limit:
        raise InputError(f"max_length {rules.max_length} exceeds the model's {limit} positions; lower it")
    num_passes = 1 + 2 * any(head in found.model.heads for head in ("sop", "nsp"))
    done = 0
    with ProgressDisplay() as display:

        def advance(number: int) -> None:
            nonlocal done
            done += number
            display.show(
                "evaluate", f"{done:,} examples", fraction=min(1.0, done / (num_examples * num_passes))
            )

        return evaluate_pretraining(
            found.model,
            corpus,
            tokenizer,
            settings=rules,
            num_examples=num_examples,
            depth=depth,
            advance=advance,
        )


def _find_run(model: Path) -> Any:
    """The settings that a model was trained with, where its run folder is still around it."""
    from albert.training.run_folder import has_run, read_pretrain_run

    for folder in (model, model.resolve().parent):
        if has_run(folder):
            return read_pretrain_run(folder)[0]
    return None


def _render(console: Any, scores: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table("", "mean", "95% interval", "answers")
    for name, score in scores.items():
        interval = "–" if score.interval is None else "{:.4f} – {:.4f}".format(*score.interval)
        table.add_row(name.replace("_", " "), f"{score.mean:.4f}", interval, f"{score.count:,}")
    console.print(table)
