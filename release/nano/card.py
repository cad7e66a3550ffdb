"""Write the model card from measurements: README.md and its plots; no figure is typed in."""

import argparse
from pathlib import Path

from albert.files import read_json, write_text
from albert.pretrained.huggingface import CARD_NAME
from albert.progress import Reporter, format_seconds
from albert.report.charts import draw_chart
from albert.report.content import Page
from albert.report.write import FIGURES, format_markdown
from release.nano.card_answers import describe_answers
from release.nano.card_data import describe_data
from release.nano.card_prose import FRONT_MATTER, LICENCE, LIMITS
from release.nano.card_run import Run, describe_shape, describe_training, read_finished_run
from release.nano.card_scores import describe_scores
from release.nano.card_tasks import describe_checkpoints, describe_tasks, read_results
from release.nano.checkpoints import read_lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the step."""
    parser.add_argument("--run", type=Path, required=True, help="the finished run")
    parser.add_argument("--recipe", default="nano", help="the recipe that the run was begun with")
    parser.add_argument("--data", type=Path, required=True, help="data.json")
    parser.add_argument("--scores", type=Path, required=True, help="scores.json")
    parser.add_argument("--downstream", type=Path, required=True, help="the --out of bench.downstream")
    parser.add_argument("--checkpoints", type=Path, required=True, help="checkpoints.jsonl")
    parser.add_argument("--answers", type=Path, required=True, help="answers.json")
    parser.add_argument("--out", type=Path, required=True, help="a folder for README.md and figures/")


def run(args: argparse.Namespace, reporter: Reporter) -> str:
    """Write the pictures, then the card that shows them."""
    page = build_page(args)
    for chart in page.charts:
        reporter.show("card", f"drawing {chart.name}")
        write_text(args.out / FIGURES / f"{chart.name}.svg", draw_chart(chart))
    write_text(args.out / CARD_NAME, FRONT_MATTER + format_markdown(page))
    return f"{args.out / CARD_NAME}: {len(page.sections)} sections, {len(page.charts)} pictures"


def build_page(args: argparse.Namespace) -> Page:
    """What the card says, before it is written."""
    found, data = read_finished_run(args.run), read_json(args.data)
    return Page(
        title="albert-nano-en",
        lead=_summarise(found),
        sections=[
            describe_shape(found),
            describe_data(data),
            describe_training(found, recipe=args.recipe, data=data),
            *describe_scores(read_json(args.scores)),
            describe_tasks(read_results(args.downstream), args.downstream),
            describe_checkpoints(read_lines(args.checkpoints)),
            *describe_answers(read_json(args.answers)),
            LIMITS,
            LICENCE,
        ],
    )


def _summarise(found: Run) -> str:
    return (
        f"A small English ALBERT, trained from nothing in {format_seconds(found.seconds)} without a GPU, on "
        "books that anyone may use. It comes with the package `albert-encoder` as `nano`; `transformers` "
        "opens it, too."
    )
